package dcbnl

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/uapi/netlink"
	"tapir/wire/lldp"
)

// fake is a NIC whose state does not change.
type fake struct {
	state State
	set   []Change
}

func (f *fake) State() (State, error) { return f.state, nil }
func (f *fake) Setting(name string) string {
	return map[string]string{"lldp": "none", "dcb_willing": "pfc", "dcbx": "ieee"}[name]
}
func (f *fake) Set(changes ...Change) error { f.set = changes; return nil }
func (f *fake) client() *Client {
	return &Client{"eth0", func(r Request) (Answer, error) { return Serve(f, r), nil }}
}
func values(c dcb.Config) dcbx.Values {
	return dcbx.Values{Config: c, MaxTCs: 8, PFCCap: 8, ETS: dcbx.Feature{Enabled: true}, Pause: dcbx.Feature{Enabled: true}, App: dcbx.Feature{Enabled: true}}
}
func message(cmd uint8, a netlink.Attributes) []byte { return append([]byte{0, cmd, 0, 0}, a...) }

func nested(kind, inner uint16, v []byte) (a netlink.Attributes) {
	a.String(attrIfname, "eth0")
	a.Nest(kind, func(a *netlink.Attributes) { a.Put(inner, v) })
	return a
}

// Messages that are wrong are answered as dcb_doit does, and with the errno of an operation in an octet; nothing is set.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   uint16
		body   []byte
		errno  syscall.Errno
		status syscall.Errno // of the operation
		cee    bool
	}{
		{"short", unix.RTM_GETDCB, []byte{0, cmdIEEEGet}, unix.EINVAL, 0, false},
		{"a wrong length", unix.RTM_GETDCB, []byte{0, cmdIEEEGet, 0, 0, 200, 0, 1, 0}, unix.EINVAL, 0, false},
		{"no such command", unix.RTM_GETDCB, message(28, nil), unix.EINVAL, 0, false},
		{"a command without an operation", unix.RTM_GETDCB, message(1, nil), unix.EOPNOTSUPP, 0, false},
		{"a change by RTM_GETDCB", unix.RTM_GETDCB, message(cmdIEEESet, nested(attrIEEE, ieeePFC, make([]byte, 136))), unix.EINVAL, 0, false},
		{"nothing to set", unix.RTM_SETDCB, message(cmdIEEESet, nil), unix.EINVAL, 0, false},
		{"no mode", unix.RTM_SETDCB, message(cmdSetDCBX, nil), unix.EINVAL, 0, false},
		{"a short ETS", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeETS, make([]byte, 58))), 0, unix.EINVAL, false},
		{"another number of classes", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeETS, make([]byte, 59))), 0, unix.EINVAL, false},
		{"a short PFC", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeePFC, make([]byte, 8))), 0, unix.EINVAL, false},
		{"a short buffer", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeBuffer, make([]byte, 43))), 0, unix.EINVAL, false},
		{"a buffer 8", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeBuffer, append([]byte{8}, make([]byte, 43)...))), 0, unix.EINVAL, false},
		{"a short application", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeApps, []byte{6, 0, 1, 0, 3, 1, 0, 0})), 0, unix.ERANGE, false},
		{"an application without a selector", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeApps, []byte{8, 0, 1, 0, 0, 1, 1, 0})), 0, unix.EINVAL, false},
		{"one that is not there", unix.RTM_SETDCB, message(cmdIEEEDel, nested(attrIEEE, ieeeApps, []byte{8, 0, 1, 0, 3, 1, 1, 0})), 0, unix.ENOENT, false},
		{"one that is there", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeeApps, []byte{8, 0, 1, 0, 2, 4, 0xbc, 0x0c})), 0, unix.EEXIST, false},
		{"PFC under CEE", unix.RTM_SETDCB, message(cmdIEEESet, nested(attrIEEE, ieeePFC, make([]byte, 136))), 0, unix.EINVAL, true},
	} {
		f := &fake{}
		f.state.Admin = values(dcb.Config{})
		f.state.Admin.Apps = []lldp.AppEntry{{Selector: lldp.SelTCP, Protocol: 3260, Priority: 4}}
		if c.cee {
			f.state.Set, f.state.Version = dcbx.CEE, dcbx.CEE
		}
		a := Serve(f, Request{c.kind, c.body})
		status := syscall.Errno(0)
		if a.Body != nil {
			attrs, err := netlink.ParseAttributes(a.Body[headerLen:])
			if err != nil || len(attrs[attrIEEE]) != 1 {
				t.Fatalf("%s: %x", c.name, a.Body)
			}
			status = syscall.Errno(-int8(attrs[attrIEEE][0]))
		}
		if a.Errno != c.errno || status != c.status || f.set != nil {
			t.Errorf("%s: %v, status %v, %q, set %v", c.name, a.Errno, status, a.Text, f.set)
		}
	}
}

