package selftest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// interrupt posts an empty element on every engine.
func (r *Run) interrupt(now frame.Time) error {
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

// registers has the management firmware test the registers of every engine.
func (r *Run) registers(now frame.Time) error {
	if last := r.dev.Engines[len(r.dev.Engines)-1]; r.fault.Has(Registers) {
		last.StickRegister(true)
		r.leave = func(frame.Time) { last.StickRegister(false) }
	}
	answered, outcome := false, error(nil)
	r.dev.BIST(now, func(err error) { answered, outcome = true, err })
	r.until = now.Add(bistWait)
	r.waits = func(frame.Time) (bool, error) { return answered, outcome }
	return nil
}

// clockPart is the part of the time that the clock may be off, 1000 ppm: more
// than any crystal is.
const clockPart = 1000

// clock compares the hardware clock with the time for a while.
func (r *Run) clock(now frame.Time) error {
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
