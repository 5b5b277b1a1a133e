package fc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"testing"
)

func TestHeaderComesBack(t *testing.T) {
	h := Header{RCtl: SolicitedData, D: 0x010203, S: 0x040506, Type: TypeFCP, FCtl: First | RelOffset, SeqID: 9,
		SeqCnt: 0x1234, OXID: 0x5678, RXID: 0x9abc, Param: 0xdeadbeef}
	b := h.AppendFrame(nil, []byte{1, 2, 3, 4, 5})
	want, _ := hex.DecodeString("01010203000405060820000b09001234" + "56789abcdeadbeef" + "0102030405000000")
	if !bytes.Equal(b, want) {
		t.Fatalf("%x, want %x", b, want)
	}
	got, payload, err := Parse(b)
	h.FCtl |= 3
	if err != nil || got != h || !bytes.Equal(payload, []byte{1, 2, 3, 4, 5}) {
		t.Errorf("%+v %x %v", got, payload, err)
	}
	if r := got.ReplyTo(AbortAccept); r.D != h.S || r.S != h.D || r.OXID != h.OXID || r.FCtl != Reply {
		t.Errorf("%+v", r)
	}
}

func TestHeaderRefuses(t *testing.T) {
	b := Header{}.AppendFrame(nil, nil)
	if _, _, err := Parse(b[:23]); !errors.Is(err, ErrShort) {
		t.Error(err)
	}
	b[11] = 1
	if _, _, err := Parse(b); !errors.Is(err, ErrFormat) {
		t.Error("fill without payload:", err)
	}
	b[11], b[13] = 0, 0x20
	if _, _, err := Parse(b); !errors.Is(err, ErrFormat) {
		t.Error("optional header:", err)
	}
}

