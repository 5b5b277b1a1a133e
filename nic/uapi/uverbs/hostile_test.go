package uverbs

import (
	"bytes"
	"testing"

	"tapir/nic/verbs"
)

// Offsets of rxe's rings (rdma/rdma_user_rxe.h), as a program writes them by
// itself.
const (
	ringLogSize    = 0
	ringMask       = 4
	ringProducer   = 128
	ringConsumer   = 256
	ringElements   = 384
	wrOpcode       = 12
	wrFlags        = 16
	wrImm          = 20
	wrAddr         = 24
	wrRKey         = 32
	bindLKey       = 40
	bindRKey       = 44
	bindNewRKey    = 48
	bindAccess     = 52
	wrLength       = 184
	wrNumSGE       = 196
	wrElements     = 208
	recvWRNumSGE   = 28
	recvWRElements = 40
)

// hostile is a program that has a connection to an honest one and writes
// whatever its input says, wherever it can.
type hostile struct {
	*station
	in                           []byte
	keys                         []uint32 // that it has been told, valid or not
	sends, receives, completions area
	made                         map[uint32]int // its regions by handle: indices of prog.Regions
}

func (h *hostile) u8() byte {
	if len(h.in) == 0 {
		return 0
	}
	v := h.in[0]
	h.in = h.in[1:]
	return v
}

func (h *hostile) u32() uint32 {
	return uint32(h.u8()) | uint32(h.u8())<<8 | uint32(h.u8())<<16 | uint32(h.u8())<<24
}

// key is one of those that exist or existed, mostly.
func (h *hostile) key() uint32 {
	n := h.u8()
	if n == 255 {
		return h.u32()
	}
	return h.keys[int(n)%len(h.keys)] + uint32(n>>6&1)
}

// addr is one near an end of memory, mostly.
func (h *hostile) addr() uint64 {
	switch off := uint64(h.u8()); h.u8() % 8 {
	case 0:
		return off << 56
	case 1:
		return h.bufAt - off
	case 2:
		return h.bufAt + uint64(len(h.buf)) - off
	case 3:
		return h.peer.bufAt + uint64(len(h.peer.buf)) - off
	default:
		return h.bufAt + off*8
	}
}

// length is a small number, or a large one.
func (h *hostile) length() uint32 {
	if n := h.u8(); n < 200 {
		return uint32(n) * 4
	}
	return h.u32()
}

// area is a ring as the NIC has made it, whatever its header says now.
type area struct {
	mem  []byte
	size uint32 // of an element
	mask uint32
}

func areaOf(mem []byte) area {
	return area{mem, 1 << native.Uint32(mem[ringLogSize:]), native.Uint32(mem[ringMask:])}
}

// next is the element that the producer would fill next; its index moves on.
func (a *area) next() []byte {
	n := native.Uint32(a.mem[ringProducer:])
	native.PutUint32(a.mem[ringProducer:], n+1)
	at := ringElements + n&a.mask*a.size
	return a.mem[at : at+a.size]
}

// elements writes scatter/gather elements, as far as there is room.
func (h *hostile) elements(b []byte) {
	for n := h.u8() % 4; n > 0 && len(b) >= 16; n-- {
		native.PutUint64(b, h.addr())
		native.PutUint32(b[8:], h.length())
		native.PutUint32(b[12:], h.key())
		b = b[16:]
	}
}

func (h *hostile) send() {
	e := h.sends.next()
	native.PutUint32(e[wrOpcode:], uint32(h.u8()%16))
	native.PutUint32(e[wrFlags:], uint32(h.u8()))
	native.PutUint32(e[wrImm:], h.key())
	native.PutUint64(e[wrAddr:], h.addr())
	native.PutUint32(e[wrRKey:], h.key())
	if e[wrOpcode] == 8 {
		native.PutUint64(e[wrRKey:], uint64(h.length()))
		native.PutUint32(e[bindLKey:], h.key())
		native.PutUint32(e[bindRKey:], h.key())
		native.PutUint32(e[bindNewRKey:], native.Uint32(e[bindRKey:])+1)
		native.PutUint32(e[bindAccess:], uint32(h.u8()))
	}
	native.PutUint32(e[wrLength:], h.length())
	n := uint32(h.u8())
	if n > 8 {
		n = h.u32()
	}
	native.PutUint32(e[wrNumSGE:], n)
	h.elements(e[wrElements:])
}

