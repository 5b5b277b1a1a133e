package selftest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"tapir/nic/status"
	"tapir/wire/frame"
)

// interrupt posts an empty element on every engine.
func (r *Run) interrupt(now frame.Time) error {
	if len(r.dev.Engines) == 0 {
		return absent("engine")
	}
	answers := 0
	if r.fault.Has(Interrupt) {
		r.dev.Engines[0].MaskSlowpath(true, now)
		r.leave = func(now frame.Time) { r.dev.Engines[0].MaskSlowpath(false, now) }
	}
	for _, e := range r.dev.Engines {
		if err := e.Heartbeat(now, func(frame.Time) { answers++ }); err != nil {
			return err
		}
	}
	r.until = now.Add(answerWait)
	r.waits = func(frame.Time) (bool, error) {
		if answers > len(r.dev.Engines) {
			return true, status.IO.Errorf("%d completions of %d elements", answers, len(r.dev.Engines))
		}
		return answers == len(r.dev.Engines), nil
	}
	return nil
}

// memory fills all blocks with what tells each word from any other, looks
// whether it is there, and does the same with its complement.
func (r *Run) memory(frame.Time) error {
	if r.dev.Borrow == nil {
		return absent("memory of contexts")
	}
	blocks, release := r.dev.Borrow()
	defer release()
	if len(blocks) == 0 {
		return status.NoMem.Errorf("no memory is free")
	}
	for _, flip := range []uint32{0, 0xffffffff} {
		for i, b := range blocks {
			for at := 0; at+4 <= len(b); at += 4 {
				binary.BigEndian.PutUint32(b[at:], canary(i, at)^flip)
			}
		}
		if middle := blocks[len(blocks)/2]; r.fault.Has(Memory) && len(middle) > 0 {
			middle[len(middle)/2] ^= 1 << 5
		}
		for i, b := range blocks {
			for at := 0; at+4 <= len(b); at += 4 {
				if got, want := binary.BigEndian.Uint32(b[at:]), canary(i, at)^flip; got != want {
					return status.IO.Errorf("block %d, offset %d: %#08x, not %#08x", i, at, got, want)
				}
			}
		}
	}
	return nil
}

// canary is the word of a place.
func canary(block, at int) uint32 { return uint32(block+1)*0x85ebca6b ^ uint32(at)*0x9e3779b1 }

// registers tests the registers of every engine.
func (r *Run) registers(frame.Time) error {
	if len(r.dev.Engines) == 0 {
		return absent("engine")
	}
	for i, e := range r.dev.Engines {
		list := e.Registers()
		if r.fault.Has(Registers) && i == len(r.dev.Engines)-1 && len(list) > 0 {
			list[len(list)-1] = stuck(list[len(list)-1])
		}
		if err := testRegisters(list); err != nil {
			return status.IO.Errorf("engine %d: %v", i, err)
		}
	}
	return nil
}

// stuck is a register whose lowest bit cannot be set.
func stuck(r Register) Register {
	low := r.Mask & -r.Mask
	read := r.Read
	r.Read = func() uint32 { return read() &^ low }
	return r
}

// testRegisters writes patterns to each register, then to each another value, so
// that two that are the same are found. All get their values back, whatever
// happens.
func testRegisters(list []Register) (err error) {
	if len(list) == 0 {
		return absent("registers")
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
		r.Write(canary(i, 4))
	}
	for i, r := range list {
		if got, want := r.Read()&r.Mask, canary(i, 4)&r.Mask; got != want {
			return status.IO.Errorf("%s: %#x after others were written, not %#x", r.Name, got, want)
		}
	}
	return nil
}

// clockPart is the part of the time that the clock may be off, 1000 ppm: more
// than any crystal is.
const clockPart = 1000

// clock compares the hardware clock with the time for a while.
func (r *Run) clock(now frame.Time) error {
	if r.dev.Counter == nil {
		return absent("hardware clock")
	}
	start, from := now, r.counter(now)
	_, ppb := r.dev.Counter(now)
	r.until = now.Add(clockWait)
	r.waits = func(now frame.Time) (bool, error) {
		passed := int64(now.Sub(start))
		if passed < int64(clockWait) {
			return false, nil
		}
		if _, p := r.dev.Counter(now); p != ppb {
			return true, nil // somebody has steered it meanwhile: it runs
		}
		want := passed + passed/1000*ppb/1_000_000
		got := r.counter(now) - from
		if off := got - want; off > passed/clockPart || off < -passed/clockPart {
			return true, status.IO.Errorf("the clock shows %v after %v", time.Duration(got), time.Duration(want))
		}
		return true, nil
	}
	return nil
}

// counter reads the clock; with a fault it is 1 % fast.
func (r *Run) counter(now frame.Time) int64 {
	ns, _ := r.dev.Counter(now)
	if r.fault.Has(Clock) {
		ns += int64(now) / 100
	}
	return ns
}

// nvm checks the images of the flash.
func (r *Run) nvm(frame.Time) error {
	if r.dev.Images == nil {
		return absent("NVM")
	}
	list, err := r.dev.Images()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return status.NoEnt.Errorf("the NVM has no images")
	}
	for i, im := range list {
		if im.Skip {
			continue
		}
		data := im.Data
		if r.fault.Has(NVM) && len(data) > 0 {
			data = bytes.Clone(data)
			data[len(data)/2] ^= 1
		}
		if sum := crc32.ChecksumIEEE(data); sum != im.CRC {
			return status.IO.Errorf("image %d, %s: checksum %#08x, not %#08x", i, im.Name, sum, im.CRC)
		}
	}
	return nil
}

// testFrame is what the loopback test sends: 1.5 kB, octet i is i.
var testFrame = func() []byte {
	b := make([]byte, 1500-14)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}()

// loopback sends a frame to the NIC itself.
func (r *Run) loopback(now frame.Time) error {
	if r.dev.Send == nil || r.dev.SetLoopback == nil {
		return absent("port")
	}
	r.dev.SetLoopback(true, now)
	r.leave = func(now frame.Time) { r.dev.SetLoopback(false, now) }
	var heard, failed = false, error(nil)
	out := testFrame
	if r.fault.Has(Loopback) {
		out = bytes.Clone(out)
		out[len(out)/2] ^= 1
	}
	r.dev.Send(out, func(b []byte) {
		heard = true
		if !bytes.Equal(b, testFrame) {
			failed = status.IO.Errorf("the frame came back changed")
		}
	}, now)
	r.until = now.Add(frameWait)
	r.waits = func(frame.Time) (bool, error) { return heard, failed }
	return nil
}