// What the neighbor has told is next to what is in use; a willing NIC recommends what it administers. A table with as
// many applications as fit takes no more: EBUSY.
func TestNeighbor(t *testing.T) {
	oper, peer := values(dcb.Config{Weight: [8]uint8{20, 80}, TSA: [8]dcb.TSA{dcb.ETS, dcb.ETS}, PFC: 8}), values(dcb.Config{PFC: 8})
	peer.Apps = []lldp.AppEntry{{Selector: lldp.SelUDP, Protocol: 4791, Priority: 3}}
	oper.Apps = append(slices.Clone(peer.Apps), lldp.AppEntry{Selector: lldp.SelDSCP, Protocol: 1, Priority: 1})
	f := &fake{state: State{Admin: values(dcb.Config{Weight: [8]uint8{100}, TSA: [8]dcb.TSA{dcb.ETS}}), Oper: &oper, Peer: &peer, Set: dcbx.Dynamic, Version: dcbx.IEEE}}
	for i := range dcbx.MaxApps {
		f.state.Admin.Apps = append(f.state.Admin.Apps, lldp.AppEntry{Selector: lldp.SelPort, Protocol: uint16(i + 1)})
	}
	c := f.client()
	got, err := c.Get()
	if err != nil || got.ETS.TxBW != oper.Weight || got.ETS.RecoBW != f.state.Admin.Weight || got.PFC.Enabled != 8 || len(got.Apps) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	a := Serve(f, Request{unix.RTM_GETDCB, message(cmdIEEEGet, nil)})
	attrs, _ := netlink.ParseAttributes(a.Body[headerLen:])
	of, err := netlink.ParseAttributes(attrs[attrIEEE])
	if err != nil || decoded[PFC](of[ieeePeerPFC]).Enabled != 8 || len(of[ieeePeerETS]) != 59 || len(of[ieeePeerApps]) != 8 || attrs[attrDCBX][0] != modeNIC|modeIEEE|modeCEE {
		t.Errorf("%x, %v", attrs, err)
	}
	if err := c.Set(IEEE{Apps: []App{{lldp.SelUDP, 1, 1}}}); err == nil || err.Error() != "app: the table has room for 32 entries" {
		t.Errorf("%v", err)
	}
	got.ETS.Willing, got.ETS.TSA = 1, [8]uint8{}
	if err := c.Set(IEEE{ETS: got.ETS}); err != nil || !slices.Equal(f.set, []Change{{"tc_tsa", "0:strict,1:strict,2:strict,3:strict,4:strict,5:strict,6:strict,7:strict"},
		{"tc_bw", "0:0,1:0,2:0,3:0,4:0,5:0,6:0,7:0"}, {"dcb_willing", "pfc,ets"}}) {
		t.Errorf("%v, %v", f.set, err)
	}
	f.state.NoDCBX, f.state.Set = true, dcbx.Disabled
	for _, err := range []error{c.SetMode(modeNIC | modeIEEE), c.Set(IEEE{Apps: []App{{lldp.SelUDP, 1, 1}}})} {
		if err == nil {
			t.Error("hardware without DCBX has it")
		}
	}
}

// FuzzServe: any message is answered, and one that is refused sets nothing.
func FuzzServe(f *testing.F) {
	for _, cmd := range []uint8{cmdIEEEGet, cmdIEEESet, cmdIEEEDel, cmdSetDCBX} {
		f.Add(true, message(cmd, nested(attrIEEE, ieeeApps, []byte{8, 0, 1, 0, 5, 3, 26, 0})))
		f.Add(true, message(cmd, nested(attrIEEE, ieeeETS, make([]byte, 59))))
		f.Add(false, message(cmd, nested(attrIEEE, ieeeMaxRate, make([]byte, 64))))
	}
	f.Fuzz(func(t *testing.T, set bool, body []byte) {
		n := &fake{}
		n.state.Admin = values(dcb.Config{})
		r := Request{unix.RTM_GETDCB, body}
		if set {
			r.Type = unix.RTM_SETDCB
		}
		a := Serve(n, r)
		if (a.Body == nil) != (a.Errno != 0) || n.set != nil && (a.Errno != 0 || !set) {
			t.Errorf("%+v, set %v", a, n.set)
		}
	})
}

// Programs reach the NIC by its netdev's name; other netdevs are the kernel's. Without CAP_NET_ADMIN nothing is set.
func TestDevices(t *testing.T) {
	f := &fake{}
	d := Device{"eth0", func(r Request) (Answer, error) { return Serve(f, r), nil }, func(string) {}}
	if _, err := d.ask(Request{unix.RTM_SETDCB, message(cmdSetDCBX, nil)}, false); err != unix.EPERM {
		t.Errorf("%v", err)
	}
	if list, err := d.ask(Request{unix.RTM_GETDCB, message(cmdGetDCBX, nil)}, false); err != nil || len(list) != 1 || list[0].Type != unix.RTM_GETDCB {
		t.Errorf("%v, %v", list, err)
	}
	gone := Device{"eth0", func(Request) (Answer, error) { return Answer{}, unix.ENODEV }, nil}
	if _, err := gone.ask(Request{unix.RTM_GETDCB, nil}, true); !errors.Is(err, unix.ENODEV) {
		t.Errorf("%v", err)
	}
}
