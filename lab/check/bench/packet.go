package main

import (
	"context"
	"errors"
	"hash/crc32"
	"runtime"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/opa"
	"tapir/wire/frame"
)

// codecCase is a step of a 16B packet around a frame of 1,514 octets, over and
// over, without a system call.
func codecCase(name string, step func(*packetCodec) error) *testCase {
	return &testCase{name: name, run: func(_ context.Context, m *measurement) (s sample, err error) {
		c, err := newPacketCodec()
		if err != nil {
			return s, err
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		steps, begun := 0, result.Thread()
		for wall := time.Now(); time.Since(wall) < m.duration; {
			for range 1000 {
				if err := step(c); err != nil {
					return s, err
				}
			}
			steps += 1000
		}
		s.rate = float64(steps) / (result.Thread() - begun).Seconds()
		return s, nil
	}}
}

// packetCodec holds a 16B packet; its Ethernet frame is inner.
type packetCodec struct {
	f      *frame.Frame
	header opa.Header
	inner  []byte
	sum    uint32
}

const codecFrame = 1514

func newPacketCodec() (*packetCodec, error) {
	c := &packetCodec{f: frame.New(make([]byte, frame.DefaultHeadroom+opa.Size(codecFrame)), nil),
		header: opa.Header{SLID: 1, DLID: 2, VESW: 2, PKey: 0x8001, Entropy: 0x5a}}
	clear(c.f.Extend(codecFrame))
	c.inner = c.f.Bytes()
	if opa.Encapsulate(c.f, &c.header, opa.ICRCv1) != frame.DropNone {
		return nil, errors.New("no packet can be built")
	}
	return c, nil
}

// crc is the reference: CRC-32 over the Ethernet frame alone.
func (c *packetCodec) crc() error {
	c.sum ^= crc32.ChecksumIEEE(c.inner)
	return nil
}

func (c *packetCodec) encapsulate() error {
	c.f.TrimFront(opa.HeaderLen)
	c.f.Truncate(codecFrame)
	if drop := opa.Encapsulate(c.f, &c.header, opa.ICRCv1); drop != frame.DropNone {
		return errors.New(drop.String())
	}
	return nil
}

func (c *packetCodec) check() error {
	if _, drop := opa.Parse(c.f.Bytes(), opa.ICRCv1); drop != frame.DropNone {
		return errors.New(drop.String())
	}
	return nil
}
