package sma

import (
	"slices"
	"testing"

	"tapir/opa"
	"tapir/opa/cca"
	"tapir/opa/mad"
)

// hfi is a port that keeps what it is told.
type hfi struct {
	info Info
	keys []uint16
	cca  cca.Control
	told int // to register again
}

func (h *hfi) Info() Info                       { return h.info }
func (h *hfi) Congestion() *cca.Control         { return &h.cca }
func (h *hfi) PKeys() []uint16                  { return h.keys }
func (h *hfi) SetPKeys(table []uint16)          { copy(h.keys, table) }
func (h *hfi) SetState(s mad.PortState)         { h.info.State = s }
func (h *hfi) Reregister()                      { h.told++ }
func (h *hfi) SetLID(lid, sm opa.LID, sl uint8) { h.info.LID, h.info.SMLID, h.info.SMSL = lid, sm, sl }

const guid = 0x0011750000000007

func newHFI() *hfi {
	keys := make([]uint16, 40)
	keys[0] = 0x7fff
	return &hfi{info: Info{GUID: guid, Name: "node7", State: mad.PortInit, MTU: 10240, EthOnFabric: true}, keys: keys}
}

// ask sends one request and returns the answer, if there is one.
func ask(t *testing.T, a *Agent, s mad.SMP, attr []byte) (got mad.SMP, data []byte, ok bool) {
	t.Helper()
	s.BaseVersion, s.ClassVersion, s.TID = mad.BaseVersion, mad.BaseVersion, 0x99
	b := make([]byte, s.Len()+len(attr))
	s.Put(b)
	copy(b[s.Len():], attr)
	a.Receive(b, mad.Address{LID: opa.Permissive}, 0, func(to mad.Address, b []byte) bool {
		var err error
		got, data, err = mad.ParseSMP(slices.Clone(b))
		if err != nil || got.TID != 0x99 || got.Attr != s.Attr || got.Method != mad.MethodGetResp || to.LID != opa.Permissive || to.QP != opa.QPSubnet {
			t.Errorf("answer %+v to %+v: %v", got, to, err)
		}
		ok = true
		return true
	})
	return got, data, ok
}

func directed(m mad.Method, attr uint16, modifier uint32, to uint64) mad.SMP {
	return mad.SMP{Header: mad.Header{Class: mad.ClassSubnDirected, Method: m, Attr: attr, Modifier: modifier}, GUID: to}
}

func portInfo(p mad.PortInfo) []byte {
	b := make([]byte, mad.PortInfoLen)
	p.Put(b)
	return b
}

func TestGet(t *testing.T) {
	a := New(newHFI())
	_, data, _ := ask(t, a, directed(mad.MethodGet, mad.AttrNodeInfo, 0, 0), nil)
	if n := mad.ParseNodeInfo(data); n.PortGUID != guid || n.PartitionCap != 40 || n.Type != mad.NodeHFI || n.VendorID != 0x1175 {
		t.Errorf("%+v", n)
	}
	_, data, _ = ask(t, a, directed(mad.MethodGet, mad.AttrNodeDescription, 0, guid), nil)
	if name := mad.ParseNodeDescription(data); name != "node7" {
		t.Errorf("name %q", name)
	}
	lidRouted := directed(mad.MethodGet, mad.AttrPortInfo, mad.OnePort, 0)
	lidRouted.Class = mad.ClassSubnLID
	got, data, _ := ask(t, a, lidRouted, nil)
	want := mad.PortInfo{State: mad.PortInit, PhysState: mad.PhysLinkUp, MTUCap: 7, CapMask3: mad.CapEthOnFabric, LocalPort: 1,
		Speed: mad.Speed25G, Width: mad.Width4X, Prefix: gidPrefix}
	if p := mad.ParsePortInfo(data); p != want || got.Status != 0 {
		t.Errorf("%+v, status %#x", p, got.Status)
	}
	_, data, _ = ask(t, a, directed(mad.MethodGet, mad.AttrPKeyTable, mad.PKeyBlock(0), guid), nil)
	if keys := mad.ParsePKeys(data); keys[0] != 0x7fff {
		t.Errorf("P_Keys %x", keys)
	}
}

// What is not for this port or not a request stays without answer.
func TestSilence(t *testing.T) {
	a := New(newHFI())
	for _, s := range []mad.SMP{
		directed(mad.MethodGet, mad.AttrNodeInfo, 0, guid+1), directed(mad.MethodGetResp, mad.AttrNodeInfo, 0, guid),
		directed(mad.MethodTrap, mad.AttrNotice, 0, 0), directed(mad.MethodGet, mad.AttrSMInfo, 0, 0),
	} {
		if got, _, ok := ask(t, a, s, nil); ok {
			t.Errorf("%+v was answered by %+v", s, got)
		}
	}
	a.Receive([]byte{1, 2, 3}, mad.Address{}, 0, nil)
}

