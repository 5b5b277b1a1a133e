package show

import (
	"fmt"
	"strings"

	"tapir/nic/verbs"
	"tapir/nic/view"
)

// ShowDevice describes the device: of RDMA its identity, its port and tables,
// the use of every limited resource, its limits, and the asynchronous events
// that were raised; then the driver core.
func (v *View) ShowDevice() []view.DeviceRow {
	a, p := v.Verbs.Attr(), v.Verbs.PortAttr()
	var rows []view.DeviceRow
	text := func(name, format string, args ...any) {
		rows = append(rows, view.DeviceRow{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	text("device", "%s", a.Name)
	text("personality", "%v", a.Personality)
	text("state", "%s", v.rdmaState())
	text("node_guid", "%v", a.GUID)
	text("sys_image_guid", "%v", a.SystemImageGUID)
	text("vendor_id", "%#06x", a.VendorID)
	text("vendor_part_id", "%d", a.VendorPartID)
	text("hw_ver", "%d", a.HWVersion)
	text("fw_ver", "%s", a.Firmware)
	for name := range strings.SplitSeq(a.Caps.String(), ",") {
		text("cap", "%s", name)
	}
	text("reserved_lkey", "%#x", a.ReservedLKey)
	text("icids_per_qp", "%d", a.Personality.ICIDsPerQP())
	text("port_state", "%v", p.State)
	text("port_phys_state", "%v", p.Phys)
	text("port_mtu", "%d", p.MTU)
	text("port_lid", "%d", p.LID)
	text("port_sm_lid", "%d", p.SMLID)
	for i, g := range v.Verbs.GIDs() {
		if g == (verbs.GID{}) {
			continue
		}
		text(fmt.Sprintf("gid[%d]", i), "%v", g)
		if t := v.Verbs.GIDType(i); t != verbs.GIDPlain {
			text(fmt.Sprintf("gid_type[%d]", i), "%v", t)
		}
		if e := v.Verbs.GIDEntry(i); e.Netdev != "" {
			text(fmt.Sprintf("gid_netdev[%d]", i), "%s", e.Netdev)
		}
	}
	for i, k := range v.Verbs.PKeys() {
		if k != 0 {
			text(fmt.Sprintf("pkey[%d]", i), "%#04x", k)
		}
	}
	return append(append(append(rows, usageRows(v.Verbs)...), limitRows(a)...),
		append(eventRows(v.Verbs), v.Hardware.DeviceRows()...)...)
}

func (v *View) rdmaState() string {
	switch {
	case v.Verbs.Removed():
		return "removed"
	case v.Verbs.Started():
		return "started"
	}
	return "stopped"
}

func usageRows(v *verbs.Device) (rows []view.DeviceRow) {
	for _, u := range v.Usage() {
		rows = append(rows, view.DeviceRow{Name: strings.ToLower(u.Name), Used: new(u.Used), Limit: new(u.Limit),
			Ever: new(int(u.Ever))})
	}
	rows = append(rows, view.DeviceRow{Name: "gid", Used: new(usedGIDs(v)), Limit: new(verbs.MaxGIDs)})
	for i, n := range v.Notifications() {
		rows = append(rows, view.DeviceRow{Name: fmt.Sprintf("cnq[%d]", i), Value: "notifications", Ever: new(int(n))})
	}
	return rows
}

// usedGIDs is how many entries of the GID table are used.
func usedGIDs(v *verbs.Device) (n int) {
	for _, g := range v.GIDs() {
		if g != (verbs.GID{}) {
			n++
		}
	}
	return n
}

func limitRows(a verbs.DeviceAttr) (rows []view.DeviceRow) {
	for _, l := range []struct {
		name  string
		limit int
	}{
		{"max_cnq", a.MaxCNQ}, {"max_qp_wr", a.MaxQPWR}, {"max_srq_wr", a.MaxSRQWR}, {"max_cqe", a.MaxCQE},
		{"max_sge", a.MaxSGE}, {"max_sge_rd", a.MaxSGERead}, {"max_inline", a.MaxInline},
		{"max_qp_rd_atom", a.MaxIRD}, {"max_qp_init_rd_atom", a.MaxORD}, {"max_res_rd_atom", a.MaxDeviceIRD},
		{"max_msg_sz", int(a.MaxMsg)}, {"max_pkeys", a.MaxPKeys}, {"max_ah", a.MaxAH}, {"max_rdd", a.MaxRDD},
		{"max_mcast_grp", a.MaxMcastGroups},
	} {
		rows = append(rows, view.DeviceRow{Name: l.name, Limit: new(l.limit)})
	}
	return rows
}

func eventRows(v *verbs.Device) (rows []view.DeviceRow) {
	for t := range verbs.NumEventTypes {
		if n := v.Raised(t); n > 0 {
			rows = append(rows, view.DeviceRow{Name: "event", Value: t.String(), Ever: new(int(n))})
		}
	}
	return rows
}
