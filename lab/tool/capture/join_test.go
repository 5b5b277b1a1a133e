package capture

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tapir/nic/msglog"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// tcpOf is a TCP segment with n octets of payload, all of them fill.
func tcpOf(n int, fill byte) []byte {
	r := superFrame(1)
	b := append(bytes.Clone(r.Data[:54]), bytes.Repeat([]byte{fill}, n)...)
	b[16], b[17] = byte((40+n)>>8), byte(40+n)
	return b
}

// rows are the packets and lines of a capture, a string each.
func rows(f file) (list []string) {
	for _, p := range f.packets {
		list = append(list, strings.TrimSpace(strings.Join(append([]string{
			f.ifaces[p.Interface].Name, map[pcapng.Flags]string{pcapng.Inbound: "in", pcapng.Outbound: "out"}[p.Flags.Direction()],
			string('0' + rune(p.ID)), string(p.Data[54]),
		}, p.Comments...), " ")))
	}
	return list
}

// joined writes what tell tells of a link from a NIC to a host.
func joinedFile(t *testing.T, opt JoinOptions, tell func(j *Join, a, h uint32)) file {
	t.Helper()
	var b bytes.Buffer
	j := NewJoin(NewLab(&b), opt)
	a, h := j.Add(End{Link: "l", Node: "a"}, true), j.Add(End{Link: "l", Node: "h"}, false)
	tell(j, a, h)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.Bytes())
}

func TestJoin(t *testing.T) {
	at := func(dir frame.Direction, stamp frame.Stamp, id uint64, fill byte, note string) *frame.Record {
		r := &frame.Record{Dir: dir, System: stamp, ID: id, Data: tcpOf(200, fill)}
		if note != "" {
			r.Notes = frame.Say(note)
		}
		return r
	}
	// The node has cut the frame, with its checksum left to the device.
	cut := func(r *frame.Record) *frame.Record {
		r.Data[50]++
		return r
	}
	f := joinedFile(t, JoinOptions{Window: 1000}, func(j *Join, a, h uint32) {
		j.Node(a, cut(at(frame.Outbound, 100, 9, 'x', "QP 1")))
		j.Link(a, at(frame.Outbound, 110, 1, 'x', "lost on the link"))
		j.Node(a, at(frame.Outbound, 120, 9, 'y', "QP 2"))
		j.Say(&pcapng.Journal{Stamp: 125, Host: "a", Message: []byte("done")})
		j.Link(a, at(frame.Outbound, 130, 2, 'y', ""))
		j.Link(h, at(frame.Inbound, 140, 2, 'y', ""))
		j.Link(h, at(frame.Outbound, 150, 3, 'z', ""))
		j.Link(a, at(frame.Inbound, 160, 3, 'z', ""))
		j.Link(a, at(frame.Inbound, 161, 4, 'z', ""))  // the same once more
		j.Link(a, at(frame.Outbound, 155, 7, 'o', "")) // out of its time
		n := at(frame.Inbound, 170, 9, 'z', "QP 3")
		j.Node(a, n)
		n.Drop, n.System = drop.Fault, 171
		j.Node(a, n)
		r := at(frame.Outbound, 180, 9, 'd', "QP 4")
		r.Drop = drop.TxQueue
		j.Node(a, r)
		j.Node(a, at(frame.Outbound, 190, 9, 'n', "QP 5")) // nobody else has seen it
		j.Link(a, at(frame.Outbound, 200, 5, 'u', ""))     // nor that
		j.Link(h, at(frame.Outbound, 1300, 6, 'v', ""))    // time passes
		j.Node(a, at(frame.Outbound, 1301, 9, 'u', "too late"))
	})
	want := []string{
		"l:a out 1 x QP 1 lost on the link",
		"l:a out 2 y QP 2",
		"l:h in 2 y",
		"l:h out 3 z",
		"l:a out 7 o",
		"l:a in 3 z QP 3",
		"l:a in 4 z QP 3 dropped: injected fault",
		"l:a out 0 d QP 4 dropped: " + drop.TxQueue.String(),
		"l:a out 0 n QP 5 not seen on the link",
		"l:a out 5 u",
		"l:h out 6 v",
		"l:a out 0 u too late not seen on the link",
	}
	if d := cmp.Diff(want, rows(f)); d != "" {
		t.Error(d)
	}
	if len(f.said) != 1 {
		t.Errorf("%+v", f.said)
	}
}

