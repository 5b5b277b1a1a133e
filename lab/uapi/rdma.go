package uapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tapir/lab/ctl"
	"tapir/nic/uapi/sysfs"
)

// GIDStyle says what the GID tables of the devices show.
type GIDStyle uint8

const (
	MACGID GIDStyle = iota // one GID, of the MAC address, as iWARP drivers have
	IPGID                  // one GID per IP address, as RoCE devices have
)

// showRDMA makes the files by which programs find the NICs' RDMA devices. They
// are none, and who looks is told why, if not all are of one process: a program
// has one connection manager, which must know all of its devices.
func showRDMA(nics []*device, style GIDStyle) (*sysfs.Tree, error) {
	tree, err := sysfs.New()
	if err != nil {
		return nil, err
	}
	if apart := slices.IndexFunc(nics, func(d *device) bool { return d.client.Hello.PID != nics[0].client.Hello.PID }); apart > 0 {
		one, other := nics[0], nics[apart]
		tree.First = func() {
			one.logf("no RDMA devices are shown: %s and %s run in different processes, and a program can use those of one: "+
				"start them together with: tapir nic -c FILE", one.name, other.name)
		}
		nics = nil
	}
	var devices []sysfs.Device
	for i, d := range nics {
		devices = append(devices, sysfs.Device{Index: i, Netdev: d.tap,
			Attr:  kept(func() (sysfs.Attr, error) { return d.attr(style) }),
			Stats: d.stats, QPs: d.qps, CEPs: d.ceps})
	}
	if err = tree.Devices(devices...); err == nil && len(nics) > 0 {
		err = tree.Parameters(parameters(nics))
	}
	if err != nil {
		tree.Close()
		return nil, err
	}
	return tree, nil
}

// keepAttr is how old the attributes of a device may be: a program that reads
// its whole GID table asks the NIC once.
const keepAttr = 50 * time.Millisecond

// kept remembers an answer for so long.
func kept[T any](ask func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var last T
	var at time.Time
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) < keepAttr {
			return last, nil
		}
		v, err := ask()
		if err == nil {
			last, at = v, time.Now()
		}
		return v, err
	}
}

// attr asks what the device is.
func (d *device) attr(style GIDStyle) (a sysfs.Attr, err error) {
	var rows []struct{ Attribute, Value string }
	if err := d.table("device", &rows); err != nil {
		return a, err
	}
	a.PKeys = make([]uint16, sysfs.PKeyTable)
	for _, r := range rows {
		n, _ := strconv.ParseUint(r.Value, 0, 16) // of those that are numbers
		name, index, _ := strings.Cut(r.Attribute, "[")
		switch name {
		case "node_guid":
			a.NodeGUID = r.Value
		case "sys_image_guid":
			a.SystemImageGUID = r.Value
		case "fw_ver":
			a.Firmware = r.Value
		case "port_state":
			a.State = r.Value
		case "port_phys_state":
			a.Phys = r.Value
		case "port_lid":
			a.LID = uint16(n)
		case "port_sm_lid":
			a.SMLID = uint16(n)
		case "gid":
			if r.Value != "" { // the last row of that name counts the entries
				a.GIDs = append(a.GIDs, r.Value)
			}
		case "pkey":
			if i, err := strconv.Atoi(strings.TrimSuffix(index, "]")); err == nil && i < len(a.PKeys) {
				a.PKeys[i] = uint16(n)
			}
		}
	}
	if a.NodeGUID == "" || len(a.GIDs) == 0 {
		return a, syscall.ENODEV
	}
	if style == MACGID {
		a.GIDs = a.GIDs[:1]
	} else {
		a.GIDs = a.GIDs[1:]
	}
	a.Description = "tapir " + d.name
	return a, nil
}

// table asks for one.
func (d *device) table(kind string, rows any) error {
	return tell(d, func(ctx context.Context) error { return d.client.Show(ctx, kind, rows) })
}

func (d *device) stats() (s sysfs.Stats, err error) {
	var rows []struct {
		Name string
		Now  int
	}
	if err := d.table("stats", &rows); err != nil {
		return s, err
	}
	for _, r := range rows {
		switch r.Name {
		case "context":
			s.CXs = r.Now
		case "pd":
			s.PDs = r.Now
		case "qp":
			s.QPs = r.Now
		case "cq":
			s.CQs = r.Now
		case "srq":
			s.SRQs = r.Now
		case "mr":
			s.MRs = r.Now
		case "cep_listening", "cep_starting", "cep_connected", "cep_closing":
			s.CEPs += r.Now
		}
	}
	return s, nil
}

func (d *device) qps() ([]sysfs.QP, error) {
	var rows []struct {
		QP            uint32 `json:"qp"`
		State         string `json:"iwarp_state"`
		Sends         int    `json:"sends_pending"`
		Recvs         int    `json:"recvs_pending"`
		IRD, ORD      int
		Local, Remote string
	}
	err := d.table("qp", &rows)
	var list []sysfs.QP
	for _, r := range rows {
		list = append(list, sysfs.QP{Num: r.QP, State: strings.ToUpper(r.State), Sends: r.Sends, Recvs: r.Recvs, IRD: r.IRD, ORD: r.ORD,
			Local: r.Local, Remote: r.Remote})
	}
	return list, err
}

func (d *device) ceps() ([]sysfs.CEP, error) {
	var rows []struct {
		ID            uint32
		Phase         string
		QP            uint32
		Local, Remote string
	}
	err := d.table("cep", &rows)
	var list []sysfs.CEP
	for _, r := range rows {
		list = append(list, sysfs.CEP{ID: r.ID, State: r.Phase, QP: r.QP, Listening: r.Phase == "listening", Local: r.Local, Remote: r.Remote})
	}
	return list, err
}

// siwParameters are those of the siw driver, in the end the one that cannot be
// changed while the driver runs.
var siwParameters = []string{"loopback_enabled", "mpa_crc_required", "mpa_crc_strict", "zcopy_tx", "tcp_nodelay", "iface_list"}

// parameters are shown as the first NIC has them and set for all.
func parameters(nics []*device) (list []sysfs.Parameter) {
	for i, name := range siwParameters {
		p := sysfs.Parameter{Name: name, Get: func() (string, error) { return nics[0].parameter(name) }}
		if i < len(siwParameters)-1 {
			p.Set = func(value string) {
				for _, d := range nics {
					d.setParameter(name, value)
				}
			}
		}
		list = append(list, p)
	}
	return list
}

// switches are how the kernel writes the values of a bool.
var switches = map[string]string{"0": "N", "1": "Y"}

// parameter is a parameter's value as the kernel writes it.
func (d *device) parameter(name string) (string, error) {
	var rows []struct{ Name, Type, Value string }
	if err := d.table("params", &rows); err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.Name == name {
			return cmp.Or(switches[r.Value], r.Value), nil
		}
	}
	return "", syscall.ENODEV
}

func (d *device) setParameter(name, value string) {
	for number, letter := range switches {
		if strings.EqualFold(value, letter) {
			value = number
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.client.Set(ctx, []ctl.Setting{{Name: name, Value: value}}, &[]struct{}{}); err != nil {
		d.logf("%s: %v", d.name, err)
	}
}

var gidStyles = []string{"mac", "ip"}

// ParseGIDStyle reads "mac" or "ip".
func ParseGIDStyle(s string) (GIDStyle, error) {
	i := slices.Index(gidStyles, s)
	if i < 0 {
		return 0, &UsageError{fmt.Sprintf("GID style %q: want mac or ip", s)}
	}
	return GIDStyle(i), nil
}
