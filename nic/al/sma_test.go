package al

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// managed is an open device with what its handler was told.
type managed struct {
	t      *testing.T
	ca     *CA
	ctx    *Context
	events []EventType
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	m := &managed{t: t, ca: register(t, New(nil), 1)}
	var err error
	m.ctx, err = m.ca.Open(EventFunc(func(ev Event, _ frame.Time) { m.events = append(m.events, ev.Type) }), nil)
	ok(t, err)
	return m
}

// do sends one packet and returns status and attribute of the answer.
func (m *managed) do(method uint8, attr uint16, modifier uint32, data []byte) (uint16, []byte) {
	m.t.Helper()
	m.events = nil
	h := ib.Header{BaseVersion: 1, Class: ib.ClassSubnLID, ClassVersion: 1, Method: method, TID: 42, Attr: attr, Modifier: modifier}
	out, err := m.ctx.LocalMAD(1, h.Append(nil, data), 0)
	ok(m.t, err)
	got, data, err := ib.Parse(out)
	ok(m.t, err)
	if got.Method != ib.MethodGetResp || got.TID != 42 || got.Attr != attr {
		m.t.Errorf("answer %+v", got)
	}
	dropIfLeft(m.ca)
	return got.Status, data
}

// set is do for a Set of PortInfo, from what Get answers.
func (m *managed) set(change func(*ib.PortInfo), want uint16, events ...EventType) ib.PortInfo {
	m.t.Helper()
	_, data := m.do(ib.MethodGet, ib.AttrPortInfo, 1, nil)
	p := ib.ParsePortInfo(data)
	p.State, p.PhysState = 0, 0
	change(&p)
	status, data := m.do(ib.MethodSet, ib.AttrPortInfo, 1, p.Append(nil))
	if status != want || !slices.Equal(m.events, events) {
		m.t.Errorf("status %#x, events %v; want %#x, %v", status, m.events, want, events)
	}
	return ib.ParsePortInfo(data)
}

func TestMADGet(t *testing.T) {
	m := newManaged(t)
	status, data := m.do(ib.MethodGet, ib.AttrNodeInfo, 0, nil)
	n := ib.ParseNodeInfo(data)
	if status != 0 || n.Type != ib.NodeCA || n.Ports != 1 || n.NodeGUID != m.ca.GUID() || n.VendorID != verbs.VendorID || n.DeviceID != 0x99 {
		t.Errorf("NodeInfo %#x %+v", status, n)
	}
	if _, data := m.do(ib.MethodGet, ib.AttrNodeDescription, 0, nil); string(bytes.TrimRight(data, "\x00")) != "tapir nic1" {
		t.Errorf("NodeDescription %q", data)
	}
	_, data = m.do(ib.MethodGet, ib.AttrPortInfo, 1, nil)
	p := ib.ParsePortInfo(data)
	if p.State != 4 || p.PhysState != 5 || p.LID != 0 || p.MTUCap != 3 || p.GIDPrefix != 0xfe80<<48 || p.GUIDCap != 8 {
		t.Errorf("PortInfo %+v", p)
	}
	_, data = m.do(ib.MethodGet, ib.AttrGUIDInfo, 0, nil)
	if g := ib.ParseGUIDs(data); g[0] != m.ca.GUID() || g[1] != [8]byte{} {
		t.Errorf("GUIDInfo %v", g)
	}
	_, data = m.do(ib.MethodGet, ib.AttrPKeyTable, 0, nil)
	if k := ib.ParsePKeys(data); k[0] != 0xffff || k[1] != 0 {
		t.Errorf("P_KeyTable %v", k)
	}
	directed := ib.Header{BaseVersion: 1, Class: ib.ClassSubnDirected, ClassVersion: 1, Method: ib.MethodGet, Attr: ib.AttrNodeInfo}
	out, err := m.ctx.LocalMAD(1, directed.Append(nil, nil), 0)
	if h, _, _ := ib.Parse(out); err != nil || h.Status != 0x8000 {
		t.Errorf("directed route: status %#x, %v", h.Status, err)
	}
}

func TestMADSetsThePort(t *testing.T) {
	m := newManaged(t)
	m.set(func(*ib.PortInfo) {}, ib.StatusOK)
	p := m.set(func(p *ib.PortInfo) { p.LID, p.MasterSMLID, p.SubnetTimeout = 5, 1, 18 }, ib.StatusOK, LIDChange, SMChange)
	if p.LID != 5 || p.MasterSMLID != 1 || p.SubnetTimeout != 18 {
		t.Errorf("PortInfo %+v", p)
	}
	m.set(func(p *ib.PortInfo) { p.Reregister = true }, ib.StatusOK, ClientReregister)
	if p := m.set(func(p *ib.PortInfo) { p.State = 1 }, ib.StatusOK, PortErr); p.State != 2 {
		t.Errorf("after Down the port is in state %d, want INIT", p.State)
	}
	m.set(func(p *ib.PortInfo) { p.State = 3 }, ib.StatusOK)
	m.set(func(p *ib.PortInfo) { p.State = 4 }, ib.StatusOK, PortActive)
	if p := m.set(func(p *ib.PortInfo) { p.PhysState = 3 }, ib.StatusOK, PortErr); p.State != 1 || p.PhysState != 3 {
		t.Errorf("disabled: %+v", p)
	}
	m.set(func(p *ib.PortInfo) { p.PhysState = 2 }, ib.StatusOK)
}