func (h *hostile) receive() {
	e := h.receives.next()
	n := uint32(h.u8())
	if n > 8 {
		n = h.u32()
	}
	native.PutUint32(e[recvWRNumSGE:], n)
	h.elements(e[recvWRElements:])
}

// scribble writes anywhere in a ring: indices mostly.
func (h *hostile) scribble() {
	mem := []area{h.sends, h.receives, h.completions}[h.u8()%3].mem
	at := uint32([]int{ringProducer, ringConsumer, ringMask, ringLogSize}[h.u8()%4])
	if at == ringLogSize {
		at = h.u32() % uint32(len(mem)-3) &^ 3
	}
	native.PutUint32(mem[at:], h.u32())
}

// register makes a region, changes one, or ends one, and notes what the NIC
// must not touch any more.
func (h *hostile) register() {
	rights := uint32(h.u8())
	switch h.u8() % 4 {
	case 0:
		addr, n := h.addr(), uint64(h.length())
		if a, err := h.do(9, fields(addr, n, addr, h.pdh, rights), 12); err == nil {
			h.made[a.u32(0)] = len(h.prog.Regions) - 1
			h.keys = append(h.keys, a.u32(4))
		}
	case 1:
		mr, addr, n := uint32(h.u8()%16), h.addr(), uint64(h.length())
		before := len(h.prog.Regions)
		if a, err := h.do(11, fields(mr, uint32(h.u8()%8), addr, n, addr, h.pdh, rights), 8); err == nil {
			if now := len(h.prog.Regions); now > before {
				h.prog.Regions[h.made[mr]].End()
				h.made[mr] = now - 1
			}
			h.keys = append(h.keys, a.u32(0))
		}
	case 2:
		mr := uint32(h.u8() % 16)
		if _, err := h.do(13, fields(mr), 0); err == nil {
			h.prog.Regions[h.made[mr]].End()
		}
	case 3:
		if a, err := h.do(14, fields(h.pdh, 1+rights%2, make([]byte, 3)), 8); err == nil {
			h.keys = append(h.keys, a.u32(4))
		}
	}
}

// resize changes a queue's ring under the NIC's feet.
func (h *hostile) resize() {
	n := h.length()
	if h.u8()%2 == 0 {
		if a, err := h.do(19, fields(h.cqh, n%1024), 8+ringLen); err == nil {
			h.completions = areaOf(h.mmap(a[8:]))
		}
	} else if _, err := h.do(33, fields(uint32(3), uint32(h.u8()%4), n%1024, uint32(h.u8()), h.addr()), 0); err == nil &&
		h.u8() > 0 {
		clear(h.mem[:ringLen])
		_, _ = h.do(33, fields(uint32(3), srqMaxWR, 64, 0, h.client.addr), 0)
		if body(h.mem).u32(8) > 0 {
			h.receives = areaOf(h.mmap(body(h.mem)))
		}
	}
}

// act does what the next octets say.
func (h *hostile) act() {
	switch what := h.u8() % 16; what {
	case 0, 1, 2:
		h.send()
		_, _ = h.do(28, fields(h.qph, 0, 0, 128), 4)
	case 3:
		h.send()
	case 4, 5:
		h.receive()
	case 6, 7:
		h.scribble()
	case 8, 9:
		h.register()
	case 10:
		h.resize()
	case 11:
		_, _ = h.do(26, toState(h.qph, verbs.State(h.u8()%8)), 0)
	case 12: // a command of octets
		n := int(h.u8())
		b := h.in[:min(len(h.in), n)]
		h.in = h.in[len(b):]
		_, _ = h.do(int(h.u8()%41), bytes.Clone(b), 64)
	case 13:
		if h.u8()%2 == 0 {
			h.prog.Unmap(h.bufAt)
		} else {
			h.prog.Protect(h.bufAt)
		}
	default:
		for range what * 4 {
			h.cable.step()
		}
	}
}