func TestNames(t *testing.T) {
	w := FromMAC(0x2000, [6]byte{0x52, 0x54, 0, 0x96, 0xe7, 0xf0})
	for _, s := range []string{"20:00:52:54:00:96:e7:f0", "0x200052540096E7F0", "naa.200052540096e7f0"} {
		if got, err := ParseWWN(s); err != nil || got != w {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "20:00", "20:00:52:54:00:96:e7:f0:11", ":200052540096e7f0", "2:0005254:0096e7f0", "x"} {
		if got, err := ParseWWN(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
	if text, _ := w.MarshalText(); string(text) != "20:00:52:54:00:96:e7:f0" || ID(0x10203).String() != "010203" {
		t.Error(string(text))
	}
}

// back checks that a payload is read as what was written, and that all shorter ones are refused.
func back[T any](t *testing.T, v T, b []byte, parse func([]byte) (T, error)) {
	t.Helper()
	if got, err := parse(b); err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%+v became %+v, %v", v, got, err)
	}
	for n := range b {
		if _, err := parse(b[:n]); err == nil {
			t.Errorf("%+v: %d of %d octets are enough", v, n, len(b))
		}
	}
}

func TestPayloadsComeBack(t *testing.T) {
	l := Login{Command: FLOGI, BBCredit: 10, Features: MultipleIDs, MaxPayload: 2112, RATOV: 10000, EDTOV: 2000,
		Port: 1, Node: 2, Class3: true, Class3Size: 1024, Concurrent: 255, Open: 1}
	back(t, l, l.AppendTo(nil), ParseLogin)
	p := ProcessLogin{PRLI, TypeFCP, EstablishPair, Initiator | RetrySupport}
	back(t, p, p.AppendTo(nil), ParseProcessLogin)
	o := Logout{0x10203, 5}
	back(t, o, o.AppendTo(nil), ParseLogout)
	a := Discovery{ADISC, 1, 2, 3}
	back(t, a, a.AppendTo(nil), ParseDiscovery)
	back(t, []Change{{OfPort, 0x10203}, {OfPort, 0x10204}}, AppendStateChange(nil, 0x10203, 0x10204), ParseStateChange)
	back(t, ScrFull, AppendSCR(nil, ScrFull), func(b []byte) (int, error) { n, err := ParseSCR(b); return int(n), err })
	x := Exchange{RRQ, 0x10203, 4, 5}
	back(t, x, x.AppendTo(nil), ParseExchange)
	s := ExchangeState{1, 2, 3, 4, 5, HasInitiative}
	back(t, s, s.AppendTo(nil), ParseExchangeState)
	c := SCSICommand{LUN: 1 << 48, Flags: ReadData, CDB: [16]byte{0x28}, DataLen: 4096}
	back(t, c, c.AppendTo(nil), ParseCommand)
	y := Transfer{4096, 512}
	back(t, y, y.AppendTo(nil), ParseTransfer)
	r := Response{Flags: HasSense | HasInfo | Underrun, Status: 2, Residual: 9, Info: TaskFailed, Sense: []byte{0x70, 0, 5}}
	back(t, r, r.AppendTo(nil), ParseResponse)
	entries := []Entry{{1, 11}, {2, 12}}
	back(t, entries, AppendEntries(nil, entries, true), func(b []byte) ([]Entry, error) { return ParseEntries(b, true) })
	back(t, "name", AppendSymbol(nil, "name"), SymbolParam)
	if c, e, err := ParseReject(AppendReject(nil, LogicalBusy, LoginInProgress)); c != LogicalBusy || e != LoginInProgress || err != nil {
		t.Error(c, e, err)
	}
}

func TestCommonTransport(t *testing.T) {
	q := AppendQuery(nil, GPNFT, AppendType(nil, TypeFCP))
	c, rest, err := ParseCT(q)
	if err != nil || c.Command != GPNFT || c.Service != DirectoryService || c.Subtype != NameServer {
		t.Fatalf("%+v, %v", c, err)
	}
	if d, a, y, err := TypeParam(rest); d != 0 || a != 0 || y != TypeFCP || err != nil {
		t.Error(d, a, y, err)
	}
	id, rest, err := IDParam(AppendName(AppendID(nil, 0x10203), 7))
	name, _, err2 := NameParam(rest)
	if id != 0x10203 || name != 7 || err != nil || err2 != nil {
		t.Error(id, name, err, err2)
	}
	var types Types
	types.Add(TypeFCP)
	types.Add(TypeCT)
	if !bytes.Equal(types[:8], []byte{0, 0, 1, 0, 0, 0, 0, 1}) || !types.Has(TypeFCP) || types.Has(TypeELS) {
		t.Errorf("%x", types)
	}
}

func TestChangeCovers(t *testing.T) {
	for _, c := range []struct {
		change Change
		in     []ID
		out    []ID
	}{
		{Change{OfPort, 0x10203}, []ID{0x10203}, []ID{0x10204}},
		{Change{OfArea, 0x10200}, []ID{0x10203, 0x102ff}, []ID{0x10303}},
		{Change{OfDomain, 0x10000}, []ID{0x1ffff}, []ID{0x20000}},
		{Change{OfFabric, 0}, []ID{1, 0xffffff}, nil},
	} {
		for _, id := range slices.Concat(c.in, c.out) {
			if c.change.Covers(id) != slices.Contains(c.in, id) {
				t.Errorf("%+v %v", c.change, id)
			}
		}
	}
}

// FuzzPayloads: no octets make a decoder panic.
func FuzzPayloads(f *testing.F) {
	l := Login{Command: PLOGI}
	f.Add(Header{}.AppendFrame(nil, l.AppendTo(nil)))
	f.Add(Header{}.AppendFrame(nil, AppendStateChange(nil, 1, 2)))
	f.Add(Header{}.AppendFrame(nil, (&Response{Flags: HasInfo | HasSense, Sense: []byte{1}}).AppendTo(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, p, err := Parse(b)
		if err != nil {
			return
		}
		if !bytes.Equal(h.AppendTo(nil)[:HeaderLen], b[:HeaderLen]) {
			t.Errorf("%+v", h)
		}
		_ = Command(p)
		ParseLogin(p)
		ParseReject(p)
		ParseProcessLogin(p)
		ParseLogout(p)
		ParseDiscovery(p)
		ParseStateChange(p)
		ParseSCR(p)
		ParseExchange(p)
		ParseExchangeState(p)
		ParseCT(p)
		ParseEntries(p, true)
		ParseEntries(p, false)
		SymbolParam(p)
		TypeParam(p)
		IDParam(p)
		NameParam(p)
		ParseCommand(p)
		ParseTransfer(p)
		ParseResponse(p)
	})
}
