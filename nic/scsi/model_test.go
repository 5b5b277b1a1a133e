package scsi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

const lun0 = 0

// disk is a unit for tests, and the nexus of one initiator.
func disk(t *testing.T, cfg Config) (*Unit, *Nexus) {
	t.Helper()
	if cfg.Block == 0 {
		cfg.Block = 512
	}
	if cfg.Physical == 0 {
		cfg.Physical = cfg.Block
	}
	if cfg.Size == 0 {
		cfg.Size = 1 << 20
	}
	if cfg.Store == nil {
		cfg.Store = NewMemory(cfg.Size)
	}
	cfg.Serial = "test"
	u, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := NewNexus("iqn.a,i,0x1", []*Unit{u})
	do(n, cdb("000000000000"), nil) // takes the attention of power-on
	return u, n
}

// do has a command done whose data is out.
func do(n *Nexus, cdb, out []byte) (*Command, []byte) {
	c := new(Command)
	if !c.Prepare(n, lun0, cdb) {
		return c, nil
	}
	buf := make([]byte, c.In)
	if c.Out > 0 {
		buf = bytes.Clone(out[:min(len(out), c.Out)])
	}
	return c, c.Perform(buf)
}

func cdb(hex string) []byte {
	b := make([]byte, 16)
	n, _ := fmt.Sscanf(hex, "%x", &b)
	if n != 1 {
		panic(hex)
	}
	return b
}

// block is a CDB of 16 octets with an LBA and a number of blocks.
func block(op, flags byte, lba uint64, n int) []byte {
	b := []byte{op, flags, 15: 0}
	binary.BigEndian.PutUint64(b[2:], lba)
	binary.BigEndian.PutUint32(b[10:], uint32(n))
	return b
}

// broken is a Store that fails now and then.
type broken struct {
	Store
	rand *rand.Rand
}

var errBroken = errors.New("broken")

func (b *broken) WriteAt(p []byte, off int64) error {
	if b.rand.IntN(20) == 0 {
		return errBroken
	}
	return b.Store.WriteAt(p, off)
}

// TestModelDisk compares a disk under 10,000 random commands, some of which fail, with an
// array of octets: no octet is wrong, and nothing that was acknowledged is lost.
func TestModelDisk(t *testing.T) {
	for _, size := range []int{512, 4096} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { modelDisk(t, size) })
	}
}

func modelDisk(t *testing.T, size int) {
	r := rand.New(rand.NewPCG(1, uint64(size)))
	const octets = 1 << 20
	blocks := octets / size
	_, n := disk(t, Config{Size: octets, Block: size, Thin: true, Store: &broken{NewMemory(octets), r}})
	model := make([]byte, octets)
	write := func(lba int, p []byte) { copy(model[lba*size:], p) }
	for i := range 10_000 {
		lba := r.IntN(blocks)
		k := 1 + r.IntN(min(20, blocks-lba))
		data := make([]byte, k*size)
		for j := 0; j < len(data); j += 1 + r.IntN(300) {
			data[j] = byte(r.Uint32())
		}
		is := bytes.Clone(model[lba*size : (lba+k)*size])
		var c *Command
		switch op := r.IntN(8); op {
		case 0, 1:
			if c, _ = do(n, block(0x8a, 0, uint64(lba), k), data); c.Status == Good {
				write(lba, data)
			}
		case 2:
			if c, _ = do(n, block(0x93, byte(r.IntN(2)*8), uint64(lba), k), data[:size]); c.Status == Good {
				write(lba, bytes.Repeat(data[:size], k))
			}
		case 3:
			list := make([]byte, 24)
			binary.BigEndian.PutUint16(list, 22)
			binary.BigEndian.PutUint16(list[2:], 16)
			binary.BigEndian.PutUint64(list[8:], uint64(lba))
			binary.BigEndian.PutUint32(list[16:], uint32(k))
			if c, _ = do(n, []byte{0x42, 8: 24, 15: 0}, list); c.Status == Good {
				write(lba, make([]byte, k*size))
			}
		case 4:
			if c, _ = do(n, block(0x8b, 0, uint64(lba), k), data); c.Status == Good {
				for j := range data {
					data[j] |= is[j]
				}
				write(lba, data)
			}
		case 5:
			b := block(0x89, 0, uint64(lba), 0)
			b[13] = byte(k)
			wrong := r.IntN(2) == 0
			if wrong {
				is[r.IntN(len(is))] ^= 1
			}
			switch c, _ = do(n, b, append(is, data...)); {
			case c.Status == Good && wrong, !wrong && c.Sense.Key == Miscompare:
				t.Fatalf("operation %d: COMPARE AND WRITE: %+v", i, c.Sense)
			case c.Status == Good:
				write(lba, data)
			}
		case 6:
			if c, _ = do(n, block(0x8f, 2, uint64(lba), k), is); c.Status != Good {
				t.Fatalf("operation %d: VERIFY: %+v", i, c.Sense)
			}
		default:
			got := []byte(nil)
			if c, got = do(n, block(0x88, 0, uint64(lba), k), nil); c.Status != Good || !bytes.Equal(got, is) {
				t.Fatalf("operation %d: READ of %d blocks from %d is wrong: %+v", i, k, lba, c.Sense)
			}
		}
		if c.Status != Good && c.Sense != (Sense{Key: MediumError, Code: writeError.Code, Valid: true, Info: uint32(lba)}) &&
			c.Sense.Key != Miscompare {
			t.Fatalf("operation %d failed: %+v", i, c.Sense)
		}
		if c.Sense.Key == MediumError { // its blocks are what they were, or what was to be written
			if c, is = do(n, block(0x88, 0, uint64(lba), k), nil); c.Status != Good {
				t.Fatalf("operation %d: READ: %+v", i, c.Sense)
			}
			write(lba, is)
		}
	}
}

