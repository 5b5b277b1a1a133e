package iov_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/iov/vfdrv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
)

// raw is a VF's driver that keeps what the PF writes, write by write.
type raw struct{ writes []write }

type write struct {
	addr uint64
	b    []byte
}

func (r *raw) Write(addr uint64, b []byte) error {
	r.writes = append(r.writes, write{addr, bytes.Clone(b)})
	return nil
}

// A reply's first octets, with the status, are written last: until then the VF polls.
//
// IO-12
func TestReplyOrder(t *testing.T) {
	w := newWorld(t, 1, iov.Hooks{})
	r := &raw{}
	w.ok(w.pf.Connect(0, r))
	q := &tlv.AcquireRequest{BulletinAddr: 0x9000, BulletinSize: 80}
	q.VF.HSIMajor = iov.HSIMajor
	w.ok(w.pf.Deliver(0, tlv.Request(tlv.Acquire, 0x5000, q)))
	if len(r.writes) != 3 || r.writes[0].addr != 0x9000 || len(r.writes[0].b) != 80 || r.writes[1].addr != 0x5008 ||
		len(r.writes[1].b) != 256 || r.writes[2].addr != 0x5000 ||
		!bytes.Equal(r.writes[2].b, []byte{1, 0, 0, 1, uint8(tlv.Success), 0, 0, 0}) {
		t.Errorf("%x", r.writes)
	}
}

// The hardware's channel holds one message until the PF's driver processes it; one more
// is the VF's mistake.
//
// IO-02 IO-03 IO-08 IO-10 IO-11
func TestHardwareChannel(t *testing.T) {
	var told []int
	w := newWorldOf(t, 70, iov.Config{HWChannel: true, Info: iov.Info{Total: 120}, Hooks: iov.Hooks{
		Message: func(vf int) error { told = append(told, vf); return nil }}})
	r := &raw{}
	w.ok(w.pf.Connect(66, r))
	msg := tlv.Request(tlv.Release, 0x5000, &tlv.First{})
	w.ok(w.pf.Deliver(66, msg))
	w.ok(w.pf.Deliver(3, msg))
	if e := w.pf.PendingEvents(); e != [3]uint64{1 << 3, 1 << 2} || fmt.Sprint(told) != "[66 3]" || len(r.writes) != 0 {
		t.Errorf("%b, %v, %x", e, told, r.writes)
	}
	w.code(status.Busy, w.pf.Deliver(3, msg))
	w.pf.Process(66)
	w.pf.Process(66) // nothing waits
	if len(r.writes) != 2 || w.info(66).Malicious || !w.info(3).Malicious || fmt.Sprint(w.evil) != "[3 CHANNEL_NOT_READY]" {
		t.Errorf("%x %v", r.writes, w.evil)
	}
	w.ok(w.pf.Deliver(66, msg))
	w.ok(w.pf.FLR(66)) // a reset drops what waits
	w.pf.FLRCleanup()
	w.pf.Process(66)
	if len(r.writes) != 2 {
		t.Errorf("a message of the old life is answered: %x", r.writes)
	}
	w.ok(w.pf.SetToDisable(66, true))
	w.code(status.NoDev, w.pf.Deliver(66, msg))
}

