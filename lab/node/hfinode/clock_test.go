package hfinode_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node/hfinode"
	"tapir/nic/buf"
	"tapir/nic/ptp"
	"tapir/opa"
	"tapir/ptp/msg"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// cable keeps the frames that are sent on it.
type cable struct{ frames []*frame.Frame }

func (c *cable) Room() int               { return 8 }
func (c *cable) Transmit(f *frame.Frame) { c.frames = append(c.frames, f) }

// notes keeps what a tracer is told.
type notes struct{ lines []string }

func (n *notes) Trace(r *frame.Record) {
	for _, s := range r.Notes {
		n.lines = append(n.lines, string(s.Text))
	}
}

// clockZero is a system whose time of day is that of the engine.
type clockZero struct{}

func (clockZero) At(now frame.Time) frame.Stamp { return frame.Stamp(now) }

// pureHFI is an HFI in the test's time, with a vport in vESW 2 whose host is a
// cable, too.
func pureHFI(t *testing.T, lid opa.LID, f opa.Framing) (h *hfinode.HFI, fabric, host *cable, dev *vnic.Netdev) {
	t.Helper()
	fabric, host = &cable{}, &cable{}
	h, err := hfinode.NewHFI(hficonf.Config{Name: "h", GUID: uint64(lid), LID: lid, Framing: f,
		VNICs: []hficonf.VNIC{{VESW: 2}}}, hfinode.Env{Pool: buf.NewPool(64, 0), Wire: fabric, Clock: clockZero{}})
	must(t, err)
	h.Port().LinkUp(0)
	dev = h.VPorts().VESW(2)
	dev.SetHost(host)
	dev.Open()
	return h, fabric, host, dev
}

// A PTP message of a virtual NIC is stamped where its packet passes the fabric
// port, whatever the framing: at the sender when the frame has left, at the
// receiver when it was seen. Others are not, and nobody's is before the driver asks.
func TestVirtualNICStamps(t *testing.T) {
	for _, f := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		a, wire, _, dev := pureHFI(t, 1, f)
		b, _, host, _ := pureHFI(t, 2, f)
		for _, h := range []*hfinode.HFI{a, b} {
			_, err := h.PTP.SetHWTimestamps(ptp.HWConfig{TxType: ptp.TxOn, Filter: ptp.FilterV2Event}, 0)
			must(t, err)
		}
		said := &notes{}
		a.SetTracer(said)
		b.SetTracer(said)
		body := make([]byte, 44)
		body[1] = 2
		binary.BigEndian.PutUint16(body[30:], 7)
		body[29] = 1
		id := ptp.ID{Type: msg.Sync, Sequence: 7, Source: msg.PortIdentity{Port: 1}}
		pool := buf.NewPool(8, 0)
		m := pool.Get(200)
		m.Append(append(ether.Header{Dst: ether.Addr{1, 0x1b, 0x19}, Src: dev.MAC(), Type: ether.TypePTP}.AppendTo(nil), body...))
		a.FromHost(dev, []*frame.Frame{m}, 1000)
		a.Poll(1000)
		if len(wire.frames) != 1 {
			t.Fatalf("%v: %d frames left", f, len(wire.frames))
		}
		out := wire.frames[0]
		if _, ok, waiting := a.PTP.TxStamp(id); ok || !waiting {
			t.Errorf("%v: a stamp before the frame has left", f)
		}
		a.TxDone(out.ID, 1500, 1600)
		if s, ok, _ := a.PTP.TxStamp(id); !ok || s != 1500 {
			t.Errorf("%v: Tx stamp %v %v", f, s, ok)
		}
		out.Seen = 2500
		b.ReceiveFabric([]*frame.Frame{out}, 3000)
		b.Poll(3000)
		if s, ok := b.PTP.RxStamp(id); !ok || s != 2500 {
			t.Errorf("%v: Rx stamp %v %v", f, s, ok)
		}
		if len(host.frames) != 1 {
			t.Errorf("%v: %d frames reached the host", f, len(host.frames))
		}
		if got := strings.Join(said.lines, ", "); got != "tx stamp 0.000001500, rx stamp 0.000002500" {
			t.Errorf("%v: the capture says %s", f, got)
		}
	}
}

// A frame of a virtual NIC reaches the fabric, and one of the fabric its host,
// without an allocation.
func TestNoAllocation(t *testing.T) {
	a, wire, _, dev := pureHFI(t, 1, opa.FramingNSH)
	b, _, host, _ := pureHFI(t, 2, opa.FramingNSH)
	pool := buf.NewPool(8, 0)
	payload := append(ether.Header{Dst: ether.Broadcast, Src: dev.MAC(), Type: 0x88b5}.AppendTo(nil), make([]byte, 100)...)
	now, batch := frame.Time(0), make([]*frame.Frame, 1)
	if n := testing.AllocsPerRun(200, func() {
		now += 1e9
		f := pool.Get(200)
		f.Append(payload)
		batch[0] = f
		a.FromHost(dev, batch, now)
		a.Poll(now)
		b.ReceiveFabric(wire.frames, now)
		b.Poll(now)
		for _, f := range host.frames {
			f.Release()
		}
		wire.frames, host.frames = wire.frames[:0], host.frames[:0]
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := b.Port().Counts().RxPackets; got < 200 {
		t.Errorf("%d packets arrived", got)
	}
}
