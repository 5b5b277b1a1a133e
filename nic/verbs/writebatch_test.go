package verbs

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// distant is memory that is reached by calls alone. It notes them.
type distant struct {
	Bytes
	calls []string
	fail  bool
}

func (d *distant) Slice(uint64, int) []byte { return nil }

func (d *distant) ReadAt(p []byte, off uint64) error {
	err := d.Bytes.ReadAt(p, off)
	d.calls = append(d.calls, "read "+string(p))
	return err
}

func (d *distant) WriteAt(p []byte, off uint64) error {
	if d.fail {
		return errors.New("unmapped")
	}
	d.calls = append(d.calls, "write "+string(p))
	return d.Bytes.WriteAt(p, off)
}

func TestHold(t *testing.T) {
	f := newFixture(t, QPConfig{})
	far := &distant{Bytes: make([]byte, 200<<10)}
	mr, err := f.pd.RegMemory(far, 0, LocalWrite|RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.pd.RegShared(mr, 0, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	place := func(r *Region, s string, off uint64) {
		t.Helper()
		if err := r.Place([]byte(s), off); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(far.calls, want) {
			t.Errorf("%s: %q, want %q", what, far.calls, want)
		}
		far.calls = nil
	}
	place(&mr.Region, "a", 0)
	check("not held", "write a")
	f.dev.BatchWrites(true)
	place(&mr.Region, "b", 1)
	place(&mr.Region, "c", 2)
	check("held")
	place(&mr.Region, "e", 4)
	check("a gap", "write bc")
	place(&again.Region, "f", 5)
	check("another region", "write e")
	var p [2]byte
	if err := mr.Fetch(p[:], 4); err != nil {
		t.Fatal(err)
	}
	check("read", "write f", "read ef")
	place(&mr.Region, "g", 6)
	f.dev.BatchWrites(false)
	place(&mr.Region, "h", 7)
	check("the end of a message", "write gh")
	if err := f.dev.FlushWrites(); err != nil {
		t.Error(err)
	}
	check("nothing waits")
}

// scattered takes octets for several places at once.
type scattered struct{ *distant }

func (s scattered) WriteScattered(p []byte, places []Place) error {
	for _, at := range places {
		copy(s.Bytes[at.Off:], p[:at.N])
		s.calls = append(s.calls, fmt.Sprint(at.Off, " ", string(p[:at.N])))
		p = p[at.N:]
	}
	s.calls = append(s.calls, "together")
	return nil
}

// Octets for several places wait together where the memory takes them so.
func TestHoldScattered(t *testing.T) {
	f := newFixture(t, QPConfig{})
	far := scattered{&distant{Bytes: make([]byte, 64<<10)}}
	mr, err := f.pd.RegMemory(far, 0, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	f.dev.BatchWrites(true)
	for _, at := range []uint64{8, 9, 100, 9} {
		if err := mr.Place([]byte("x"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.dev.FlushWrites(); err != nil {
		t.Error(err)
	}
	if want := []string{"8 xx", "100 x", "9 x", "together"}; !slices.Equal(far.calls, want) {
		t.Errorf("%q, want %q", far.calls, want)
	}
	far.calls = nil
	for i := range uint64(writeBatchPlaces + 1) {
		if err := mr.Place([]byte("x"), 2*i); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(far.calls); n != writeBatchPlaces+1 {
		t.Errorf("%d calls when more places than may wait have come", n)
	}
	if err := f.dev.FlushWrites(); err != nil {
		t.Error(err)
	}
}

func TestHoldIsBounded(t *testing.T) {
	f := newFixture(t, QPConfig{})
	far := &distant{Bytes: make([]byte, 200<<10)}
	mr, err := f.pd.RegMemory(far, 0, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	f.dev.BatchWrites(true)
	for off := 0; off < 150<<10; off += 1 << 10 {
		if err := mr.Place(make([]byte, 1<<10), uint64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mr.Place(make([]byte, 50<<10), 150<<10); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, c := range far.calls {
		got = append(got, len(c)-len("write "))
	}
	if !slices.Equal(got, []int{writeBatchSize, writeBatchSize, 22 << 10}) {
		t.Errorf("written %v", got)
	}
	if err := mr.Place(make([]byte, writeBatchSize), 0); err != nil || len(far.calls) != 5 {
		t.Errorf("more than may wait: %v, %d calls", err, len(far.calls))
	}
}

// An error is told once, to whoever can tell whose it is.
func TestHoldErrors(t *testing.T) {
	f := newFixture(t, QPConfig{})
	far := &distant{Bytes: make([]byte, 100)}
	mr, err := f.pd.RegMemory(far, 0, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"settle", "gap", "read"} {
		f.dev.BatchWrites(true)
		far.fail = false
		if err := mr.Place([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		far.fail = true
		var got error
		switch how {
		case "gap":
			got = mr.Place([]byte("x"), 9)
		case "read":
			if err := mr.Fetch(make([]byte, 1), 50); err != nil {
				t.Errorf("a read fails for a write: %v", err)
			}
			got = f.dev.FlushWrites()
		case "settle":
			got = f.dev.FlushWrites()
		}
		if got == nil || f.dev.FlushWrites() != nil {
			t.Errorf("%s: %v", how, got)
		}
	}
}