// Types that the PF does not know: those of RDMA are refused, parts alone too, others are
// answered only where ACQUIRE asked for answers. Unknown parts are skipped.
//
// IO-15
func TestUnknown(t *testing.T) {
	w := newWorld(t, 1, iov.Hooks{})
	w.up(0)
	r := &raw{}
	w.ok(w.pf.Connect(0, r))
	for _, c := range []struct {
		typ   tlv.Type
		reply uint64
		want  tlv.Status
	}{
		{tlv.RDMAFirst, 0x77, tlv.NotSupported}, {tlv.RDMALast, 0x77, tlv.NotSupported}, {tlv.UpdateRSS, 0x77, tlv.NotSupported},
		{tlv.QID, 0x77, tlv.NotSupported}, {tlv.ListEnd, 0x77, tlv.NotSupported}, {62, 0x10000, tlv.NotSupported},
		{62, 0x77, tlv.Waiting}, {0xffff, 0x10000, tlv.NotSupported}, {0, 0x77, tlv.Waiting},
	} {
		r.writes = nil
		b := tlv.Request(c.typ, c.reply, &tlv.First{})
		w.ok(w.pf.Deliver(0, b))
		got := tlv.Waiting
		if len(r.writes) == 2 {
			got = tlv.Status(r.writes[1].b[4])
		}
		if c.typ == tlv.ListEnd { // it ends the list: there is no request
			c.want = got
		}
		if got != c.want {
			t.Errorf("%v to %#x: %v, want %v", c.typ, c.reply, got, c.want)
		}
	}
	r.writes = nil
	strip := &tlv.Flag{Header: tlv.Header{Type: tlv.UpdateVLANStrip, Length: 8}, On: 1}
	future := []byte{0x99, 0x99, 12, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	b := tlv.Request(tlv.VportUpdate, 0x77, &tlv.First{}, future, strip)
	w.ok(w.pf.Deliver(0, b))
	if len(r.writes) != 2 || tlv.Status(r.writes[1].b[4]) != tlv.Success || tlv.TypeOf(r.writes[0].b) != tlv.UpdateVLANStrip {
		t.Errorf("%x", r.writes)
	}
	long := append(tlv.Append(nil, &tlv.MTURequest{}), 1, 2, 3, 4) // of a driver from the future
	binary.LittleEndian.PutUint16(long[16:], 1400)
	binary.LittleEndian.PutUint16(long, uint16(tlv.UpdateMTU))
	binary.LittleEndian.PutUint16(long[2:], uint16(len(long)))
	w.ok(w.pf.Deliver(0, tlv.Append(long, &tlv.End{Header: tlv.Header{Type: tlv.ListEnd, Length: 8}})))
	if w.info(0).MTU != 1400 {
		t.Errorf("a longer UPDATE_MTU: %+v", w.info(0))
	}
}

// old drivers send only half of the bins.
func TestShortBins(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{})
	w.up(0)
	w.up(1)
	group := mac(3)
	group[0] = 1
	var bins l2.Bins
	bins.Add(group)
	q := &tlv.McastShort{Header: tlv.Header{Type: tlv.UpdateMcast, Length: 40}}
	for i, b := range bins {
		q.Bins[i/2] |= uint64(b) << (32 * (i % 2))
	}
	w.ok(w.pf.Deliver(0, tlv.Request(tlv.VportUpdate, 0x10000, &tlv.First{}, q)))
	if got := fmt.Sprint(w.send(1, eth(group, mac(1)))); got != "[[-1 -1] [0 -1]]" {
		t.Error(got)
	}
}

// messages are requests of a driver that is up, to begin with.
func messages() (list [][]byte) {
	of := func(t tlv.Type, first any, more ...any) {
		list = append(list, tlv.Request(t, 0x10000, first, more...))
	}
	acquire := &tlv.AcquireRequest{BulletinAddr: 0x20000, BulletinSize: 80}
	acquire.VF.HSIMajor = iov.HSIMajor
	of(tlv.Acquire, acquire)
	of(tlv.VportStart, &tlv.VportStartRequest{MTU: 1500})
	of(tlv.StartRxq, &tlv.StartRxqRequest{PBLSize: 1, Block: 100, BufSize: 2048})
	of(tlv.StartTxq, &tlv.StartTxqRequest{PBLSize: 1, Block: 100, Index: 1})
	of(tlv.VportUpdate, &tlv.First{},
		&tlv.Activate{Header: tlv.Header{Type: tlv.UpdateActivate, Length: 8}, UpdateRx: 1, UpdateTx: 1, Rx: 1, Tx: 1},
		&tlv.AcceptParam{Header: tlv.Header{Type: tlv.UpdateAcceptParam, Length: 8}, UpdateRx: 1, Rx: 0x3f},
		&tlv.RSS{Header: tlv.Header{Type: tlv.UpdateRSS, Length: 304}, Flags: 15, Enable: 1, TableLog: 7},
		&tlv.SGETPA{Header: tlv.Header{Type: tlv.UpdateSGETPA, Length: 24}, Update: 6, MaxAggregations: 64})
	of(tlv.UcastFilter, &tlv.UcastRequest{Op: 3, MAC: mac(0)})
	of(tlv.UcastFilter, &tlv.UcastRequest{Type: 1, VLAN: 5})
	of(tlv.UpdateMTU, &tlv.MTURequest{MTU: 9000})
	of(tlv.CoalesceUpdate, &tlv.CoalesceRequest{Rx: 20, Tx: 40})
	of(tlv.CoalesceRead, &tlv.CoalesceReadRequest{IsRx: 1})
	of(tlv.UpdateTunnParam, &tlv.TunnRequest{UpdateModes: 0x1f, Modes: 0x1f, UpdateVXLANPort: 1, VXLANPort: 4789})
	of(tlv.UpdateRxq, &tlv.UpdateRxqRequest{Num: 1})
	of(tlv.BulletinUpdateMAC, &tlv.MACRequest{MAC: mac(5)})
	of(tlv.StopRxqs, &tlv.StopRxqsRequest{Num: 1})
	of(tlv.StopTxqs, &tlv.StopTxqsRequest{Num: 1})
	for _, t := range []tlv.Type{tlv.VportTeardown, tlv.IntCleanup, tlv.Close, tlv.Release} {
		of(t, &tlv.First{})
	}
	of(tlv.SoftFLR, &tlv.SoftFLRRequest{})
	return list
}

