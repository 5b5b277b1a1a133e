package fastlinq

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"tapir/nic/fastlinq/ll2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// LL2Job is what a light L2 connection of type TEST is to do: send frames of EtherType
// 0x9000 (loopback protocol), and count those that come for the NIC's station.
type LL2Job struct {
	To      ether.Addr
	Dest    ll2.Dest
	Count   int    // frames
	Size    int    // octets behind the Ethernet header
	Buffers int    // that each frame is sent from, the header included; 0: 1
	VLAN    uint16 // 0: the NIC's
	// Wait is how long the connection stays when all has left.
	Wait time.Duration
}

// LL2Report is what has become of it. Each buffer and frame that was posted is either
// complete or released.
type LL2Report struct {
	Sent     ll2.Use   `json:"sent"`
	Received ll2.Use   `json:"received"` // buffers
	Changed  uint64    `json:"changed"`  // frames that were not as they are sent
	Stats    ll2.Stats `json:"stats"`
}

// ll2Test is such a connection.
type ll2Test struct {
	l      *lightL2
	c      *ll2.Conn
	job    LL2Job
	data   []byte
	header []byte
	sent   int
	heard  func([]byte) // gets what follows the header of each frame, borrowed
	report LL2Report
	timer  func() // cancels the end
	err    error
	done   func(LL2Report, error)
}

// Sizes of its queues.
const (
	testRx      = 64
	testTx      = 8 * ll2.MaxBDs
	ll2TestTime = 5 * time.Second // within which all has left
)

// LL2Test does a job; done gets the report from a later Poll. BUSY: one is under way, or
// the function has all its connections; INVAL: there is no such job, or the driver is not
// loaded.
func (d tools) LL2Test(job LL2Job, now frame.Time, done func(LL2Report, error)) error {
	d.nic.Enter(now)
	job.Buffers, job.VLAN = max(job.Buffers, 1), cmp.Or(job.VLAN, d.cfg.VLAN)
	if job.Count < 0 || job.Size < 0 || job.Size > d.cfg.MTU || job.Size < job.Buffers-1 || job.VLAN > 4094 ||
		job.Wait < 0 {
		return status.Inval.Errorf("%d frames of %d octets, at most %d, from %d buffers in VLAN %d", job.Count,
			job.Size, d.cfg.MTU, job.Buffers, job.VLAN)
	}
	data := make([]byte, job.Size)
	for i := range data {
		data[i] = byte(i)
	}
	t := &ll2Test{job: job, data: data, done: done}
	t.heard = func(b []byte) {
		for i, octet := range b {
			if octet != byte(i) {
				t.report.Changed++
				return
			}
		}
	}
	return d.light.begin(t)
}

// begin starts a test.
func (l *lightL2) begin(t *ll2Test) error {
	if err := l.loaded(); err != nil {
		return err
	}
	if l.test != nil {
		return status.Busy.Errorf("%s: a test of light L2 runs", l.d.cfg.Name)
	}
	c, err := l.manager.Acquire(ll2.Params{Type: ll2.Test, MTU: l.d.cfg.MTU, RxDescs: testRx, TxDescs: testTx,
		RemoveVLAN: true, TxDest: t.job.Dest},
		ll2.Callbacks{RxComplete: t.received, RxRelease: func(any, []byte) {},
			TxComplete: func(any, []byte) { t.send() }, TxRelease: func(any, []byte) {}})
	if err != nil {
		return err
	}
	t.l, t.c, l.test = l, c, t
	t.header = ether.Header{Src: l.d.cfg.MAC, Dst: t.job.To, Type: ether.TypeLoopback}.AppendTo(nil)
	if err := t.open(); err != nil {
		l.test = nil
		return errors.Join(err, c.Release())
	}
	t.timer = l.d.nic.Schedule(l.d.now().Add(ll2TestTime+t.job.Wait), t.end)
	t.send()
	return nil
}

// open establishes the connection and gives it buffers.
func (t *ll2Test) open() error {
	if err := t.c.Establish(); err != nil {
		return err
	}
	size := t.c.Params().MTU + ll2.HeaderLen
	for i := range testRx {
		if err := t.c.PostRx(make([]byte, size), t, i == testRx-1); err != nil {
			return errors.Join(err, t.c.Terminate())
		}
	}
	return nil
}

// send sends what there is room for, and ends when all has left.
func (t *ll2Test) send() {
	for t.sent < t.job.Count {
		err := t.packet()
		if errors.Is(err, status.Busy) {
			return // until one completes
		}
		if err != nil {
			t.err = err
			t.timer()
			t.timer = t.l.d.nic.Schedule(t.l.d.now(), t.end)
			return
		}
		t.sent++
	}
	if t.c.TxUse().Owned == 0 {
		t.timer()
		t.timer = t.l.d.nic.Schedule(t.l.d.now().Add(t.job.Wait), t.end)
	}
}

// packet sends one from as many buffers as the job wants: the header, and parts of the
// data.
func (t *ll2Test) packet() error {
	n := t.job.Buffers
	first, rest := t.header, t.data
	if n == 1 {
		first, rest = append(bytes.Clone(t.header), t.data...), nil
	}
	err := t.c.PrepareTx(ll2.Tx{Cookie: t, First: first, BDs: n, Tagged: t.job.VLAN != 0, TCI: t.job.VLAN})
	for i := n - 1; err == nil && i > 0; i-- {
		part := len(rest) / i
		err = t.c.SetFragment(rest[:part])
		rest = rest[part:]
	}
	return err
}

// received takes a frame and gives its buffer back.
func (t *ll2Test) received(rx ll2.Rx) {
	if _, n, err := ether.Parse(rx.Buf[:rx.Len]); err == nil {
		t.heard(rx.Buf[n:rx.Len])
	}
	t.l.d.management.note(t.c.PostRx(rx.Buf, rx.Cookie, true))
}

// end closes the connection and reports.
func (t *ll2Test) end(frame.Time) {
	t.timer()
	t.l.test = nil
	t.report.Stats = t.l.fw.Stats(t.c.Handle())
	err := cmp.Or(t.err, t.c.Terminate(), t.c.Release())
	t.report.Sent, t.report.Received = t.c.TxUse(), t.c.RxUse()
	t.done(t.report, err)
}

// cancel ends a test early; nil: there is none.
func (t *ll2Test) cancel() {
	if t != nil {
		t.end(t.l.d.now())
	}
}

// EndLL2Test ends the job that is under way.
func (d tools) EndLL2Test(now frame.Time) {
	d.nic.Enter(now)
	d.light.test.cancel()
}

// sendSelf sends a payload, from three buffers, to the NIC's own station, and heard gets
// what comes back. The connection stays until endSelf.
func (d tools) sendSelf(payload []byte, heard func([]byte)) error {
	t := &ll2Test{job: LL2Job{To: d.cfg.MAC, Count: 1, Buffers: 3, VLAN: d.cfg.VLAN, Wait: time.Minute}, data: payload,
		heard: heard, done: func(LL2Report, error) {}}
	return d.light.begin(t)
}
