package inspect

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tapir/nic/verbs/qpattr"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

const roceHead = ip.HeaderLen4 + udp.HeaderLen

// roceField names the field that bit bit of octet at of a packet's transport octets is in.
func roceField(b []byte, at, bit int) string {
	switch {
	case at == 0:
		return "opcode"
	case at == 1:
		return []string{"TVer", "TVer", "TVer", "TVer", "PadCnt", "PadCnt", "MigReq", "SE"}[bit]
	case at < 4:
		return "P_Key"
	case at == 4:
		return "reserved"
	case at < 8:
		return "DestQP"
	case at == 8:
		return map[bool]string{true: "AckReq", false: "reserved"}[bit == 7]
	case at < ib.BTHLen:
		return "PSN"
	}
	h, _ := ib.Opcode(b[0]).Headers()
	at -= ib.BTHLen
	for _, f := range []struct {
		has  ib.Headers
		name string
		n    int
	}{{ib.HasRETH, "VA", 8}, {ib.HasRETH, "R_Key", 4}, {ib.HasRETH, "DMALen", 4}, {ib.HasAtomicETH, "VA", 8},
		{ib.HasAtomicETH, "R_Key", 4}, {ib.HasAtomicETH, "operand", 16}, {ib.HasAETH, "syndrome", 1}, {ib.HasAETH, "MSN", 3},
		{ib.HasAtomicAckETH, "original", 8}, {ib.HasImm, "ImmDt", 4}, {ib.HasIETH, "IETH", 4}} {
		if h&f.has == 0 {
			continue
		}
		if at -= f.n; at < 0 {
			return f.name
		}
	}
	return "payload"
}

// roceMutant is list with one bit of a random packet changed and its ICRC right again.
func roceMutant(r *rand.Rand, list []Packet) (mutant []Packet, field string) {
	mutant = slices.Clone(list)
	packet := r.IntN(len(list))
	d := bytes.Clone(list[packet].Data)
	b := d[roceHead : len(d)-ib.ICRCLen]
	at, bit := r.IntN(min(len(b), ib.BTHLen+20)), r.IntN(8)
	field = roceField(b, at, bit)
	b[at] ^= 1 << bit
	ib.ICRCIPv4(d[:roceHead]).Headers(b[:ib.BTHLen]).Payload(b[ib.BTHLen:]).Put(d[len(d)-ib.ICRCLen:])
	mutant[packet].Data = d
	return mutant, field
}

// roceObjected is which part of the mutants of a field is objected to at least, in percent. Of a
// field that is not here a capture cannot tell what it should be: the sender's own choice, or the
// packet reads like one of another connection or one whose neighbours the capture lacks. What a live
// engine makes of those is tested by nic/roce.TestMutants.
var roceObjected = map[string]int{"DMALen": 100, "TVer": 100, "P_Key": 70, "PadCnt": 50, "reserved": 60,
	"MSN": 60, "opcode": 50}

// roceFree are fields whose every value is right, as far as anyone but the two ends knows.
var roceFree = []string{"payload", "AckReq", "SE", "MigReq", "original"}

// TestRoCEMutants changes bits of captures of our own engine.
func TestRoCEMutants(t *testing.T) {
	t.Parallel()
	all, objected := map[string]int{}, map[string]int{}
	for seed := range uint64(20) {
		typ := []qpattr.Type{qpattr.RC, qpattr.RC, qpattr.UC}[seed%3]
		b := newRoCEBench(t, seed, typ)
		b.loss = 0
		for end := b.now.Add(100 * time.Millisecond); b.now < end; b.step() {
			for _, s := range b.ends {
				if s.left > 0 && b.r.IntN(4) == 0 {
					s.post(typ)
				}
			}
		}
		for range 100 {
			list, field := roceMutant(b.r, b.list)
			all[field]++
			for _, f := range judge(list).Findings {
				if f.Note {
					continue
				}
				if slices.Contains(roceFree, field) {
					t.Errorf("seed %d, %s: %v", seed, field, f)
				}
				objected[field]++
				break
			}
		}
	}
	t.Logf("objected to %v of %v", objected, all)
	for field, least := range roceObjected {
		if all[field] == 0 || objected[field]*100 < least*all[field] {
			t.Errorf("%s: %d of %d mutants are objected to, want %d %%", field, objected[field], all[field], least)
		}
	}
}