// Frames that are joined in their place, as both sides tell the same octets next to each other, are joined as
// those that have to be looked for, since a checksum is left to the device.
func TestJoinInPlace(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		type told struct {
			node  bool
			dir   frame.Direction
			stamp frame.Stamp
			id    uint64
			fill  byte
		}
		var all []told
		for i := range 60 {
			at := frame.Stamp(100 + 10*i)
			x := told{dir: frame.Direction(rng.IntN(2)), stamp: at, id: uint64(i + 1), fill: byte('a' + rng.IntN(3))}
			y := x
			y.node, y.stamp = true, at+frame.Stamp(rng.IntN(30))
			if rng.IntN(8) > 0 {
				all = append(all, x)
			}
			if rng.IntN(8) > 0 {
				all = append(all, y)
			}
			if n := len(all); n > 1 && rng.IntN(3) == 0 {
				all[n-1], all[n-2] = all[n-2], all[n-1]
			}
		}
		file := func(differs bool) []string {
			return rows(joinedFile(t, JoinOptions{Window: 200}, func(j *Join, a, _ uint32) {
				for _, x := range all {
					r := &frame.Record{Dir: x.dir, System: x.stamp, ID: x.id, Data: tcpOf(200, x.fill)}
					if !x.node {
						r.Notes = frame.Say(fmt.Sprint("link ", x.id))
						j.Link(a, r)
						continue
					}
					if differs {
						r.Data[50]++
					}
					r.Notes = frame.Say(fmt.Sprint("node ", x.id))
					j.Node(a, r)
				}
			}))
		}
		if d := cmp.Diff(file(true), file(false)); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

// What is held is bounded, even if one side never tells.
func TestJoinIsBounded(t *testing.T) {
	var j *Join
	f := joinedFile(t, JoinOptions{Octets: 10_000}, func(x *Join, a, _ uint32) {
		j = x
		for i := range 1000 {
			x.Link(a, &frame.Record{Dir: frame.Outbound, System: frame.Stamp(i), ID: 1, Data: tcpOf(100, byte(i))})
			if x.octets > 10_000 || len(x.waiting) > 40 {
				t.Fatalf("%d octets, %d wait", x.octets, len(x.waiting))
			}
		}
	})
	if len(f.packets) != 1000 || len(j.waiting) != 0 {
		t.Errorf("%d packets, %d wait", len(f.packets), len(j.waiting))
	}
}

// A super-frame meets the segments that the node tells of, each with its note.
func TestJoinSegments(t *testing.T) {
	f := joinedFile(t, JoinOptions{}, func(j *Join, a, h uint32) {
		r := superFrame(3)
		r.Notes = []frame.Note{{Text: []byte("first"), Times: 1}, {Text: []byte("more"), Times: 2}}
		j.Node(a, r)
		r.Notes, r.ID = nil, 1
		j.Link(a, r)
	})
	var got []string
	for _, p := range f.packets {
		got = append(got, string('0'+rune(p.ID))+" "+strings.Join(p.Comments, " "))
	}
	if d := cmp.Diff([]string{"1 first", "2 more", "3 more"}, got); d != "" {
		t.Error(d)
	}
}

// What sessions have written is joined as what is told.
func TestJoinReadsParts(t *testing.T) {
	var link, node, out bytes.Buffer
	c := New(&link, Info{Name: "l", Host: "far"}, Options{Host: true, Number: true})
	n := New(&node, Info{Name: "a"}, Options{SnapLen: JoinPrefix, Log: msglog.WR})
	r := superFrame(3)
	for i := range 3 {
		r.System, r.ID, r.Port = frame.Stamp(1000*i+1), uint64(3*i+1), frame.Wire
		r.Notes = frame.Say("QP 7")
		n.Trace(r)
		n.Line(msglog.WR, r.System, []byte("QP 7 done WR 1"))
		n.Line(msglog.MM, r.System, []byte("not wanted"))
		r.Notes = nil
		c.Trace(r)
		r.Dir, r.Port, r.System = frame.Inbound, 1, r.System+1
		c.Trace(r)
		r.Dir = frame.Outbound
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	j := NewJoin(NewLab(&out), JoinOptions{})
	a, h := j.Add(End{Link: "l", Node: "a"}, true), j.Add(End{Link: "l", Node: "h"}, false)
	broken := node.Bytes()[:node.Len()-3] // its process was killed
	lost, err := j.Read([]Part{{Name: "l", R: &link, Ifaces: []uint32{a, h}}, {Name: "a", R: bytes.NewReader(broken), Ifaces: []uint32{a}, Node: true}})
	if err != nil || lost != 0 || j.Close() != nil {
		t.Fatal(lost, err)
	}
	f := parse(t, out.Bytes())
	if len(f.packets) != 18 || len(f.said) != 3 {
		t.Fatalf("%d packets, %d lines", len(f.packets), len(f.said))
	}
	ids := map[uint64]int{}
	for _, p := range f.packets {
		ids[p.ID]++
		if len(p.Data) != 154 || (p.Interface == a) != (len(p.Comments) > 0 && p.Comments[0] == "QP 7") && p.ID%3 == 1 {
			t.Errorf("%+v", p)
		}
	}
	for id := uint64(1); id <= 9; id++ {
		if ids[id] != 2 {
			t.Errorf("frame %d: %d times", id, ids[id])
		}
	}
}

func TestSelect(t *testing.T) {
	var lab bytes.Buffer
	if err := twoEnds(&lab); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keep Keep
		want int
	}{{AtEnd("a-b:b"), 1}, {AtEnd("a-b:a"), 5}, {Entering("a-b"), 5}, {Entering("a"), 0}} {
		var out bytes.Buffer
		n, err := Select(&out, bytes.NewReader(lab.Bytes()), c.keep)
		if f := parse(t, out.Bytes()); err != nil || n != c.want || len(f.packets) != n || len(f.ifaces) != 2 {
			t.Errorf("%d packets, want %d: %v", n, c.want, err)
		}
	}
	if _, err := Select(io.Discard, strings.NewReader("no capture"), AtEnd("x")); err == nil {
		t.Error("no error")
	}
}

func TestLineDoesNotAllocate(t *testing.T) {
	s := New(io.Discard, info, Options{Log: msglog.All, Buffer: 1 << 20})
	defer s.Close()
	text := []byte("QP 3 done WR 17 RDMA Write: success len 8 CQ 1")
	if n := testing.AllocsPerRun(1000, func() { s.Line(msglog.WR, 1, text) }); n > 0 {
		t.Errorf("%v allocations per line", n)
	}
}
