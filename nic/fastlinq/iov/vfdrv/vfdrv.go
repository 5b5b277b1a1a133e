// Package vfdrv is the driver of a VF (ecore_vf): what a PF's driver does by itself, it
// asks the PF for by messages, and what has changed it reads on its bulletin board. It
// has no clock and no goroutine; how messages travel is its Channel's matter, in the
// PF's process or from another.
package vfdrv

import (
	"fmt"
	"time"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// Channel is the way of messages to the PF. What the PF writes, the channel passes to
// Driver.Write.
type Channel interface {
	// Send hands a message, borrowed, to the PF.
	Send(msg []byte) error
	// Wait lets the PF work until done tells that it has answered. TIMEOUT: it has not.
	Wait(done func() bool) error
}

// Where a driver's memory lies, in its own addresses.
const (
	replyAddr    = 0x10000
	bulletinAddr = 0x20000
)

// attempts is how often a driver asks for resources (ECORE_VF_ACQUIRE_THRESH).
const attempts = 3

// softFLRPause is how long a driver waits after SOFT_FLR before it asks again.
const softFLRPause = 3 * time.Second

// Config is what a driver is like. The zero value has the newest versions.
type Config struct {
	HSIMajor, HSIMinor uint8  // of the fastpath; 0: those of this driver
	Capabilities       uint64 // tlv.VF100G and so on
	OSType             uint8
	OpaqueFID          uint16
	// Want are the resources to ask for first; zero: as many as a VF can have.
	Want tlv.Resources
	// BulletinSize is that of the driver's board, in octets; 0: tlv.BulletinLen.
	BulletinSize int
	// Pause lets time pass; nil: none has to.
	Pause func(time.Duration)
	// Log is told what the driver finds out; nil: nobody is.
	Log func(text string)
}

// Driver is the driver of a VF.
type Driver struct {
	cfg      Config
	ch       Channel
	reply    [tlv.BufferSize]byte
	posted   []byte // the bulletin, as the PF writes it
	board    tlv.Bulletin
	acquired bool
	got      tlv.AcquireReply
	caps     uint64 // as they were sent
	pairs    int    // queue pairs that Start has started
	mac      ether.Addr
}

// New returns the driver of a VF that is not acquired. Its bulletin board exists already
// (ecore_hw_prepare).
func New(ch Channel, cfg Config) *Driver {
	if cfg.HSIMajor == 0 {
		cfg.HSIMajor, cfg.HSIMinor = iov.HSIMajor, iov.HSIMinor
	}
	if cfg.Want == (tlv.Resources{}) {
		cfg.Want = tlv.Resources{RxQueues: iov.MaxQueues, TxQueues: iov.MaxQueues, Blocks: iov.MaxQueues,
			MACs: iov.MaxMACs, VLANs: iov.MaxVLANs, CIDs: iov.MaxCIDs}
	}
	if cfg.BulletinSize == 0 {
		cfg.BulletinSize = tlv.BulletinLen
	}
	return &Driver{cfg: cfg, ch: ch, posted: make([]byte, cfg.BulletinSize)}
}

// Write is the device writing to the driver's memory. INVAL: there is none.
func (d *Driver) Write(addr uint64, b []byte) error {
	for _, m := range []struct {
		at  uint64
		mem []byte
	}{{replyAddr, d.reply[:]}, {bulletinAddr, d.posted}} {
		if off := addr - m.at; addr >= m.at && off <= uint64(len(m.mem)) && len(b) <= len(m.mem)-int(off) {
			copy(m.mem[off:], b)
			return nil
		}
	}
	return status.Inval.Errorf("%d octets at %#x are not memory of the driver", len(b), addr)
}

// Refused is the error of a request that the PF has not granted.
type Refused struct {
	Type   tlv.Type
	Status tlv.Status
}

// Error names request and status.
func (r *Refused) Error() string { return fmt.Sprintf("%v: the PF answers %v", r.Type, r.Status) }

// Unwrap is the status code that belongs to it.
func (r *Refused) Unwrap() error {
	switch r.Status {
	case tlv.NotSupported:
		return status.NotImpl
	case tlv.NoResource:
		return status.NoResources
	case tlv.Forced:
		return status.Inval
	case tlv.Malicious:
		return status.Aborted
	case tlv.Acquired:
		return status.Busy
	}
	return status.IO
}

// send sends a request, with other TLVs behind its first, and waits for the reply, which
// it reads into reply unless that is nil.
func (d *Driver) send(t tlv.Type, first, reply any, more ...any) error {
	if d.Closed() {
		return status.Busy.Errorf("%v: the PF has closed the channel", t)
	}
	d.reply = [tlv.BufferSize]byte{}
	if err := d.ch.Send(tlv.Request(t, replyAddr, first, more...)); err != nil {
		return err
	}
	var r tlv.Reply
	if err := d.ch.Wait(func() bool { return d.reply[statusOffset] != uint8(tlv.Waiting) }); err != nil {
		return fmt.Errorf("%v: %w", t, err)
	}
	if err := tlv.Decode(d.reply[:], &r); err != nil {
		return err
	}
	if reply != nil {
		if err := tlv.Decode(d.reply[:], reply); err != nil {
			return err
		}
	}
	if r.Status != tlv.Success {
		return &Refused{t, r.Status}
	}
	return nil
}

// statusOffset is where a reply has its status, which the driver polls.
const statusOffset = 4

// simple sends a request without fields.
func (d *Driver) simple(t tlv.Type) error { return d.send(t, &tlv.First{}, nil) }

func (d *Driver) log(format string, args ...any) {
	if d.cfg.Log != nil {
		d.cfg.Log(fmt.Sprintf(format, args...))
	}
}

// Acquire has the PF grant resources to the VF: as many as are wanted, else what it
// suggests, in up to three attempts. If an earlier driver of the VF was killed, it has
// the VF reset first. INVAL: PF and driver do not fit together; NORESOURCES: too little
// is left.
func (d *Driver) Acquire() error {
	want := d.cfg.Want
	d.forget() // with what the PF has written since it closed the channel
	d.caps = d.cfg.Capabilities | tlv.VF100G
	for n, reset := 1, false; ; n++ {
		q := &tlv.AcquireRequest{Want: want, BulletinAddr: bulletinAddr, BulletinSize: uint32(d.cfg.BulletinSize)}
		q.VF = tlv.VFInfo{Capabilities: d.caps, OpaqueFID: d.cfg.OpaqueFID, OSType: d.cfg.OSType,
			HSIMajor: d.cfg.HSIMajor, HSIMinor: d.cfg.HSIMinor}
		d.got = tlv.AcquireReply{}
		err := d.send(tlv.Acquire, q, &d.got)
		pf := &d.got.PF
		switch s := d.got.Status; {
		case s == tlv.Success:
			return d.adopt()
		case s == tlv.NoResource && n < attempts:
			reduce(&want, &d.got.Got.Num)
			d.log("the PF suggests %d queues, %d MAC and %d VLAN filters", want.RxQueues, want.MACs, want.VLANs)
		case s == tlv.Acquired && !reset:
			reset = true
			if err := d.softFLR(); err != nil {
				return err
			}
		case s == tlv.NotSupported && pf.HSIMajor != 0 && pf.HSIMajor != d.cfg.HSIMajor:
			return status.Inval.Errorf("the PF's fastpath is %d.%d, the VF's driver has %d.%d: use a driver with %d.x",
				pf.HSIMajor, pf.HSIMinor, d.cfg.HSIMajor, d.cfg.HSIMinor, pf.HSIMajor)
		case s == tlv.NotSupported && pf.HSIMajor == 0 && d.caps&tlv.VFPreFPHSI == 0:
			d.log("the PF is older than the negotiation of versions: asking again")
			d.caps |= tlv.VFPreFPHSI
		default:
			return err
		}
	}
}

// adopt keeps what the PF has granted.
func (d *Driver) adopt() error {
	size := int(d.got.BulletinSize)
	if size > len(d.posted) {
		return status.Inval.Errorf("the PF agrees on a bulletin of %d octets: the driver has %d", size, len(d.posted))
	}
	d.posted, d.acquired = d.posted[:size], true
	return nil
}

// reduce shrinks a request to what the PF suggests.
func reduce(want, suggested *tlv.Resources) {
	for _, r := range []struct{ want, got *uint8 }{
		{&want.RxQueues, &suggested.RxQueues}, {&want.TxQueues, &suggested.TxQueues}, {&want.Blocks, &suggested.Blocks},
		{&want.MACs, &suggested.MACs}, {&want.VLANs, &suggested.VLANs}, {&want.Mcasts, &suggested.Mcasts},
		{&want.CIDs, &suggested.CIDs},
	} {
		*r.want = min(*r.want, *r.got)
	}
}

// softFLR has the PF reset the VF.
func (d *Driver) softFLR() error {
	d.log("the VF is acquired already: resetting it")
	err := d.send(tlv.SoftFLR, &tlv.SoftFLRRequest{}, nil)
	if err == nil && d.cfg.Pause != nil {
		d.cfg.Pause(softFLRPause)
	}
	return err
}

// Close ends the VF's interrupts (vf_pf_int_cleanup, CLOSE) and gives it back.
func (d *Driver) Close() error {
	for _, t := range []tlv.Type{tlv.IntCleanup, tlv.Close} {
		if err := d.simple(t); err != nil {
			return err
		}
	}
	return d.Release()
}

// Release gives the VF back to the PF.
func (d *Driver) Release() error {
	err := d.simple(tlv.Release)
	d.forget()
	return err
}

// forget is the end of what the PF has granted.
func (d *Driver) forget() {
	d.acquired, d.board, d.pairs, d.mac = false, tlv.Bulletin{}, 0, ether.Addr{}
	d.posted = make([]byte, d.cfg.BulletinSize)
}

// Closed tells whether the PF has closed the channel, as its driver ends: what it has
// granted is gone, and Acquire succeeds once the PF is back.
func (d *Driver) Closed() bool { return d.acquired && d.board.Valid&tlv.ChannelInvalid != 0 }
