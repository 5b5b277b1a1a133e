package frame

import "testing"

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

func TestAttachedMemory(t *testing.T) {
	f := New(make([]byte, DefaultHeadroom+8), nil)
	f.Append([]byte("he"))
	f.Attach([]byte("llo"), []byte(", w"))
	if a, b := f.Attached(); f.Len() != 8 || string(f.Bytes()) != "he" || string(a) != "llo" || string(b) != ", w" {
		t.Fatalf("%d octets: %q, %q, %q", f.Len(), f.Bytes(), a, b)
	}
	for range 2 { // once more changes nothing
		f.Linearize()
		if a, b := f.Attached(); string(f.Bytes()) != "hello, w" || f.Len() != 8 || a != nil || b != nil {
			t.Fatalf("linear: %q, %q, %q", f.Bytes(), a, b)
		}
	}
	f.Attach([]byte("x"), nil)
	f.Reset()
	if f.Len() != 0 {
		t.Errorf("%d octets after Reset", f.Len())
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

func TestEveryDropReasonHasAName(t *testing.T) {
	seen := map[string]bool{}
	for r := DropNone; r < NumDropReasons; r++ {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d: name %q", r, name)
		} else {
			seen[name] = true
		}
	}
}

func TestNotesTake(t *testing.T) {
	n := Notes{On: true}
	n.Addf("QP %d", 3)
	n.Addf("WR %d", 7)
	n.Drop(DropFragment)
	notes, d := n.Take()
	if c := (&Record{Notes: notes}).Text(); c != "QP 3\nWR 7" || d != DropFragment {
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
