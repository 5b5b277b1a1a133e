package mfw

import "tapir/nic/fastlinq/status"

// Register is a register of an engine of which the bits of Mask keep what is
// written.
type Register struct {
	Name  string
	Mask  uint32
	Read  func() uint32
	Write func(v uint32)
}

// bistRegisters tests the registers of every engine; all get their values back,
// whatever happens.
func (f *Firmware) bistRegisters() error {
	if f.cfg.Registers == nil {
		return status.NoDev.Errorf("the board has no engine")
	}
	engine, failed := 0, error(nil)
	f.cfg.Registers(func(list []Register) {
		if err := testRegisters(list); err != nil && failed == nil {
			failed = status.IO.Errorf("engine %d: %v", engine, err)
		}
		engine++
	})
	return failed
}

// BISTError is what the last test of the registers found; nil: nothing. The
// mailbox says only whether it failed.
func (f *Firmware) BISTError() error { return f.bistErr }

// testRegisters writes patterns to each register, then to each another value, so
// that two that are the same are found.
func testRegisters(list []Register) (err error) {
	if len(list) == 0 {
		return status.NoDev.Errorf("there are no registers")
	}
	old := make([]uint32, len(list))
	for i, r := range list {
		old[i] = r.Read()
	}
	defer func() {
		for i, r := range list {
			r.Write(old[i])
			if got := r.Read(); got != old[i] && err == nil {
				err = status.IO.Errorf("%s: %#x after it was restored, not %#x", r.Name, got, old[i])
			}
		}
	}()
	for i, r := range list {
		for _, v := range []uint32{0xffffffff, 0, 0x55555555, 0xaaaaaaaa} {
			r.Write(v)
			if got, want := r.Read(), v&r.Mask|old[i]&^r.Mask; got != want {
				return status.IO.Errorf("%s: %#x after %#x was written, not %#x", r.Name, got, v, want)
			}
		}
	}
	for i, r := range list {
		r.Write(ownValue(i))
	}
	for i, r := range list {
		if got, want := r.Read()&r.Mask, ownValue(i)&r.Mask; got != want {
			return status.IO.Errorf("%s: %#x after others were written, not %#x", r.Name, got, want)
		}
	}
	return nil
}

// ownValue is the value of a register that no other gets.
func ownValue(i int) uint32 { return uint32(i+1)*0x85ebca6b ^ 0x78dde6c4 }
