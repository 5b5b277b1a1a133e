package capture

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// twoEnds writes a small lab: a frame that both ends see, one that is lost, a
// super-frame, and what a node says.
func twoEnds(w io.Writer) error {
	l := NewLab(w)
	a := l.Add(End{Link: "a-b", Node: "a", Far: "b", MTU: 1500, MAC: [6]byte{2, 0, 0, 0, 0, 1}})
	b := l.Add(End{Link: "a-b", Node: "b", Far: "a", MTU: 1500})
	f := frame.Record{Dir: frame.Outbound, Data: make([]byte, 60), System: 1000, ID: 1, Notes: frame.Say("QP 3 WR 17 RDMA Write last")}
	l.Packet(a, &f)
	l.Event(&pcapng.Journal{Stamp: 1001, Host: "a", Topic: "wr", Message: []byte("QP 3 done WR 17")})
	f.Dir, f.System, f.Notes = frame.Inbound, 2000, nil
	l.Packet(b, &f)
	l.Packet(a, &frame.Record{Dir: frame.Outbound, Data: make([]byte, 61), Stamp: 3000, ID: 2, Drop: drop.Fault})
	super := superFrame(3)
	super.ID, super.Notes = 3, []frame.Note{{Text: []byte("x"), Times: 2}, {Text: []byte("y"), Times: 1}}
	l.Packet(a, super)
	return l.Close()
}

func TestLab(t *testing.T) {
	var out bytes.Buffer
	if err := twoEnds(&out); err != nil {
		t.Fatal(err)
	}
	f := parse(t, out.Bytes())
	if len(f.ifaces) != 2 || f.ifaces[0].Name != "a-b:a" || f.ifaces[1].Name != "a-b:b" || f.ifaces[0].MAC[5] != 1 {
		t.Fatalf("%+v", f.ifaces)
	}
	type row struct {
		Iface    uint32
		Stamp    int64
		Dir      pcapng.Flags
		ID       uint64
		Len      int
		Comments []string
	}
	var got []row
	for _, p := range f.packets {
		got = append(got, row{p.Interface, p.Stamp, p.Flags.Direction(), p.ID, len(p.Data), p.Comments})
	}
	at := int64(superFrame(1).Stamp)
	want := []row{
		{0, 1000, pcapng.Outbound, 1, 60, []string{"QP 3 WR 17 RDMA Write last"}},
		{1, 2000, pcapng.Inbound, 1, 60, nil},
		{0, 3000, pcapng.Outbound, 2, 61, []string{"dropped: " + drop.Fault.String()}},
		{0, at, pcapng.Outbound, 3, 154, []string{"x"}},
		{0, at, pcapng.Outbound, 4, 154, []string{"x"}},
		{0, at, pcapng.Outbound, 5, 154, []string{"y"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(f.said) != 1 || f.said[0].Host != "a" || f.said[0].Stamp != 1001 {
		t.Errorf("%+v", f.said)
	}
	if len(f.stats) != 2 || f.stats[0].Received != 5 || f.stats[1].Received != 1 {
		t.Errorf("%+v", f.stats)
	}
}

func TestLabIsDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	if err := errors.Join(twoEnds(&a), twoEnds(&b)); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the files differ", err)
	}
	if err := twoEnds(broken{}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

// Of a frame whose offload cannot be done, the file says why it is whole.
func TestLabLeavesWhole(t *testing.T) {
	var out bytes.Buffer
	l := NewLab(&out)
	l.Add(End{Link: "a-b", Node: "a"})
	l.Packet(0, &frame.Record{Data: make([]byte, 60), Offload: frame.Offload{GSO: frame.GSOTCPv4, GSOSize: 100}, Drop: drop.Link})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if f := parse(t, out.Bytes()); len(f.packets) != 1 || len(f.packets[0].Comments) != 1 || len(f.packets[0].Data) != 60 {
		t.Errorf("%+v", f.packets)
	}
}

func TestLabDoesNotAllocate(t *testing.T) {
	l := NewLab(io.Discard)
	l.Add(End{Link: "a-b", Node: "a"})
	r, super := &frame.Record{Data: make([]byte, 1514), ID: 1, Notes: frame.Say("QP 3 WR 17 RDMA Write last"), Drop: drop.Fault}, superFrame(40)
	said := &pcapng.Journal{Stamp: 1, Host: "a", Topic: "wr", Message: []byte("QP 3 done WR 17")}
	if n := testing.AllocsPerRun(1000, func() { l.Packet(0, r); l.Packet(0, super); l.Event(said) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
