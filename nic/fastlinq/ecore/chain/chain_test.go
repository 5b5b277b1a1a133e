package chain

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/status"
)

// HW-15
func TestCapacity(t *testing.T) {
	for _, c := range []struct {
		mode                           Mode
		elems                          uint64
		size                           int
		unusable, pages, capacity, all uint64
	}{
		{Single, 0, 16, 0, 1, 256, 256},    // the slowpath queue
		{PBL, 256, 16, 0, 1, 256, 256},     // exactly a page
		{PBL, 257, 16, 0, 2, 512, 512},     // rounded up
		{NextPtr, 255, 16, 1, 1, 255, 256}, // one lost
		{NextPtr, 256, 16, 1, 2, 510, 512},
		{NextPtr, 1, 8, 2, 1, 510, 512}, // 1+15/8
		{NextPtr, 1, 4, 4, 1, 1020, 1024},
		{NextPtr, 1, 1024, 1, 1, 3, 4},
		{PBL, 3, 4096, 0, 3, 3, 3},
	} {
		ch, err := New(Config{Mode: c.mode, Elems: c.elems, Size: c.size})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if Unusable(c.size, c.mode) != int(c.unusable) || ch.PageCount() != int(c.pages) || ch.Capacity() != c.capacity || ch.Size() != c.all {
			t.Errorf("%+v: unusable %d, pages %d, capacity %d, size %d", c, Unusable(c.size, c.mode), ch.PageCount(), ch.Capacity(), ch.Size())
		}
	}
}

// HW-15
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		cfg  Config
	}{
		{"size 0", Config{Elems: 1}},
		{"size 24", Config{Elems: 1, Size: 24}},
		{"size above a page", Config{Elems: 1, Size: 8192, Mode: PBL}},
		{"a page that holds its pointer alone", Config{Elems: 1, Size: 4096, Mode: NextPtr}},
		{"no elements", Config{Size: 16, Mode: PBL}},
		{"17 bits", Config{Elems: 0x10001, Size: 16, Mode: PBL}},
		{"17 bits when rounded up", Config{Elems: 255*256 + 1, Size: 16, Mode: NextPtr}},
		{"33 bits", Config{Elems: 1 << 32, Size: 16, Mode: PBL, Width: Count32}},
		{"huge", Config{Elems: 1<<64 - 1, Size: 4, Mode: NextPtr, Width: Count32}},
		{"a short list", Config{Elems: 257, Size: 16, Mode: PBL, PBL: make([]byte, 15)}},
	} {
		if _, err := New(c.cfg); !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for _, cfg := range []Config{
		{Elems: 0x10000, Size: 16, Mode: PBL},
		{Elems: 255 * 256, Size: 16, Mode: NextPtr},
		{Elems: 0x10001, Size: 16, Mode: PBL, Width: Count32},
	} {
		if _, err := New(cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// HW-15
func TestPageList(t *testing.T) {
	list := make([]byte, 3*PBLEntry)
	if _, err := New(Config{Mode: PBL, Elems: 600, Size: 16, PBL: list, Base: 0x100000}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got := binary.LittleEndian.Uint64(list[8*i:]); got != 0x100000+uint64(i)*PageSize {
			t.Errorf("entry %d: %#x", i, got)
		}
	}
	c, err := New(Config{Mode: NextPtr, Elems: 256, Size: 16, Base: 0x100000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 256 { // none is consumed: pages stay
		c.Produce()
		if next := binary.LittleEndian.Uint64(c.pages[i/255][255*16:]); next != 0x100000+uint64(1-i/255)*PageSize {
			t.Fatalf("element %d: its page points to %#x", i, next)
		}
	}
	if c.Prod() != 257 {
		t.Errorf("producer %d after 256 elements in pages of 255: want 257", c.Prod())
	}
}

// HW-15: against a queue, over many wraps of the pages and of the index.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(8, 11).Draw(t, "log2 size")
		mode := Mode(rapid.IntRange(0, 2).Draw(t, "mode"))
		use := Use(rapid.IntRange(0, 2).Draw(t, "use"))
		elems := rapid.Uint64Range(1, 40).Draw(t, "elems")
		c, err := New(Config{Mode: mode, Use: use, Elems: elems, Size: size})
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "near the wrap") {
			at := 0x10000 - 2*c.perPage
			c.prod.index, c.cons.index, c.offer.index = at, at, (at+c.offer.index)&c.mask
		}
		offered := c.Offer() - c.Cons()
		var queue []uint32
		n := uint32(0)
		for _, produce := range rapid.SliceOfN(rapid.IntRange(0, 2), 1, 300).Draw(t, "moves") {
			if produce > 0 {
				e := c.Produce()
				if (e == nil) != (uint64(len(queue)) == c.Capacity()) {
					t.Fatalf("produce with %d of %d: %v", len(queue), c.Capacity(), e == nil)
				}
				if e != nil {
					n++
					binary.LittleEndian.PutUint32(e[size-4:], n)
					queue = append(queue, n)
				}
			} else {
				e := c.Consume()
				if (e == nil) != (len(queue) == 0) {
					t.Fatalf("consume with %d: %v", len(queue), e == nil)
				}
				if e != nil {
					if got := binary.LittleEndian.Uint32(e[size-4:]); got != queue[0] {
						t.Fatalf("got %d, want %d", got, queue[0])
					}
					queue = queue[1:]
				}
			}
			usable := uint32(Usable(size, mode))
			if in := c.Prod() & (c.perPage - 1); in >= usable {
				t.Fatalf("producer %#x on an element of a pointer", c.Prod())
			}
			if c.Left() != c.Capacity()-uint64(len(queue)) {
				t.Fatalf("%d left, %d used of %d", c.Left(), len(queue), c.Capacity())
			}
			if use == ToConsume && mode != NextPtr && (c.Offer()-c.Cons())&0xffff != offered&0xffff {
				t.Fatalf("offers %d elements, at first %d", c.Offer()-c.Cons(), offered)
			}
			for i, want := range queue {
				if got := binary.LittleEndian.Uint32(c.Peek(uint64(i))[size-4:]); got != want {
					t.Fatalf("element %d is %d, want %d", i, got, want)
				}
			}
			if c.Peek(uint64(len(queue))) != nil {
				t.Fatal("an element that is not there")
			}
			if len(queue) == 0 && c.Resident() > 0 {
				t.Fatal("an empty chain has pages")
			}
			if most := len(queue)/int(usable) + 2; c.Resident() > most {
				t.Fatalf("%d pages for %d elements", c.Resident(), len(queue))
			}
		}
	})
}
