package hfinode_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node/hfinode"
	"tapir/nic/buf"
	"tapir/opa"
	"tapir/vnic"
	"tapir/wire/frame"
)

// wires are the fabric and the hosts of an HFI: what left by them.
type wires struct {
	fabric, host [][]byte
}

type kept struct{ to *[][]byte }

func (k kept) Room() int { return 64 }
func (k kept) Transmit(f *frame.Frame) {
	*k.to = append(*k.to, bytes.Clone(f.Bytes()))
	f.Release()
}

// flat is a clock that shows the time it is asked for.
type flat struct{}

func (flat) At(t frame.Time) frame.Stamp { return frame.Stamp(t) }

// A whole HFI makes, of what the host of a VNIC sends, the packet that the document of the
// Linux driver shows, octet by octet, and takes such a packet apart again; it gives it to
// the VNIC of the vESW in it and to no other. Nothing of package opa is used to look.
//
// OPA-1-03 OPA-2-01 OPA-2-02 OPA-2-03 OPA-2-04 OPA-2-05 OPA-2-06 OPA-2-07 OPA-3-03 OPA-3-04 OPA-3-10
func TestPacketOctets(t *testing.T) {
	const slid, dlid = 0x123456, 0xabcde
	pool, w := buf.NewPool(1<<14, 0), &wires{}
	h, err := hfinode.NewHFI(hficonf.Config{Name: "h", GUID: 1, LID: slid, Framing: opa.Framing88B5, PKeys: []uint16{0x7fff, 0x8003},
		VNICs: []hficonf.VNIC{{VESW: 0xabc, PKey: 0x8003, MTU: 9000, Ports: []opa.LID{dlid}}, {VESW: 0x0bc, PKey: 0x8003}}},
		hfinode.Env{Pool: pool, Wire: kept{&w.fabric}, Clock: flat{}})
	must(t, err)
	h.Port().LinkUp(0)
	for i, d := range h.VPorts().Netdevs() {
		p := vnic.DefaultPolicy()
		p.Filter = false
		d.SetPolicy(p)
		d.Open()
		if i == 0 {
			d.SetHost(kept{&w.host})
		} else {
			d.SetHost(kept{new([][]byte)})
		}
	}
	for _, size := range []int{60, 61, 67, 1514, 9014} {
		eth := bytes.Repeat([]byte{0xa5}, size)
		copy(eth, []byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x00, 0x11, 0x22, 0x33, 0x44, 0x66, 0x88, 0xb7})
		f := pool.Get(size)
		f.Append(eth)
		w.fabric, w.host = nil, nil
		h.FromHost(h.VPorts().Netdevs()[0], []*frame.Frame{f}, 0)
		h.Poll(0)
		if len(w.fabric) != 1 {
			t.Fatalf("%d octets: %d packets left", size, len(w.fabric))
		}
		p := w.fabric[0][14:]
		pad := (8 - (20+size+5)%8) % 8
		q0, q1, q2 := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint32(p[16:])
		bits := func(q uint64, from, n int) uint64 { return q >> from & (1<<n - 1) }
		for _, x := range []struct {
			what      string
			got, want uint64
		}{
			{"octets", uint64(len(p)), uint64(20 + size + pad + 5)},
			{"SLID 19:0", bits(q0, 0, 20), slid & 0xfffff}, {"Length", bits(q0, 20, 11), uint64(20+size+pad+5) / 8}, {"BECN", bits(q0, 31, 1), 0},
			{"DLID 19:0", bits(q0, 32, 20), dlid & 0xfffff}, {"SC", bits(q0, 52, 5), 0}, {"RC", bits(q0, 57, 3), 0}, {"FECN", bits(q0, 60, 1), 0},
			{"L2", bits(q0, 61, 2), 2}, {"LT", bits(q0, 63, 1), 1}, {"L4 type", bits(q1, 0, 8), 0x78},
			{"SLID 23:20", bits(q1, 8, 4), slid >> 20}, {"DLID 23:20", bits(q1, 12, 4), dlid >> 20}, {"P_Key", bits(q1, 16, 16), 0x8003},
			{"reserved", bits(q1, 48, 16), 0}, {"L4 header", uint64(q2 >> 16), 0xabc}, {"reserved", uint64(q2 & 0xffff), 0},
			{"tail and LT", uint64(p[len(p)-1]), uint64(0x40 | pad)}, {"ICRC", uint64(binary.LittleEndian.Uint32(p[len(p)-5:])), uint64(icrc(p))},
		} {
			if x.got != x.want {
				t.Errorf("frame of %d octets: %s is %#x, want %#x", size, x.what, x.got, x.want)
			}
		}
		if !bytes.Equal(p[20:20+size], eth) || !bytes.Equal(p[20+size:20+size+pad], make([]byte, pad)) {
			t.Errorf("frame of %d octets: the frame or its padding is wrong", size)
		}

		// The way back: another HFI answers.
		back := slices.Clone(w.fabric[0])
		copy(back[14:], swapped(p))
		for _, c := range []struct {
			what   string
			change func([]byte)
			takes  bool
		}{
			{"as sent", func([]byte) {}, true},
			{"of another vESW, equal modulo 256", func(p []byte) { p[19] = 0x00 }, false},
			{"with a flipped bit", func(p []byte) { p[40] ^= 4 }, false},
		} {
			b := slices.Clone(back)
			c.change(b[14:])
			if c.what != "with a flipped bit" {
				binary.LittleEndian.PutUint32(b[len(b)-5:], icrc(b[14:]))
			}
			f := pool.Get(len(b))
			f.Append(b)
			w.host = nil
			h.ReceiveFabric([]*frame.Frame{f}, 0)
			h.Poll(0)
			if got := len(w.host) == 1 && bytes.Equal(w.host[0], eth); got != c.takes || len(w.host) > 1 {
				t.Errorf("frame of %d octets, %s: %d frames reached the host", size, c.what, len(w.host))
			}
		}
	}
	if pool.Lent() != 0 {
		t.Errorf("%d frames lost", pool.Lent())
	}
}

// swapped is a copy of the packet p from its destination to its source.
func swapped(p []byte) []byte {
	b := slices.Clone(p)
	q0, q1 := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
	const low = 1<<20 - 1
	binary.LittleEndian.PutUint64(b, q0&^(low|low<<32)|q0>>32&low|q0&low<<32)
	binary.LittleEndian.PutUint64(b[8:], q1&^0xff00|q1>>4&0xf00|q1<<4&0xf000)
	return b
}

// icrc is the CRC-32 over header, frame and padding, with ones for what a fabric changes:
// BECN, SC, FECN and LT, and octets 14 and 15.
func icrc(p []byte) uint32 {
	b := slices.Clone(p[:len(p)-5])
	for at, ones := range map[int]byte{3: 0x80, 6: 0xf0, 7: 0x91, 14: 0xff, 15: 0xff} {
		b[at] |= ones
	}
	return crc32.ChecksumIEEE(b)
}