// hostileSeeds are inputs that reach far.
var hostileSeeds = [][]byte{
	bytes.Repeat([]byte{0, 2, 2, 0, 10, 4, 0, 10, 1, 1, 10, 4, 10, 0, 15}, 6),      // Sends
	bytes.Repeat([]byte{4, 1, 1, 10, 4, 10, 0, 15, 0, 0, 2, 0, 10, 4, 0, 200}, 6),  // receives, Writes
	bytes.Repeat([]byte{0, 4, 2, 0, 10, 3, 1, 10, 1, 1, 0, 4, 20, 0, 15, 15}, 6),   // Reads
	bytes.Repeat([]byte{6, 0, 0, 255, 255, 255, 255, 0, 2, 2, 0, 10, 4, 0, 15}, 5), // indices
	bytes.Repeat([]byte{8, 31, 0, 10, 4, 30, 8, 1, 2, 1, 9, 3, 2, 0, 15}, 5),       // regions
	bytes.Repeat([]byte{10, 100, 0, 10, 100, 1, 1, 10, 4, 4, 1, 14}, 6),            // resized
	bytes.Repeat([]byte{8, 31, 3, 0, 8, 2, 1, 10, 4, 5, 20, 0, 3, 31, 15}, 5),      // windows
	bytes.Repeat([]byte{13, 0, 0, 0, 2, 0, 10, 4, 0, 10, 1, 1, 10, 4, 10, 0, 15}, 4),
}

// FuzzHostileProgram lets a program write anything into its rings and into the
// device, while it is connected to an honest one: indices, lengths, numbers of
// elements, keys, requests, registrations and their ends. The NIC must not
// touch memory that is not registered (abitest.Region panics), must not fail,
// and everything goes with the program.
func FuzzHostileProgram(f *testing.F) {
	for _, seed := range hostileSeeds {
		f.Add(false, seed)
		f.Add(true, seed)
	}
	f.Fuzz(func(t *testing.T, shared bool, in []byte) {
		for _, p := range []verbs.Personality{verbs.IWARP, verbs.RoCE} {
			hostileProgram(t, p, shared, in)
		}
	})
}

func hostileProgram(t *testing.T, p verbs.Personality, shared bool, in []byte) {
	c := newCable(t, p)
	h := &hostile{station: c.ends[0], in: in[:min(len(in), 1024)], made: map[uint32]int{}}
	honest := c.ends[1]
	h.setup(shared)
	honest.setup(false)
	c.connect()
	h.sends, h.receives, h.completions = areaOf(h.rings.send), areaOf(h.rings.receive), areaOf(h.rings.completion)
	h.keys = []uint32{h.station.key, honest.key}
	h.made[h.mrh] = 0
	for i := range uint64(4) {
		ok(t, honest.recv.Post(&verbs.RecvWR{ID: i, SGEs: honest.sge(int(i)*1000, 1000)}))
	}
	honest.post(
		verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGEs: honest.sge(0, 3000)},
		verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, SGEs: honest.sge(0, 5000), RemoteAddr: h.bufAt, RKey: h.station.key},
		verbs.SendWR{ID: 3, Opcode: verbs.OpRead, SGEs: honest.sge(0, 5000), RemoteAddr: h.bufAt, RKey: h.station.key},
	)
	for len(h.in) > 0 {
		h.act()
	}
	c.settle()
	h.file.Close()
	if left := h.nic.Verbs.Objects(); len(left) != 0 {
		t.Fatalf("left behind: %v", left)
	}
	c.settle()
	honest.file.Close()
	if left := honest.nic.Verbs.Objects(); len(left) != 0 {
		t.Fatalf("the peer left: %v", left)
	}
}
