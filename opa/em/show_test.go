package em

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"tapir/wire/ether"
)

func TestRecords(t *testing.T) {
	w := fabric(20, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{Priority: 5})
	mustSettle(t, w, m, &cfg)
	w.nodes[2].vports.VESW(2).SetRxMode([]ether.Addr{{2, 7}}, []ether.Addr{{1, 0, 0x5e, 0, 0, 7}})
	w.nodes[2].vports.VESW(2).Open()
	w.nodes[2].poke()
	w.run(3 * time.Second)
	w.nodes[3].dead = true
	w.run(5 * time.Second)
	digest := m.VESWs()[0].Digest
	for _, c := range []struct {
		name string
		got  any
		want string
	}{
		{"status", m.Status(), `{"guid":"0x0011750101000001","priority":5,"role":"master","other_managers":0,"fabric_known":true,"in_sync":true}`},
		{"vESW", m.VESWs()[0], `{"name":"blue","id":2,"fabric":769,"pkey":2,"mtu":9000,"mlid":15728642,"members":3,"up":3,"in_sync":3,"macs":2,"digest":` + text(digest) + `}`},
		{"vESW with a port down", m.VESWs()[1].Up, `1`},
		{"port", m.Ports()[2], `{"guid":"0x0011750101000003","name":"h3","lid":3,"up":true,"state":"active","pkeys":"0x7fff 0x0002","vports":1,"in_sync":true}`},
		{"port that is down", m.Ports()[3].State, `"down"`},
		{"vport", m.VPorts()[2], `{"vesw":2,"node":"h3","guid":"0x0011750101000003","lid":3,"vport":1,"mac":"06:2c:00:03:00:00","membership":"limited","gateway":false,` +
			`"config_state":"forwarding","oper_state":"forwarding","digest":` + text(digest) + `,"unicast_macs":1,"multicast_macs":1,"status":"in sync"}`},
		{"gateway", m.VPorts()[0].Gateway, `true`},
		{"MACs", m.MACs(2)[2:], `[{"vesw":2,"mac":"06:2c:00:03:00:00","dlid":3,"node":"h3","kind":"base"},` +
			`{"vesw":2,"mac":"02:07:00:00:00:00","dlid":3,"node":"h3","kind":"station"},` +
			`{"vesw":2,"mac":"01:00:5e:00:00:07","dlid":` + text(GroupMLID(2, ether.Addr{1, 0, 0x5e, 0, 0, 7})) + `,"node":"","kind":"group"}]`},
		{"other MACs", len(m.MACs(258)), `1`},
		{"all MACs", len(m.MACs(0)), `6`},
	} {
		if got := text(c.got); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestAuditLog: it says what was done, without gaps, and keeps the latest.
func TestAuditLog(t *testing.T) {
	var told []Event
	m, err := New(Config{}, Options{OnEvent: func(e Event) { told = append(told, e) }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range auditLines + 10 {
		m.now = 5
		m.note("entry %d", i)
	}
	got := m.Events(0)
	if len(got) != auditLines || got[0].Seq != 10 || got[0].Text != "entry 10" || !slices.Equal(got, told[10:]) {
		t.Errorf("%d entries from %+v", len(got), got[0])
	}
	if tail := m.Events(auditLines + 8); len(tail) != 2 || tail[1] != (Event{auditLines + 9, 5, "entry 4105"}) {
		t.Errorf("%+v", tail)
	}
}
