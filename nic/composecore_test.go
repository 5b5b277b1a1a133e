package nic

import (
	"slices"
	"testing"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/verbs"
	"tapir/nic/view"
)

// value is the row of a name, and of a value where several have the name.
func value(t *testing.T, rows []view.DeviceRow, name, what string) view.DeviceRow {
	t.Helper()
	i := slices.IndexFunc(rows, func(r view.DeviceRow) bool { return r.Name == name && (what == "" || r.Value == what) })
	if i < 0 {
		t.Fatalf("no row %s %s", name, what)
	}
	return rows[i]
}

// IN-08, IN-12, OV-13, HW-08, HW-10: a NIC has gone through the life cycle
// when it is made, shows it, and goes back when it is closed.
func TestCoreLifeOfNIC(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24")})
	d := n.dev
	if s := d.Core().State(); s != ecore.Running || d.MFW().Loaded(0) != mfw.RoleOS {
		t.Fatalf("state %v, the MFW has %v", s, d.MFW().Loaded(0))
	}
	rows := d.ShowDevice()
	for _, want := range [][2]string{{"core_state", "RUNNING"}, {"core_health", "healthy"}, {"core_personality", "ETH_IWARP"},
		{"int_mode", "MSIX"}, {"load", "ENGINE"}, {"tunnel", "VXLAN"}, {"share", "VPORT"}} {
		if r := value(t, rows, want[0], ""); want[0] == "core_state" && r.Value != want[1] {
			t.Errorf("%+v", r)
		}
		value(t, rows, want[0], want[1])
	}
	for _, c := range []struct {
		name, what  string
		used, limit int
	}{
		{"cid", "CORE", 3, 7}, {"cid", "ETH", 2, 2}, {"cid", "IWARP", 0, ecore.DefaultQPs}, {"ptt", "", 0, 8},
		{"spq", "", 0, 256}, {"rt_slots", "", 0, 34472}, {"rdma_tasks", "", 1, ecore.MaxTasks}, {"share", "MAC", 0, 512},
	} {
		if r := value(t, rows, c.name, c.what); *r.Used != c.used || *r.Limit != c.limit {
			t.Errorf("%s %s: %d of %d, want %d of %d", c.name, c.what, *r.Used, *r.Limit, c.used, c.limit)
		}
	}
	if r := value(t, rows, "ilt", "lines"); *r.Used < 500 || *r.Limit != 11000 {
		t.Errorf("ILT lines %d of %d", *r.Used, *r.Limit)
	}
	if ecore.Debug {
		value(t, rows, "phase", "QM_PF")
		if n := *value(t, rows, "ramrod", "COMMON PF_START").Ever; n != 1 {
			t.Errorf("%d PF_START", n)
		}
	}
	// PF_START, FUNC_INIT of RDMA, and the queues of two light L2 connections.
	if r := value(t, rows, "spq", ""); *r.Ever != 6 || d.IRQ().ShowVectors()[0].Interrupts != 6 {
		t.Errorf("%d ramrods, %d interrupts", *r.Ever, d.IRQ().ShowVectors()[0].Interrupts)
	}
	if err := d.Close(w.now); err != nil {
		t.Error(err)
	}
	if s := d.Core().State(); s != ecore.Struct || d.MFW().Loaded(0) != mfw.RoleNone || d.Core().Health().Leaked != 0 {
		t.Errorf("closed: state %v, the MFW has %v, %d ids leaked", s, d.MFW().Loaded(0), d.Core().Health().Leaked)
	}
	if err := d.Close(w.now); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// A NIC whose function is not RDMA's has no contexts for it.
func TestCoreOfEthernetNIC(t *testing.T) {
	w := newWorld(t)
	n := w.nic(Config{Name: "plain", Addrs: prefixes("10.0.0.1/24"), RDMA: RDMA{Personality: verbs.Ethernet}})
	rows := n.dev.ShowDevice()
	value(t, rows, "core_personality", "ETH")
	if slices.ContainsFunc(rows, func(r view.DeviceRow) bool { return r.Name == "cid" && r.Value == "IWARP" }) {
		t.Error("an Ethernet function has connection ids of iWARP")
	}
}
