package scsi

import (
	"bytes"
	"testing"
)

// cached is a Store with a cache that is lost with the system: stable has what outlives it.
type cached struct {
	*Memory
	stable *Memory
	fails  error
}

func (c *cached) Sync() error {
	if c.fails != nil {
		return c.fails
	}
	p := make([]byte, 1<<20)
	_ = c.ReadAt(p, 0) // neither fails
	return c.stable.WriteAt(p, 0)
}

// TestStable: what a write without FUA leaves in the cache, SYNCHRONIZE CACHE makes stable before it ends, as do
// FUA, verification and a write cache that is off. A store that cannot is no Good.
func TestStable(t *testing.T) {
	fill := bytes.Repeat([]byte{0x5a}, 512)
	sync10, sync16 := cdb("35000000000000000000"), cdb("91000000000000000000000000000000")
	write10 := func(flags byte) []byte { return append([]byte{0x2a, flags, 8: 1}, make([]byte, 7)...) }
	cacheOff := []byte{0x55, 0x10, 8: 28, 15: 0}
	page := append(make([]byte, 8), append([]byte{0x08, 0x12}, make([]byte, 18)...)...)
	for name, tt := range map[string]struct {
		before, command, after []byte
		stable                 bool
	}{
		"write": {nil, block(0x8a, 0, 0, 1), nil, false}, "FUA": {nil, block(0x8a, fua, 0, 1), nil, true},
		"write(10)": {nil, write10(0), nil, false}, "FUA, write(10)": {nil, write10(fua), nil, true},
		"write and verify":        {nil, block(0x8e, 0, 0, 1), nil, true},
		"synchronize cache(10)":   {nil, block(0x8a, 0, 0, 1), sync10, true},
		"synchronize cache(16)":   {nil, block(0x8a, 0, 0, 1), sync16, true},
		"write cache is off":      {cacheOff, block(0x8a, 0, 0, 1), nil, true},
		"write same, synchronize": {nil, block(0x93, 0, 0, 1), sync10, true},
		"write, something else":   {nil, block(0x8a, 0, 0, 1), cdb("000000000000"), false},
		"read makes nothing so":   {nil, block(0x8a, 0, 0, 1), block(0x88, 0, 0, 1), false},
		"compare and write, FUA":  {nil, append([]byte{0x89, fua, 13: 1}, 0, 0), nil, true},
	} {
		s := &cached{Memory: NewMemory(1 << 20), stable: NewMemory(1 << 20)}
		_, n := disk(t, Config{Store: s})
		run := func(c, out []byte) *Command {
			t.Helper()
			cmd, _ := do(n, c, out)
			if cmd.Status != Good {
				t.Fatalf("%s: %x: status %v, sense %+v", name, c, cmd.Status, cmd.Sense)
			}
			return cmd
		}
		out := fill
		if tt.before != nil {
			run(tt.before, page)
		}
		if tt.command[0] == 0x89 {
			out = append(make([]byte, 512), fill...)
		}
		run(tt.command, out)
		if tt.after != nil {
			run(tt.after, nil)
		}
		got := make([]byte, 512)
		if err := s.stable.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got, fill) != tt.stable {
			t.Errorf("%s: in what is stable there are %x...", name, got[:4])
		}
		if !tt.stable {
			continue
		}
		s.fails = errBroken
		last := tt.command
		if tt.after != nil {
			last = tt.after
		}
		if tt.command[0] == 0x89 {
			out = append(bytes.Clone(fill), fill...)
		}
		if c, _ := do(n, last, out); c.Status != CheckCondition || c.Sense.Code != writeError.Code {
			t.Errorf("%s: a store that fails: status %v, sense %+v", name, c.Status, c.Sense)
		}
	}
}
