package roce

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ib"
)

// field is a field of a packet: where it is behind the UDP header, in bits.
type field struct {
	name  string
	at, n int
}

// fieldsOf are those of a packet whose change a capture cannot always tell from another choice
// of its sender.
func fieldsOf(p *ib.Packet) []field {
	list := []field{{"AckReq", 64, 1}, {"reserved", 65, 7}, {"TVer", 12, 4}, {"DestQP", 40, 24}, {"PSN", 72, 24},
		{"P_Key", 16, 16}, {"opcode", 0, 8}, {"PadCnt", 10, 2}}
	h, _ := p.Opcode.Headers()
	at := ib.BTHLen * 8
	for _, x := range []struct {
		has    ib.Headers
		fields []field
	}{
		{ib.HasRETH, []field{{"VA", 0, 64}, {"R_Key", 64, 32}, {"DMALen", 96, 32}}},
		{ib.HasAtomicETH, []field{{"VA", 0, 64}, {"R_Key", 64, 32}, {"operand", 96, 128}}},
		{ib.HasAETH, []field{{"syndrome", 0, 8}, {"MSN", 8, 24}}}, {ib.HasAtomicAckETH, []field{{"original", 0, 64}}},
		{ib.HasImm, []field{{"ImmDt", 0, 32}}}, {ib.HasIETH, []field{{"IETH", 0, 32}}},
	} {
		if h&x.has == 0 {
			continue
		}
		for _, f := range x.fields {
			list = append(list, field{f.name, at + f.at, f.n})
		}
		at += x.has.Len() * 8
	}
	return list
}

// What becomes of a mutant of each field.
const (
	asIfLost = iota // all requests succeed, and memory is as without it
	refused         // or a request fails
	obeyed          // or what the request names is another part of the same memory, or other data
)

var mutantKinds = map[string]int{"AckReq": asIfLost, "reserved": asIfLost, "TVer": asIfLost, "DestQP": asIfLost,
	"PSN": asIfLost, "P_Key": asIfLost,
	"MSN": asIfLost, "syndrome": asIfLost, "R_Key": refused, "IETH": refused, "DMALen": refused, "VA": obeyed,
	"operand": obeyed, "original": obeyed, "ImmDt": obeyed, "opcode": obeyed, "PadCnt": obeyed}

// TestMutants changes one bit of one packet between two live engines, its ICRC right again, in
// each field in turn. Nobody can tell such a packet from one that its sender meant; yet no octet
// changes that the peer has no right to, every request completes, and unless the packet has
// asked for something else, memory is right or a request has failed.
func TestMutants(t *testing.T) {
	count := map[string][2]int{} // mutants, and those with a request that failed
	for seed := range seeds(30) {
		for name := range mutantKinds {
			if changed, failed := mutate(t, uint64(seed), name); changed {
				n := count[name]
				if n[0]++; failed {
					n[1]++
				}
				count[name] = n
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s", seed, name)
			}
		}
	}
	for name, kind := range mutantKinds {
		n := count[name]
		if n[0] < seeds(30)/4 || (n[1] > 0) != (kind != asIfLost) && name != "ImmDt" && name != "operand" &&
			name != "original" {
			t.Errorf("%s: %d mutants, with %d of them a request failed", name, n[0], n[1])
		}
	}
	t.Log(count)
}

