package frame

import (
	"fmt"
	"testing"
)

func TestFrameWindow(t *testing.T) {
	f := New(make([]byte, DefaultHeadroom+32), nil)
	f.Append([]byte("payload"))
	copy(f.Prepend(4), "head")
	if got := string(f.Bytes()); got != "headpayload" {
		t.Fatalf("bytes = %q", got)
	}
	f.TrimFront(4)
	f.Truncate(3)
	if got := string(f.Bytes()); got != "pay" {
		t.Fatalf("after trim = %q", got)
	}
	if f.Headroom() != DefaultHeadroom || f.Tailroom() != 29 {
		t.Fatalf("room = %d, %d", f.Headroom(), f.Tailroom())
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	f := New(make([]byte, 128), nil)
	f.Release()
	defer func() {
		if recover() == nil {
			t.Fatal("second release went unnoticed")
		}
	}()
	f.Release()
}

// Every reason is named once; numbers and names that cannot be registered are
// a mistake of the program. No other package registers reasons in this test.
func TestDropReasons(t *testing.T) {
	RegisterDrops(7, "a", "b")
	for _, f := range []func(){
		func() { RegisterDrops(8, "c") },
		func() { RegisterDrops(DropNone, "c") },
		func() { RegisterDrops(20, "") },
		func() { RegisterDrops(MaxDropReasons-1, "last", "c") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a registration that cannot hold went unnoticed")
				}
			}()
			f()
		}()
	}
	var got string
	for r := range DropReasons() {
		got += fmt.Sprint(int(r), "=", r, " ")
	}
	var counted string
	for r, n := range (&Drops{7: 1, 95: 2, 20: 3}).Counted() {
		counted += fmt.Sprint(r.Counter(), n, " ")
	}
	if counted != "a1 last2 " && counted != "a 1 last 2 " {
		t.Errorf("counted %q", counted)
	}
	if want := "7=a 8=b 95=last "; got != want || DropNone.String() != "none" || DropReason(20).String() != "unknown" || DropReason(250).String() != "unknown" {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

func TestDrops(t *testing.T) {
	var d Drops
	d.Count(3)
	d.Count(DropNone)
	d.Add(&Drops{3: 2, 4: 1})
	if d != (Drops{DropNone: 1, 3: 3, 4: 1}) || d.Total() != 4 {
		t.Errorf("%v, total %d", d, d.Total())
	}
}

func TestNotesTake(t *testing.T) {
	n := Notes{On: true}
	n.Addf("QP %d", 3)
	n.Addf("WR %d", 7)
	n.Drop(DropReason(7))
	notes, d := n.Take()
	if c := (&Record{Notes: notes}).Text(); c != "QP 3\nWR 7" || d != DropReason(7) {
		t.Fatalf("took %q, %v", c, d)
	}
	if c, d := n.Take(); c != nil || d != DropNone {
		t.Fatalf("second take %v, %v", c, d)
	}
}

func TestNotesRepeat(t *testing.T) {
	n := Notes{On: true}
	say := func(s string) uint64 { return n.Append(func(b []byte) []byte { return append(b, s...) }) }
	a := say("a")
	first := n.Repeat(a, 1) && n.Repeat(a, 1)
	b := say("b")
	stale := n.Repeat(a, 1)
	notes, _ := n.Take()
	kept := KeepNotes(notes)
	if later := n.Repeat(b, 1); !first || stale || later {
		t.Fatalf("repeats %v, of one before %v, in the next frame %v", first, stale, later)
	}
	say("something else")
	if c := (&Record{Notes: kept}).Text(); c != "a (3 times)\nb" {
		t.Fatalf("kept %q", c)
	}
}
