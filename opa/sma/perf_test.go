package sma

import (
	"testing"

	"tapir/opa"
	"tapir/opa/mad"
)

// A Get of PortStatus is answered with the counters; other methods, attributes,
// ports and lanes with a status, and what is no request for this class not at all.
func TestPerf(t *testing.T) {
	a := NewPerf(func() mad.PortStatus { return mad.PortStatus{TxData: 1, RxPkts: 2, TxDrops: 3, RxDrops: 4, Downed: 5} })
	get := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: mad.BaseVersion, Method: mad.MethodGet,
		TID: 7, Attr: mad.AttrPortStatus, Modifier: mad.PortStatusModifier}
	for name, c := range map[string]struct {
		change func(*mad.Header)
		port   uint8
		lanes  uint32
		qp     uint32
		want   mad.Status
		silent bool
	}{
		"counters":        {port: 1, qp: 1},
		"another port":    {port: 2, qp: 1, want: mad.StatusBadValue},
		"lanes":           {port: 1, lanes: 1, qp: 1, want: mad.StatusBadValue},
		"two ports":       {func(h *mad.Header) { h.Modifier = 2 << 24 }, 1, 0, 1, mad.StatusBadValue, false},
		"other attribute": {func(h *mad.Header) { h.Attr++ }, 1, 0, 1, mad.StatusBadAttribute, false},
		"set":             {func(h *mad.Header) { h.Method = mad.MethodSet }, 1, 0, 1, mad.StatusBadAttribute, false},
		"a response":      {func(h *mad.Header) { h.Method = mad.MethodGetResp }, 1, 0, 1, 0, true},
		"a trap":          {func(h *mad.Header) { h.Method = mad.MethodTrap }, 1, 0, 1, 0, true},
		"other class":     {func(h *mad.Header) { h.Class = mad.ClassVEMA }, 1, 0, 1, 0, true},
		"version 1":       {func(h *mad.Header) { h.BaseVersion = 1 }, 1, 0, 1, 0, true},
		"queue pair 0":    {port: 1, silent: true},
	} {
		h := get
		if c.change != nil {
			c.change(&h)
		}
		b := make([]byte, mad.HeaderLen+mad.PortStatusLen)
		h.Put(b)
		s := mad.PortStatus{Port: c.port, VLs: c.lanes}
		s.Put(b[mad.HeaderLen:])
		heard := false
		a.Receive(b[:mad.HeaderLen+16], mad.Address{LID: 9, QP: c.qp}, 0, func(to mad.Address, b []byte) bool {
			heard = true
			got, err := mad.Parse(b)
			s := mad.ParsePortStatus(b[mad.HeaderLen:])
			if err != nil || got.Method != mad.MethodGetResp || got.TID != 7 || got.Status != c.want || to.LID != opa.LID(9) ||
				c.want == mad.StatusOK && (s.TxData != 1 || s.RxPkts != 2 || s.TxDrops != 3 || s.RxDrops != 4 || s.Downed != 5) {
				t.Errorf("%s: %+v %+v to %v, %v", name, got, s, to, err)
			}
			return true
		})
		if heard == c.silent {
			t.Errorf("%s: answered: %v", name, heard)
		}
	}
	a.Receive([]byte{mad.BaseVersion, mad.ClassPerf}, mad.Address{QP: 1}, 0, nil) // too short
}