// TestRefused: what is wrong with a command its sense tells, and nothing changes.
func TestRefused(t *testing.T) {
	_, n := disk(t, Config{Thin: true})
	const blocks = 2048
	for _, c := range []struct {
		what string
		cdb  []byte
		out  []byte
		want Sense
	}{
		{"unknown operation code", []byte{0xff, 15: 0}, nil, invalidOpcode},
		{"unknown service action", []byte{0x9e, 0x1f, 15: 0}, nil, invalidFieldInCDB},
		{"READ beyond the end", block(0x88, 0, blocks-1, 2), nil, outOfRange},
		{"READ from beyond the end", block(0x88, 0, blocks+1, 0), nil, outOfRange},
		{"READ whose end wraps", block(0x88, 0, 1<<64-1, 2), nil, outOfRange},
		{"READ of too much", block(0x88, 0, 0, 4096), nil, outOfRange},
		{"READ with protection", block(0x88, 0x20, 0, 1), nil, invalidFieldInCDB},
		{"WRITE SAME of nothing", block(0x93, 0, 0, 0), nil, invalidFieldInCDB},
		{"WRITE SAME with anchor", block(0x93, 0x18, 0, 1), nil, invalidFieldInCDB},
		{"VERIFY with BYTCHK 2", block(0x8f, 4, 0, 1), nil, invalidFieldInCDB},
		{"INQUIRY of a page without EVPD", []byte{0x12, 0, 0x83, 0, 255, 15: 0}, nil, invalidFieldInCDB},
		{"INQUIRY of an unknown page", []byte{0x12, 1, 0xcc, 0, 255, 15: 0}, nil, invalidFieldInCDB},
		{"MODE SENSE of an unknown page", []byte{0x1a, 0, 0x05, 0, 255, 15: 0}, nil, invalidFieldInCDB},
		{"MODE SENSE of saved values", []byte{0x1a, 0, 0xc8, 0, 255, 15: 0}, nil, savingUnsupported},
		{"MODE SELECT that is too short", []byte{0x15, 0x10, 0, 0, 6, 15: 0}, []byte{0, 0, 0, 0, 0x08, 18}, wrongListLength},
		{"MODE SELECT of a fixed bit", []byte{0x15, 0x10, 0, 0, 16, 15: 0},
			[]byte{0, 0, 0, 0, 0x0a, 10, 0x04, 0x10, 0, 0, 0, 0, 0, 0, 0, 0}, invalidParameter},
		{"UNMAP with a short header", []byte{0x42, 8: 4, 15: 0}, make([]byte, 4), wrongListLength},
		{"REPORT LUNS with a small allocation", []byte{0xa0, 9: 8, 15: 0}, nil, invalidFieldInCDB},
		{"START STOP UNIT that ejects", []byte{0x1b, 4: 2, 15: 0}, nil, invalidFieldInCDB},
		{"READ CAPACITY with an LBA", []byte{0x25, 5: 1, 15: 0}, nil, invalidFieldInCDB},
	} {
		if got, _ := do(n, c.cdb, c.out); got.Status != CheckCondition || got.Sense != c.want {
			t.Errorf("%s: status %d, sense %+v, want %+v", c.what, got.Status, got.Sense, c.want)
		}
	}
	_, big := disk(t, Config{Size: 2 * maxTransfer})
	if got, _ := do(big, block(0x88, 0, 0, maxTransfer/512+1), nil); got.Sense != invalidFieldInCDB {
		t.Errorf("READ of more than the unit announces: %+v", got.Sense)
	}
	c := new(Command)
	if c.Prepare(n, 3<<48, block(0x88, 0, 0, 1)); c.Sense != noLogicalUnit {
		t.Errorf("a LUN that is not there: %+v", c.Sense)
	}
	if c.Prepare(n, 3<<48, []byte{0x12, 4: 96, 15: 0}); c.Perform(nil)[0] != 0x7f {
		t.Error("INQUIRY of a LUN that is not there does not say so")
	}
}

