package fibre

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"tapir/lab/check/capturetest"
	"tapir/lab/tool/inspect/clause"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
)

// vn2vn and inFabric are captures of our nodes: logins, a disk that is written and read, logouts. In the second one a
// forwarder passes each frame on, so that it is seen twice.
const (
	vn2vn    = "../testdata/fcoe-vn2vn.pcap"
	inFabric = "../testdata/fcoe-fabric.pcap"
)

func load(t testing.TB, file string) (list [][]byte) {
	for _, p := range capturetest.Packets(t, file) {
		list = append(list, p.Data)
	}
	return list
}

// found takes down what a Fabric says.
type found struct {
	packet int
	list   []finding
	part   string
	names  map[string]int
}

type finding struct {
	rule   *clause.Rule
	packet int
	detail string
}

// Violate implements Reporter.
func (f *found) Violate(r *clause.Rule, detail string) {
	f.list = append(f.list, finding{r, f.packet, detail})
}

// Part implements Reporter.
func (f *found) Part(why string) { f.part = why }

// Frame implements Reporter.
func (f *found) Frame(_, _, name, _ string, _ int) { f.names[name]++ }

func judge(list [][]byte) *found {
	f := &found{names: map[string]int{}}
	j := New(f)
	for n, b := range list {
		f.packet = n + 1
		h, at, err := ether.Parse(b)
		switch {
		case err != nil:
		case h.Type == fip.EtherType:
			j.FIP(h, b[at:])
		default:
			j.FCoE(h, b[at:])
		}
	}
	return f
}

// octet changes an octet of an Ethernet frame.
func octet(at int, v byte) func(b []byte) []byte {
	return func(b []byte) []byte { b[at] = v; return b }
}

// again makes a frame of FCoE again with header and payload changed.
func again(change func(h *fc.Header, payload []byte) []byte) func(b []byte) []byte {
	return func(b []byte) []byte {
		eh, at, _ := ether.Parse(b)
		_, _, inner, _ := fcoe.Parse(b[at:])
		h, payload, _ := fc.Parse(inner)
		payload = change(&h, bytes.Clone(payload))
		return fcoe.Append(eh.AppendTo(nil), h, payload)
	}
}

func header(change func(h *fc.Header)) func(b []byte) []byte {
	return again(func(h *fc.Header, payload []byte) []byte { change(h); return payload })
}

func words(at int, v uint32) func(b []byte) []byte {
	return again(func(_ *fc.Header, payload []byte) []byte {
		binary.BigEndian.PutUint32(payload[at:], v)
		return payload
	})
}

// portMAC changes the MAC address in the descriptor of a VN_Port.
func portMAC(b []byte) []byte {
	b[bytes.Index(b, []byte{byte(fip.VNPort), 5})+7] ^= 1
	return b
}

// only applies a change to packet n and ends the capture at last.
func only(n, last int, change func(b []byte) []byte) func(list [][]byte) [][]byte {
	return func(list [][]byte) [][]byte {
		list[n-1] = change(list[n-1])
		return list[:last]
	}
}

// cases: each change of a capture breaks a rule in a packet, and none before it.
var cases = []struct {
	rule   *clause.Rule
	file   string
	packet int
	change func(list [][]byte) [][]byte
}{
	{fipHeader, vn2vn, 1, only(1, 1, octet(14, 0x20))},
	{fipDescriptor, vn2vn, 1, only(1, 1, octet(25, 0))},
	{fipUnknown, vn2vn, 1, only(1, 1, octet(24, 100))},
	{fipMissing, vn2vn, 1, only(1, 1, octet(19, 3))},
	{fipOperation, vn2vn, 1, only(1, 1, octet(19, 9))},
	{fipGroup, vn2vn, 1, only(1, 1, octet(5, 2))},
	{fipAddress, vn2vn, 9, only(9, 9, portMAC)},
	{fipAddress, inFabric, 11, only(11, 11, func(b []byte) []byte {
		b[bytes.LastIndex(b, []byte{0x0e, 0xfc, 0})+5] ^= 1
		return b
	})},

	{frameShort, vn2vn, 15, only(15, 15, octet(14, 0x10))},
	{frameDelimiter, vn2vn, 15, only(15, 15, octet(27, byte(fcoe.SOFf)))},
	{frameSOF, vn2vn, 23, only(23, 23, octet(27, byte(fcoe.SOFi3)))},
	{frameEOF, vn2vn, 15, only(15, 15, func(b []byte) []byte { b[len(b)-4] = byte(fcoe.EOFn); return b })},
	{frameCRC, vn2vn, 15, only(15, 15, octet(60, 0xff))},
	{frameHeader, vn2vn, 15, only(15, 15, header(func(h *fc.Header) { h.DFCtl = 1 }))},
	{frameLong, vn2vn, 22, only(15, 22, again(func(_ *fc.Header, p []byte) []byte {
		binary.BigEndian.PutUint16(p[10:], 1024)
		return p
	}))},
	{frameSource, vn2vn, 33, only(33, 33, octet(11, 3))},
	{frameLogin, inFabric, 103, func(list [][]byte) [][]byte { return append(list[:102], list[100]) }},
	{frameProcess, inFabric, 45, func(list [][]byte) [][]byte { return slices.Delete(list, 44, 48)[:45] }},

	{seqCount, vn2vn, 24, only(24, 24, func(b []byte) []byte {
		b = header(func(h *fc.Header) { h.SeqCnt = 0 })(b)
		b[27] = byte(fcoe.SOFn3)
		return b
	})},
	{exchInUse, vn2vn, 20, func(list [][]byte) [][]byte {
		list[20] = header(func(h *fc.Header) { h.OXID = 4 })(list[20])
		return slices.Delete(list, 19, 20)[:20]
	}},
	{fcpShort, vn2vn, 19, only(19, 19, again(func(_ *fc.Header, p []byte) []byte { return p[:16] }))},
	{fcpOffset, vn2vn, 23, only(23, 23, header(func(h *fc.Header) { h.Param = 0 }))},
	{fcpLong, vn2vn, 23, only(21, 23, words(28, 2200))},
	{fcpTransfer, inFabric, -1, nil}, // see TestRules
	{fcpUnasked, inFabric, -1, nil},
	{fcpResidual, vn2vn, 30, only(30, 30, again(func(_ *fc.Header, p []byte) []byte { p[10], p[15] = fc.Underrun, 9; return p }))},
	{fcpEnd, vn2vn, 30, only(30, 30, header(func(h *fc.Header) { h.FCtl &^= fc.Last }))},
}

