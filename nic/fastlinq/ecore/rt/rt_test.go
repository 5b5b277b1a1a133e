package rt

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// chip remembers what is written, and how.
type chip struct {
	words  map[uint32]uint32
	copies []string
	singly int
}

func newChip() *chip { return &chip{words: map[uint32]uint32{RegReady: 1}} }

func (c *chip) Read(addr uint32) uint32 { return c.words[addr] }
func (c *chip) Write(addr, v uint32)    { c.words[addr] = v; c.singly++ }
func (c *chip) Copy(addr uint32, words []uint32) error {
	c.copies = append(c.copies, fmt.Sprintf("%#x %d", addr, len(words)))
	for i, w := range words {
		c.words[addr+uint32(4*i)] = w
	}
	return nil
}

// finish steps a run to its end and tells how long that took.
func finish(t *testing.T, r *Run) (time.Duration, error) {
	t.Helper()
	now := frame.Time(0)
	for {
		until, err := r.Step(now)
		if r.Done() {
			return now.Sub(0), err
		}
		if until <= now {
			t.Fatal("a run that neither goes on nor waits")
		}
		now = until
	}
}

// HW-12
func TestArray(t *testing.T) {
	var a Array
	for _, slot := range []int{0, 255, 256, Slots - 1} {
		if err := a.Store(slot, uint32(slot)+7); err != nil {
			t.Fatal(err)
		}
		if v, ok := a.Load(slot); v != uint32(slot)+7 || !ok {
			t.Errorf("slot %d: %d, %v", slot, v, ok)
		}
	}
	if err := errors.Join(a.Store(0, 9), a.StoreAll(Slots-2, []uint32{1, 2})); err != nil || a.Valid() != 5 {
		t.Errorf("%v, %d valid: want 5", err, a.Valid())
	}
	for what, err := range map[string]error{
		"beyond": a.Store(Slots, 1), "below": a.Store(-1, 1), "across the end": a.StoreAll(Slots-1, []uint32{8, 9}),
	} {
		if !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if v, _ := a.Load(Slots - 1); v != 2 || a.Refused() != 3 {
		t.Errorf("the last slot is %d, %d refused", v, a.Refused())
	}
	a.Clear()
	if _, ok := a.Load(0); ok || a.Valid() != 0 {
		t.Error("a slot outlives Clear")
	}
}

// HW-12, HW-13
func TestStandardProgram(t *testing.T) {
	var a Array
	c := newChip()
	for i, b := range Blocks {
		if err := errors.Join(a.Store(b.Slot, uint32(100+i)), a.Store(b.Slot+b.Words-1, uint32(200+i))); err != nil {
			t.Fatal(err)
		}
	}
	p := Standard()
	for ph := range numPhases {
		before := newChip()
		for addr, v := range c.words {
			before.words[addr] = v
		}
		modes := Modes(0).With(BB).With(ASIC).With(Ports2).With(MFSI)
		if _, err := finish(t, p.Start(ph, 0, modes, &a, c, nil)); err != nil {
			t.Fatalf("%v: %v", ph, err)
		}
		for i, b := range Blocks {
			last := b.Addr + uint32(4*(b.Words-1))
			got := [2]uint32{c.words[b.Addr], c.words[last]}
			if want := [2]uint32{uint32(100 + i), uint32(200 + i)}; b.Phase <= ph && got != want {
				t.Errorf("after %v, %s has %v, want %v", ph, b.Name, got, want)
			} else if b.Phase > ph && got != [2]uint32{before.words[b.Addr], before.words[last]} {
				t.Errorf("%v writes %s of phase %v", ph, b.Name, b.Phase)
			}
		}
		if c.words[RegDone] != uint32(ph)+1 {
			t.Errorf("after %v: %d", ph, c.words[RegDone])
		}
	}
	if c.words[RegChip] != 1 || c.words[RegPorts] != 2 || c.words[RegMF] != 2 {
		t.Errorf("chip %d, ports %d, MF %d", c.words[RegChip], c.words[RegPorts], c.words[RegMF])
	}
	if c.words[RegFill] != 0x11111111 || c.words[RegFill+4*31] != 0x44444444 || c.words[RegFill+4*32] != 0 {
		t.Error("the pattern is not there 8 times")
	}
	if !slices.Contains(c.copies, fmt.Sprintf("%#x 32", RegClear)) {
		t.Errorf("zeros are not copied by DMA: %v", c.copies)
	}
}

// octets is a program as a firmware file has it.
func octets(p *Program) (ops, array, trees []byte) {
	ops, array = p.Sections()
	return ops, array, p.Trees
}

func TestParseStandard(t *testing.T) {
	want := Standard()
	got, err := ParseProgram(octets(want))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Ops, want.Ops) || !slices.Equal(got.Array, want.Array) || !bytes.Equal(got.Trees, want.Trees) {
		t.Error("not what was written")
	}
}