func TestMADSetsTheTables(t *testing.T) {
	m := newManaged(t)
	keys := [ib.PKeysPerBlock]uint16{0xffff, 0x8001}
	if status, data := m.do(ib.MethodSet, ib.AttrPKeyTable, 0, ib.AppendPKeys(nil, keys)); status != 0 || ib.ParsePKeys(data) != keys ||
		!slices.Equal(m.events, []EventType{PKeyChange}) {
		t.Errorf("P_KeyTable: %#x, %v", status, m.events)
	}
	if k, err := m.ctx.PKey(1, 1); err != nil || k != 0x8001 {
		t.Errorf("PKey %#x, %v", k, err)
	}
	guids := [ib.GUIDsPerBlock][8]byte{{0xaa}, {0xbb}}
	status, data := m.do(ib.MethodSet, ib.AttrGUIDInfo, 0, ib.AppendGUIDs(nil, guids))
	guids[0] = m.ca.GUID() // the port's own is not for a manager to set
	if status != 0 || ib.ParseGUIDs(data) != guids || !slices.Equal(m.events, []EventType{GIDChange}) {
		t.Errorf("GUIDInfo: %#x, %v", status, m.events)
	}
}

func TestMADErrors(t *testing.T) {
	m := newManaged(t)
	for _, change := range []func(*ib.PortInfo){
		func(p *ib.PortInfo) { p.State = 2 },
		func(p *ib.PortInfo) { p.State = 3 },
		func(p *ib.PortInfo) { p.PhysState = 4 },
		func(p *ib.PortInfo) { p.LID = 0xc000 },
		func(p *ib.PortInfo) { p.MasterSMLID = 0xffff },
	} {
		if p := m.set(change, ib.StatusBadField); p.State != 4 || p.LID != 0 || p.MasterSMLID != 0 {
			t.Errorf("a refused Set changed %+v", p)
		}
	}
	for _, c := range []struct {
		method   uint8
		attr     uint16
		modifier uint32
		want     uint16
	}{
		{ib.MethodGet, 0x0012, 0, ib.StatusBadAttr},
		{ib.MethodSet, ib.AttrNodeInfo, 0, ib.StatusBadAttr},
		{0x05, ib.AttrNodeInfo, 0, ib.StatusBadMethod},
		{ib.MethodGet, ib.AttrPortInfo, 2, ib.StatusBadField},
		{ib.MethodSet, ib.AttrPortInfo, 2, ib.StatusBadField},
		{ib.MethodGet, ib.AttrPKeyTable, 1, ib.StatusBadField},
		{ib.MethodGet, ib.AttrGUIDInfo, 1, ib.StatusBadField},
		{ib.MethodSet, ib.AttrPKeyTable, 1, ib.StatusBadField},
	} {
		if status, _ := m.do(c.method, c.attr, c.modifier, nil); status != c.want {
			t.Errorf("%+v: status %#x", c, status)
		}
	}
	for _, h := range []ib.Header{{BaseVersion: 2, Class: 1, ClassVersion: 1}, {BaseVersion: 1, Class: 4, ClassVersion: 1}, {BaseVersion: 1, Class: 1}} {
		out, err := m.ctx.LocalMAD(1, h.Append(nil, nil), 0)
		if got, _, _ := ib.Parse(out); err != nil || got.Status != ib.StatusBadVersion {
			t.Errorf("%+v: status %#x, %v", h, got.Status, err)
		}
	}
	if _, err := m.ctx.LocalMAD(1, make([]byte, 255), 0); !errors.Is(err, ib.ErrTruncated) {
		t.Error(err)
	}
	if _, err := m.ctx.LocalMAD(2, make([]byte, 256), 0); !errors.Is(err, verbs.ErrInvalid) {
		t.Error(err)
	}
}

func TestMADKey(t *testing.T) {
	m := newManaged(t)
	m.set(func(p *ib.PortInfo) { p.MKey = 7 }, ib.StatusOK)
	p := ib.PortInfo{MKey: 7, GIDPrefix: 0xfe80 << 48, LID: 9}
	h := ib.Header{BaseVersion: 1, Class: ib.ClassSubnLID, ClassVersion: 1, Method: ib.MethodSet, Attr: ib.AttrPortInfo, MKey: 8}
	if out, err := m.ctx.LocalMAD(1, h.Append(nil, p.Append(nil)), 0); out != nil || !errors.Is(err, ErrMKey) {
		t.Errorf("wrong key: %v", err)
	}
	_, data := m.do(ib.MethodGet, ib.AttrPortInfo, 1, nil)
	if got := ib.ParsePortInfo(data); got.LID != 0 || got.MKeyErrors != 1 {
		t.Errorf("%+v", got)
	}
	h.MKey = 7
	_, err := m.ctx.LocalMAD(1, h.Append(nil, p.Append(nil)), 0)
	ok(t, err)
	p.LID, h.MKey = 10, 0
	_, err = m.ctx.LocalMAD(1, h.Append(nil, p.Append(nil)), IgnoreMKey)
	ok(t, err)
	if a, _ := m.ctx.QueryPort(1); a.LID != 10 {
		t.Errorf("%+v", a)
	}
}