// nth finds the nth frame with a routing control.
func nth(list [][]byte, r fc.RCtl, n int) int {
	for k, b := range list {
		if h, at, _ := ether.Parse(b); h.Type == fcoe.EtherType && fc.RCtl(b[at+14]) == r {
			if n--; n == 0 {
				return k + 1
			}
		}
	}
	return 0
}

// TestRules: each rule is broken by a capture in the packet that breaks it.
func TestRules(t *testing.T) {
	broken := map[*clause.Rule]bool{}
	for _, x := range cases {
		list := load(t, x.file)
		switch x.rule {
		case fcpTransfer:
			x.packet = nth(list, fc.DataDescriptor, 1)
			x.change = only(x.packet, x.packet, words(4, 0))
		case fcpUnasked: // the second one is the forwarder's, to the initiator
			x.packet = nth(list, fc.SolicitedData, 1)
			x.change = only(nth(list, fc.DataDescriptor, 2), x.packet, words(4, 1000))
		}
		got := judge(x.change(list)).list
		broken[x.rule] = true
		if len(got) != 1 || got[0].rule != x.rule || got[0].packet != x.packet {
			s := ""
			for _, f := range got {
				s += fmt.Sprintf("\n\tpacket %d: %s: %s: %s", f.packet, f.rule.Clause, f.rule.Says, f.detail)
			}
			t.Errorf("packet %d: %s: %s: found:%s", x.packet, x.rule.Clause, x.rule.Says, s)
		}
	}
	for _, r := range Rules() {
		if !broken[r] {
			t.Errorf("no capture breaks %s: %s", r.Clause, r.Says)
		}
	}
}

// TestCaptures: captures of our nodes break no rule, from their start on or from any frame on; one that lacks a
// frame inside a sequence is judged in part.
func TestCaptures(t *testing.T) {
	for _, file := range []string{vn2vn, inFabric} {
		list := load(t, file)
		for from := range list {
			for without := -1; without < len(list)-from && (without < 0 || from%16 == 0); without++ {
				part := slices.Clone(list[from:])
				if without >= 0 {
					part = slices.Delete(part, without, without+1)
				}
				f := judge(part)
				for _, x := range f.list {
					t.Errorf("%s from frame %d without %d: packet %d: %s: %s: %s", file, from+1, from+without+1, x.packet,
						x.rule.Clause, x.rule.Says, x.detail)
				}
				if from == 0 && without < 0 && (f.part != "" || f.names["FCP_DATA"] < 8 || f.names["LOGO"] == 0) {
					t.Errorf("%s: %s, %v", file, f.part, f.names)
				}
			}
		}
	}
	if f := judge(slices.Delete(load(t, vn2vn), 23, 24)); f.part == "" {
		t.Error("a frame is missing inside a sequence, and nobody says so")
	}
}

// FuzzFabric: whatever comes, judging it ends.
func FuzzFabric(f *testing.F) {
	for _, file := range []string{vn2vn, inFabric} {
		for _, b := range load(f, file)[:30] {
			f.Add(b)
		}
	}
	before := load(f, vn2vn)
	f.Fuzz(func(t *testing.T, b []byte) { judge(append(slices.Clone(before), b, b)) })
}