func TestBringUp(t *testing.T) {
	h := newHFI()
	a := New(h)
	set := func(p mad.PortInfo) (mad.Status, mad.PortInfo) {
		got, data, _ := ask(t, a, directed(mad.MethodSet, mad.AttrPortInfo, mad.OnePort, guid), portInfo(p))
		return got.Status &^ mad.StatusDirection, mad.ParsePortInfo(data)
	}
	for _, c := range []struct {
		name  string
		set   mad.PortInfo
		want  mad.Status
		lid   opa.LID
		state mad.PortState
	}{
		{"armed without LID", mad.PortInfo{State: mad.PortArmed}, mad.StatusBadValue, 0, mad.PortInit},
		{"multicast LID", mad.PortInfo{LID: opa.FirstMulticast}, mad.StatusBadValue, 0, mad.PortInit},
		{"physical state", mad.PortInfo{LID: 7, PhysState: 2}, mad.StatusBadValue, 0, mad.PortInit},
		{"LID beyond 24 bits", mad.PortInfo{LID: 0x1000001}, mad.StatusBadValue, 0, mad.PortInit},
		{"highest LID", mad.PortInfo{LID: opa.LastUnicast}, 0, opa.LastUnicast, mad.PortInit},
		{"LID", mad.PortInfo{LID: 7, SMLID: 1, SMSL: 3, Reregister: true}, 0, 7, mad.PortInit},
		{"a step left out", mad.PortInfo{State: mad.PortActive}, mad.StatusBadValue, 7, mad.PortInit},
		{"good LID, impossible state", mad.PortInfo{LID: 8, State: mad.PortDown}, mad.StatusBadValue, 7, mad.PortInit},
		{"armed", mad.PortInfo{State: mad.PortArmed}, 0, 7, mad.PortArmed},
		{"active", mad.PortInfo{State: mad.PortActive}, 0, 7, mad.PortActive},
		{"active again", mad.PortInfo{LID: 9, State: mad.PortActive}, 0, 9, mad.PortActive},
		{"beyond active", mad.PortInfo{State: 5}, mad.StatusBadValue, 9, mad.PortActive},
	} {
		status, p := set(c.set)
		if status != c.want || h.info.LID != c.lid || h.info.State != c.state {
			t.Errorf("%s: status %#x, LID %v, %v", c.name, status, h.info.LID, h.info.State)
		}
		if status == 0 && (p.LID != c.lid || p.State != c.state) {
			t.Errorf("%s: answered %+v", c.name, p)
		}
	}
	if h.info.SMLID != 1 || h.told != 1 {
		t.Errorf("fabric manager's LID %v; clients were told %d times to register again", h.info.SMLID, h.told)
	}
	if c := a.Counters(); c != (Counters{Sets: 12, Refused: 7}) {
		t.Errorf("%+v", c)
	}
}

func TestPKeyTable(t *testing.T) {
	h := newHFI()
	a := New(h)
	set := func(modifier uint32, keys ...uint16) mad.Status {
		b := make([]byte, mad.PKeyBlockLen)
		mad.PutPKeys(b, [mad.PKeysPerBlock]uint16(append(keys, make([]uint16, mad.PKeysPerBlock-len(keys))...)))
		got, _, _ := ask(t, a, directed(mad.MethodSet, mad.AttrPKeyTable, modifier, guid), b)
		return got.Status &^ mad.StatusDirection
	}
	if s := set(mad.PKeyBlock(1), 0x8001, 2); s != 0 || h.keys[32] != 0x8001 || h.keys[33] != 2 || h.keys[0] != 0x7fff {
		t.Errorf("status %#x, %x", s, h.keys)
	}
	before := slices.Clone(h.keys)
	if s := set(mad.PKeyBlock(1), make([]uint16, 8)...); s != 0 || h.keys[32] != 0 {
		t.Errorf("emptied: status %#x, %x", s, h.keys)
	}
	copy(h.keys, before)
	for name, s := range map[string]mad.Status{
		"beyond the table": set(mad.PKeyBlock(1), 1, 2, 3, 4, 5, 6, 7, 8, 9), "no such block": set(mad.PKeyBlock(2), 1), "two blocks": set(2<<24|1<<16, 1),
	} {
		if s != mad.StatusBadValue || !slices.Equal(h.keys, before) {
			t.Errorf("%s: status %#x, %x", name, s, h.keys)
		}
	}
	for _, s := range []mad.SMP{directed(mad.MethodSet, mad.AttrNodeInfo, 0, guid), directed(mad.MethodGet, 0x77, 0, guid)} {
		if got, _, _ := ask(t, a, s, []byte{1}); got.Status&^mad.StatusDirection != mad.StatusBadAttribute {
			t.Errorf("attribute %#x: status %#x", s.Attr, got.Status)
		}
	}
}

func FuzzReceive(f *testing.F) {
	s := directed(mad.MethodSet, mad.AttrPortInfo, mad.OnePort, guid)
	s.BaseVersion = mad.BaseVersion
	b := make([]byte, 300)
	s.Put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newHFI()
		New(h).Receive(b, mad.Address{}, 0, func(_ mad.Address, b []byte) bool { return len(b) > 0 })
		if h.info.LID != 0 && !h.info.LID.IsUnicast() || len(h.keys) != 40 {
			t.Fatalf("%+v", h)
		}
	})
}