// TestReservation: RESERVE(6) keeps others out until it is released, its nexus ends, or the
// unit is reset.
func TestReservation(t *testing.T) {
	u, a := disk(t, Config{})
	b := NewNexus("iqn.b,i,0x1", []*Unit{u})
	do(b, cdb("000000000000"), nil)
	status := func(n *Nexus, hex string) Status { c, _ := do(n, cdb(hex), nil); return c.Status }
	const ready, reserve, release = "000000000000", "160000000000", "170000000000"
	for name, end := range map[string]func(){
		"release":    func() { status(a, release) },
		"nexus loss": func() { a.Close() },
		"reset":      func() { u.Reset(); status(b, ready) },
	} {
		a = NewNexus("iqn.a,i,0x1", []*Unit{u})
		status(a, ready)
		if s := status(a, reserve); s != Good {
			t.Fatalf("%s: RESERVE: %d", name, s)
		}
		if s := status(b, ready); s != ReservationConflict {
			t.Errorf("%s: TEST UNIT READY of another: %d", name, s)
		}
		if s := status(b, release); s != Good {
			t.Errorf("%s: RELEASE of another: %d", name, s)
		}
		if s := status(b, reserve); s != ReservationConflict {
			t.Errorf("%s: RESERVE of another: %d", name, s)
		}
		if end(); status(b, ready) != Good {
			t.Errorf("%s does not end the reservation", name)
		}
	}
}

// TestAttention: who begins a nexus hears of power-on once; a change of mode is told to
// others; INQUIRY does not take an attention away.
func TestAttention(t *testing.T) {
	u, a := disk(t, Config{})
	b := NewNexus("iqn.b,i,0x1", []*Unit{u})
	if c, _ := do(b, []byte{0x12, 4: 96, 15: 0}, nil); c.Status != Good {
		t.Errorf("INQUIRY: %+v", c.Sense)
	}
	if c, _ := do(b, cdb("000000000000"), nil); c.Sense != poweredOn {
		t.Errorf("first command: %+v", c.Sense)
	}
	protect := []byte{0, 0, 0, 0, 0x0a, 10, 0, 0x10, 0x08, 0, 0, 0, 0, 0, 0, 0}
	if c, _ := do(a, []byte{0x15, 0x10, 0, 0, 16, 15: 0}, protect); c.Status != Good {
		t.Fatalf("MODE SELECT: %+v", c.Sense)
	}
	if c, _ := do(b, cdb("000000000000"), nil); c.Sense != modeChanged {
		t.Errorf("after MODE SELECT of another: %+v", c.Sense)
	}
	if c, _ := do(a, block(0x8a, 0, 0, 1), make([]byte, 512)); c.Sense != writeProtected {
		t.Errorf("WRITE with software write protect: %+v", c.Sense)
	}
	_, sense := do(a, []byte{0x03, 4: 18, 15: 0}, nil)
	if !bytes.Equal(sense, Sense{}.Append(nil)) {
		t.Errorf("REQUEST SENSE: % x", sense)
	}
	do(a, []byte{0x1b, 15: 0}, nil)
	if c, _ := do(b, cdb("000000000000"), nil); c.Sense != stopped {
		t.Errorf("stopped unit: %+v", c.Sense)
	}
}

// TestTable: the usage map of each command has the length of its group, begins with its
// operation code, and every command is offered by REPORT SUPPORTED OPERATION CODES.
func TestTable(t *testing.T) {
	_, n := disk(t, Config{Thin: true})
	lengths := map[byte]int{0: 6, 1: 10, 2: 10, 4: 16, 5: 12}
	for _, k := range commands {
		c := []byte{0xa3, 0x0c, 3, k.op, 0, byte(max(k.action, 0)), 0, 0, 1, 0, 15: 0}
		_, got := do(n, c, nil)
		if len(got) < 6 || got[1] != 3 || int(got[3]) != lengths[k.op>>5] || got[4] != k.op {
			t.Errorf("operation code %x: % x", k.op, got)
		}
	}
	_, all := do(n, []byte{0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 4, 0, 15: 0}, nil)
	if len(all) != 4+8*len(commands) {
		t.Errorf("%d octets for %d commands", len(all), len(commands))
	}
}

// FuzzCommand: no CDB and no parameter list brings a unit down.
func FuzzCommand(f *testing.F) {
	for _, k := range commands {
		f.Add([]byte{k.op, byte(max(k.action, 0)), 15: 1}, make([]byte, 64))
	}
	f.Fuzz(func(t *testing.T, cdb, out []byte) {
		if len(cdb) < 16 {
			return
		}
		u, n := disk(t, Config{Thin: true, Size: 1 << 20})
		c, got := do(n, cdb[:16], out)
		if c.Status != Good && c.Status != CheckCondition {
			t.Fatalf("status %d", c.Status)
		}
		if len(got) > c.In {
			t.Fatalf("%d octets, told %d", len(got), c.In)
		}
		u.Reset()
	})
}