// Mutated messages harm nobody: the firmware does not assert, the VF's requests stay
// within what it has (world), the other VF's state does not change and its frames pass.
//
// IO-25
func TestMutations(t *testing.T) {
	w := newWorld(t, 2, iov.Hooks{Tunnels: func(_ int, want l2.TunnelParams) (l2.TunnelParams, error) { return want, nil }})
	w.up(1)
	other := w.info(1)
	rnd, base := rand.New(rand.NewPCG(1, 2)), messages()
	for range 10_000 {
		b := bytes.Clone(base[rnd.IntN(len(base))])
		for range rnd.IntN(4) {
			mutate(rnd, &b)
		}
		_ = w.pf.Deliver(0, b)
		if w.info(0).Malicious {
			w.ok(w.pf.FLR(0))
			w.pf.FLRCleanup()
		}
	}
	now := w.info(1)
	now.BulletinVersion, now.Counts = other.BulletinVersion, other.Counts
	if !reflect.DeepEqual(now, other) {
		t.Errorf("the other VF changed from %+v to %+v", other, now)
	}
	if got := fmt.Sprint(w.send(1, eth(mac(9), mac(1)))); got != "[[-1 -1]]" && got != "[[-1 -1] [0 -1]]" {
		t.Errorf("the other VF sends to %s", got)
	}
	if c := w.info(0).Counts; c.Malformed == 0 || c.Replies < 5000 || w.info(0).Counts.Resets == 0 {
		t.Errorf("%+v", c)
	}
}

func mutate(rnd *rand.Rand, b *[]byte) {
	at := rnd.IntN(len(*b))
	switch rnd.IntN(4) {
	case 0:
		(*b)[at] = byte(rnd.Uint32())
	case 1:
		(*b)[at] ^= 1 << rnd.IntN(8)
	case 2:
		if *b = (*b)[:at]; len(*b) == 0 {
			*b = []byte{0}
		}
	case 3:
		*b = append((*b)[:at:at], append([]byte{byte(rnd.Uint32())}, (*b)[at:]...)...)
	}
}

// FuzzChannel: no message makes the firmware assert, and a reset brings any VF back.
func FuzzChannel(f *testing.F) {
	for _, b := range messages() {
		f.Add(b, uint8(8))
		f.Add(b, uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, before uint8) {
		w := newWorld(t, 2, iov.Hooks{})
		for _, m := range messages()[:min(int(before), len(messages()))] {
			_ = w.pf.Deliver(0, m)
		}
		_ = w.pf.Deliver(0, b)
		w.ok(w.pf.FLR(0))
		w.pf.FLRCleanup()
		w.drivers[0] = w.driver(0, vfdrv.Config{})
		w.up(0)
		if len(w.asserts) > 0 {
			t.Fatal(w.asserts)
		}
	})
}