// mutate runs requests of each kind with a mutant of a field, and tells whether there was one
// and whether a request has failed.
func mutate(t *testing.T, seed uint64, name string) (changed, failed bool) {
	w := newSim(t, seed, false, false)
	w.mtu = 256
	from, to := w.end[0], w.end[1]
	a, b := w.pair(qpattr.RC)
	w.stranger()
	for i := range from.mem {
		from.mem[i], to.mem[i] = byte(w.rng.Uint32()), byte(w.rng.Uint32())
	}
	// What the peer may reach lies in the middle of memory that it may not.
	const open, size, recvAt = 64 << 10, 32 << 10, 160 << 10
	space := bytes.Clone(to.mem)
	mr, err := to.pd.RegMR(space[open:open+size], verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	to.must(err)
	closed, err := to.pd.RegMR(space, verbs.LocalWrite)
	to.must(err)
	for i := range 3 {
		sge := verbs.SGE{Addr: closed.Addr() + recvAt + uint64(i)*1024, Length: 1000, LKey: closed.LKey()}
		_, err = b.PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{sge}})
		to.must(err)
	}
	window, err := to.pd.RegMR(make([]byte, 64), verbs.RemoteRead|verbs.LocalWrite)
	to.must(err)
	want, own := bytes.Clone(space), bytes.Clone(from.mem)
	wrs := plan(from, mr, window.RKey())
	copy(want[recvAt:], own[:900])
	copy(want[recvAt+1024:], own[:700])
	copy(want[open:], own[1000:3000])
	copy(want[open+4096:], own[100:400])
	copy(own[8192:], want[open+8192:][:2000])
	binary.NativeEndian.PutUint64(own[16384:], binary.NativeEndian.Uint64(want[open+16384:]))
	binary.NativeEndian.PutUint64(want[open+16384:], binary.NativeEndian.Uint64(want[open+16384:])+5)

	w.change = mutator(w, name, int(seed%29), &changed)
	_, err = a.PostSend(wrs...)
	from.must(err)
	w.until("the end of all requests", func() bool { return len(from.wcs) == len(wrs) })
	for i, wc := range from.wcs {
		if wc.ID != uint64(i) {
			t.Errorf("completion %d is of request %d", i, wc.ID)
		}
		failed = failed || wc.Status != verbs.StatusSuccess
	}
	kind := mutantKinds[name]
	if failed && kind == asIfLost {
		t.Errorf("a request has failed: %s", last(from.wcs))
	}
	// Whatever the packet asked for: no octet but those that the peer may write and the receives,
	// and on this side none but the sinks of its own requests.
	same := func(what string, have, want []byte, may ...[2]int) {
		have = bytes.Clone(have)
		for _, m := range may {
			copy(have[m[0]:m[0]+m[1]], want[m[0]:])
		}
		if i := slices.Compare(have, want); i != 0 {
			t.Errorf("%s: memory differs", what)
		}
	}
	same("the peer's memory", space, want, [2]int{open, size}, [2]int{recvAt, 1000}, [2]int{recvAt + 1024, 1000},
		[2]int{recvAt + 2048, 1000})
	same("own memory", from.mem, own, [2]int{8192, 2000}, [2]int{16384, 8})
	if !failed && kind != obeyed {
		same("the peer's memory", space, want)
		same("own memory", from.mem, own)
		if window.Valid() {
			t.Error("the region is still valid")
		}
	}
	return changed, failed
}

// plan are requests of each kind.
func plan(s *station, to *verbs.MR, invalid uint32) []verbs.SendWR {
	at := func(off uint64) uint64 { return to.Addr() + off }
	list := []verbs.SendWR{
		{Opcode: verbs.OpSend, SGEs: s.sge(0, 900)},
		{Opcode: verbs.OpWrite, SGEs: s.sge(1000, 2000), RemoteAddr: at(0)},
		{Opcode: verbs.OpRead, SGEs: s.sge(8192, 2000), RemoteAddr: at(8192)},
		{Opcode: verbs.OpFetchAdd, SGEs: s.sge(16384, 8), RemoteAddr: at(16384), Atomic: verbs.Operands{CompareAdd: 5}},
		{Opcode: verbs.OpSendInv, SGEs: s.sge(0, 700), Invalidate: invalid},
		{Opcode: verbs.OpWriteImm, SGEs: s.sge(100, 300), RemoteAddr: at(4096), Imm: 7},
	}
	for i := range list {
		list[i].ID, list[i].RKey, list[i].Flags = uint64(i), to.RKey(), verbs.Signaled
	}
	return list
}

// mutator changes a random bit of a field, in the packet behind skip others that have it.
func mutator(w *sim, name string, skip int, changed *bool) func(b []byte) {
	const head = 28
	return func(b []byte) {
		var p ib.Packet
		if *changed || p.Parse(b[head:len(b)-ib.ICRCLen]) != nil {
			return
		}
		list := fieldsOf(&p)
		i := slices.IndexFunc(list, func(f field) bool { return f.name == name })
		if i < 0 {
			return
		}
		if common := list[i].at < ib.BTHLen*8; common && skip > 0 { // of others there are few
			skip--
			return
		}
		bit := list[i].at + w.rng.IntN(list[i].n)
		b[head+bit/8] ^= 0x80 >> (bit % 8)
		body := b[head : len(b)-ib.ICRCLen]
		c := ib.ICRCIPv4(b[:head]).Headers(body[:ib.BTHLen]).Payload(body[ib.BTHLen:])
		c.Put(b[len(b)-ib.ICRCLen:])
		*changed = true
	}
}

// stranger connects another pair of queue pairs, in other protection domains and without receives.
func (w *sim) stranger() {
	pds := [2]*verbs.PD{w.end[0].pd, w.end[1].pd}
	for _, s := range w.end {
		var err error
		s.pd, err = s.dev.AllocPD()
		s.must(err)
	}
	w.pair(qpattr.RC)
	for i, s := range w.end {
		s.pd = pds[i]
	}
}
