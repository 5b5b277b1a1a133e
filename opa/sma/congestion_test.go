package sma

import (
	"testing"

	"tapir/opa/mad"
)

// Attributes of congestion control are read and set whole; impossible modifiers and
// blocks are refused and change nothing; the log begins anew when it is read.
func TestCongestion(t *testing.T) {
	h := newHFI()
	a := New(h)
	_, data, _ := ask(t, a, directed(mad.MethodGet, mad.AttrCongestionInfo, 0, guid), nil)
	if i := mad.ParseCongestionInfo(data); i.CCTBlocks != 31 || i.LogLength != 96 {
		t.Errorf("%+v", i)
	}
	set := mad.CongestionSettings{ControlMap: 0x80000001, PortControl: mad.PortControlSL}
	set.SLs[0] = mad.CongestionSetting{Increase: 2, Timer: 300, Threshold: 1, Min: 0}
	set.SLs[31] = mad.CongestionSetting{Increase: 3, Timer: 400, Threshold: 5, Min: 6}
	b := make([]byte, mad.CongestionSettingsLen)
	set.Put(b)
	got, data, _ := ask(t, a, directed(mad.MethodSet, mad.AttrHFICongestionSetting, 0, guid), b)
	if got.Status&^mad.StatusDirection != 0 || mad.ParseCongestionSettings(data) != set || h.cca.Settings() != set {
		t.Errorf("%#x %+v", got.Status, h.cca.Settings())
	}
	table := mad.CCT{Limit: 70, Entries: [mad.CCTPerBlock]mad.CCTEntry{6: 1<<14 | 7}}
	b = make([]byte, mad.CCTLen)
	table.Put(b)
	_, data, _ = ask(t, a, directed(mad.MethodSet, mad.AttrCongestionControlTable, mad.CCTBlock(1), guid), b)
	if have, _ := h.cca.Table(1); mad.ParseCCT(data) != table || have != table || h.cca.Limit() != 70 {
		t.Errorf("%+v", have)
	}
	h.cca.Notified(0, 0x123456, 4096)
	for _, want := range []uint16{1, 0} {
		_, data, _ = ask(t, a, directed(mad.MethodGet, mad.AttrHFICongestionLog, 0, guid), nil)
		l := mad.ParseCongestionLog(data)
		if l.Count != want || want > 0 && (l.SLs != 1 || l.Events[0] != (mad.CongestionEvent{LocalQP: 0xffffff, RemoteQP: 0xffffff,
			Service: mad.ServiceUD, RemoteLID: 0x123456, Stamp: 4})) {
			t.Errorf("%+v", l)
		}
	}
	for _, c := range []struct {
		method   mad.Method
		attr     uint16
		modifier uint32
		status   mad.Status
	}{
		{mad.MethodGet, mad.AttrCongestionInfo, 1, mad.StatusBadValue},
		{mad.MethodGet, mad.AttrHFICongestionLog, 1, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrHFICongestionSetting, 1, mad.StatusBadValue},
		{mad.MethodSet, mad.AttrHFICongestionLog, 0, mad.StatusBadAttribute},
		{mad.MethodSet, mad.AttrCongestionInfo, 0, mad.StatusBadAttribute},
		{mad.MethodGet, mad.AttrCongestionControlTable, mad.CCTBlock(31), mad.StatusBadValue},
		{mad.MethodSet, mad.AttrCongestionControlTable, mad.CCTBlock(31), mad.StatusBadValue},
		{mad.MethodSet, mad.AttrCongestionControlTable, 2<<24 | 1, mad.StatusBadValue},
		{mad.MethodGet, 0x008d, 0, mad.StatusBadAttribute}, // of switches
	} {
		if got, _, _ := ask(t, a, directed(c.method, c.attr, c.modifier, guid), make([]byte, 300)); got.Status&^mad.StatusDirection != c.status {
			t.Errorf("%+v: status %#x", c, got.Status)
		}
	}
	if have, _ := h.cca.Table(1); h.cca.Settings() != set || have != table {
		t.Error("a refused Set changed something")
	}
}