func TestParseRefuses(t *testing.T) {
	array := []byte{0x20, 0, 0, 0, 1, 0, 0, 0} // two words announced, one there
	for what, op := range map[string]Op{
		"operation":     {numOps, 0},
		"poll":          {numPolls<<4 | opRead, 0},
		"source":        {numSources<<4 | opWrite, 0},
		"skip":          {1<<16 | opIfPhase, 0},
		"tree":          {opIfMode, 0},
		"runtime":       {srcRuntime<<4 | opWrite, 0x8000 | 0x8000<<16},
		"zeros":         {srcZeros<<4 | opWrite, Slots + 1},
		"array":         {srcArray<<4 | opWrite, 0},
		"array's place": {srcArray<<4 | opWrite, 2},
	} {
		ops, _, _ := octets(&Program{Ops: []Op{op}})
		if _, err := ParseProgram(ops, array, nil); !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := ParseProgram(ops[:7], nil, nil); !errors.Is(err, status.Inval) {
			t.Errorf("7 octets: %v", err)
		}
	}
}

// HW-13: a register that is not ready yet is asked for again, for 50 ms.
func TestPoll(t *testing.T) {
	p := Standard()
	c := newChip()
	c.words[RegReady] = 0
	r := p.Start(Engine, 0, Modes(0).With(K2), new(Array), c, nil)
	if until, err := r.Step(0); err != nil || until != frame.Time(pollEvery) {
		t.Fatalf("%v, %v", until, err)
	}
	c.words[RegReady] = 1
	if _, err := finish(t, r); err != nil || c.words[RegChip] != 2 {
		t.Errorf("%v, chip %d", err, c.words[RegChip])
	}
	c.words[RegReady] = 0
	took, err := finish(t, p.Start(Engine, 0, 0, new(Array), c, nil))
	if !errors.Is(err, status.Timeout) || took != 99*pollEvery {
		t.Errorf("%v after %v", err, took)
	}
}

func TestPolls(t *testing.T) {
	for _, c := range []struct {
		kind, has, want uint32
		ok              bool
	}{
		{pollNone, 0, 5, true}, {pollEQ, 5, 5, true}, {pollEQ, 4, 5, false},
		{pollAND, 7, 5, true}, {pollAND, 4, 5, false}, {pollOR, 4, 0, true}, {pollOR, 0, 0, false},
	} {
		ch := newChip()
		ch.words[0x100] = c.has
		p := &Program{Ops: []Op{{0x100>>2<<addrShift | c.kind<<4 | opRead, c.want}}}
		if _, err := finish(t, p.Start(PF, 0, 0, new(Array), ch, nil)); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A phase with an id runs for that port, PF or VF alone; a delay passes.
func TestPhaseID(t *testing.T) {
	p := &Program{Ops: []Op{{2<<16 | opIfPhase, uint32(VF) | 3<<16}, {opDelay, 70}, {0x100>>2<<addrShift | opWrite, 9}}}
	for id, want := range map[int]time.Duration{2: 0, 3: 70 * time.Microsecond} {
		c := newChip()
		if took, err := finish(t, p.Start(VF, id, 0, new(Array), c, nil)); err != nil || took != want || (c.words[0x100] == 9) != (want > 0) {
			t.Errorf("VF %d: %v, %v", id, took, err)
		}
	}
}

func inflate(b []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// IN-22: a zipped array needs what unpacks it.
func TestZippedArray(t *testing.T) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	for i := range 100 {
		binary.Write(z, binary.LittleEndian, uint32(i*i))
	}
	z.Close()
	for packed.Len()%4 != 0 {
		packed.WriteByte(0)
	}
	var a assembler
	words := wordsOf(packed.Bytes())
	a.array(0x2000, uint32(len(words))<<4|arrayZipped, words...)
	c := newChip()
	if _, err := finish(t, a.p.Start(PF, 0, 0, new(Array), c, inflate)); err != nil || c.words[0x2000+4*99] != 99*99 {
		t.Errorf("%v: %d", err, c.words[0x2000+4*99])
	}
	if _, err := finish(t, a.p.Start(PF, 0, 0, new(Array), newChip(), nil)); !errors.Is(err, status.Inval) {
		t.Errorf("without: %v", err)
	}
	a.p.Array[3] ^= 0x40
	if _, err := finish(t, a.p.Start(PF, 0, 0, new(Array), newChip(), inflate)); !errors.Is(err, status.Inval) {
		t.Errorf("damaged: %v", err)
	}
}

// FuzzParseProgram: what is accepted runs to its end in every phase.
func FuzzParseProgram(f *testing.F) {
	ops, array, trees := octets(Standard())
	f.Add(ops, array, trees)
	f.Fuzz(func(t *testing.T, ops, array, trees []byte) {
		p, err := ParseProgram(ops, array, trees)
		if err != nil {
			return
		}
		for ph := range numPhases {
			r := p.Start(ph, 0, Modes(0).With(BB), new(Array), newChip(), inflate)
			for now := frame.Time(0); !r.Done(); {
				now, _ = r.Step(now)
			}
		}
	})
}
