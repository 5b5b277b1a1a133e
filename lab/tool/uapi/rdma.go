package uapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/netlink"
	"tapir/nic/uapi/nldev"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/sysfs"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/umad"
	"tapir/nic/verbs"
	"tapir/wire/ib"
)

// GIDStyle says what the GID tables of the devices show.
type GIDStyle uint8

const (
	MACGID GIDStyle = iota // one GID, of the MAC address, as iWARP drivers have
	IPGID                  // one GID per IP address, as RoCE devices have
)

// serveRDMA makes the handlers of the NICs' RDMA devices and of the HFIs: of the
// device files, of which the NICs' process serves those with verbs, and of the files
// by which programs find them. If that process does not serve them, there are no RDMA
// devices, and the user is told when the program looks for one.
func serveRDMA(ctx context.Context, nics, hfis []*device, o *Options, sockets *netlink.Proxy) (handlers []trap.Handler,
	done func(), err error) {
	files, why := dialNICs(ctx, nics, *o)
	if why != nil && ctx.Err() != nil {
		return nil, nil, why
	}
	tree, err := sysfs.New()
	if err != nil {
		return nil, nil, err
	}
	if why != nil {
		logf := nics[0].logf
		tree.First = func() { logf("no RDMA devices are shown: %v", why) }
		nics = nil
	}
	var devices []sysfs.Device
	var ports []umad.Port
	var named []nldev.Device
	for i, d := range nics {
		shown := sysfs.Device{Index: i, Netdev: d.tap,
			Attr:     cached(func() (sysfs.Attr, error) { return d.attr(o.GID) }),
			Counters: d.counters, HWCounters: cached(d.hwCounters), Stats: d.stats, QPs: d.qps, CEPs: d.ceps}
		files.Add(shown.UVerbs(), relay.Uverbs(d.name), node(shown.UVerbsNumber()))
		devices = append(devices, shown)
		named = append(named, nldev.Device{Device: &shown, Resources: d.resources(files.Hello.Below)})
		ports = append(ports, umad.Port{Path: shown.UMAD(), Stat: managed(shown.UMADNumber()),
			Open: umad.Local(d.exchangeMAD)})
	}
	fabrics, interfaces, ports, verbsOfHFIs := newFabrics(hfis, ports)
	if err = tree.Devices(devices, interfaces...); err == nil && len(nics) > 0 {
		files.Add(sysfs.CMPath, relay.UCMA, node(sysfs.CMNumber()))
		err = tree.Parameters(parameters(nics))
	}
	if len(ports) > 0 {
		handlers = append(handlers, umad.New(ports...), verbsOfHFIs)
	}
	if files != nil {
		handlers = append(handlers, files)
		registerRDMA(sockets, nics, named)
		nics[0].disconnect = files.Disconnect
		if err == nil {
			err = showLibrary(tree, o)
		}
	}
	done = func() {
		if files != nil {
			files.Close()
		}
		closeFabrics(fabrics)
		tree.Close()
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return append(handlers, tree), done, nil
}

// showLibrary has the program load the library that rings for it (nic/uapi/doorbell),
// where its device files have the numbers that the library knows.
func showLibrary(tree *sysfs.Tree, o *Options) error {
	known := trap.Range{First: doorbell.FirstFile, Last: doorbell.LastFile}
	if o.NoDoorbells || o.KillAfterPosts > 0 || trap.Reserved() != known {
		return nil
	}
	path, err := tree.Library(doorbell.Path, doorbell.Library())
	if err != nil {
		return err
	}
	if o.Via == trap.Seccomp {
		path = doorbell.Path
	}
	o.library = path
	return nil
}

// node is a device file that everyone may open, as udev makes those of RDMA.
func node(number uint64) trap.Stat {
	return trap.Stat{Mode: syscall.S_IFCHR | 0o666, Rdev: number}
}

// managed is a device file for those who manage the device.
func managed(number uint64) trap.Stat {
	return trap.Stat{Mode: syscall.S_IFCHR | 0o600, Rdev: number}
}

// exchangeMAD is umad.Port.Exchange: the port's agent is the NIC's.
func (d *device) exchangeMAD(ctx context.Context, to umad.Address, b []byte) []byte {
	answer, err := d.client.MAD(ctx, ctl.MAD{QP: to.QP, LID: to.LID, Octets: b})
	if err != nil {
		return nil // to the program, no one answers
	}
	return answer
}

// counters asks the port's agent of performance management.
func (d *device) counters() (c ib.PortCounters, err error) {
	port, err := d.attr(MACGID)
	if err != nil {
		return c, err
	}
	_, err = ask(d, func(ctx context.Context) (_ struct{}, err error) {
		for _, attr := range []uint16{ib.AttrPortCounters, ib.AttrPortCountersExtended} {
			h := ib.Header{BaseVersion: 1, Class: ib.ClassPerf, ClassVersion: 1, Method: ib.MethodGet, Attr: attr}
			b, err := d.client.MAD(ctx, ctl.MAD{QP: 1, LID: port.LID, Octets: h.Append(nil, []byte{0, 1})})
			if err != nil || len(b) != ib.MADLen {
				return struct{}{}, cmp.Or(err, error(syscall.EIO))
			}
			if attr == ib.AttrPortCounters {
				c = ib.ParsePortCounters(b)
			} else {
				c.ParseExtended(b)
			}
		}
		return struct{}{}, nil
	})
	return c, err
}

// dialNICs reaches the process of the NICs, if there are any.
func dialNICs(ctx context.Context, nics []*device, o Options) (*relay.Client, error) {
	if len(nics) == 0 {
		return nil, nil
	}
	ask := relay.Ask{KillAfterPosts: o.KillAfterPosts, Via: o.Path, IPGIDs: o.GID == IPGID}
	for _, d := range nics {
		ask.NICs = append(ask.NICs, d.name)
		index := uint32(0) // the interface is in another namespace
		if i, err := net.InterfaceByName(d.tap); err == nil {
			index = uint32(i.Index)
		}
		ask.Netdevs = append(ask.Netdevs, index)
	}
	c, err := relay.Dial(ctx, ctl.RunPath(nics[0].name), ask)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("NIC %s was started by another tapir, which serves no programs: start it again with this one",
			nics[0].name)
	}
	return c, err
}

// keepAttr is how old the attributes of a device may be: a program that reads
// its whole GID table asks the NIC once.
const keepAttr = 50 * time.Millisecond

// cached remembers an answer for keepAttr.
func cached[T any](ask func() (T, error)) func() (T, error) {
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
	texts := map[string]*string{"node_guid": &a.NodeGUID, "sys_image_guid": &a.SystemImageGUID, "fw_ver": &a.Firmware,
		"port_state": &a.State, "port_phys_state": &a.Phys}
	numbers := map[string]*uint16{"port_lid": &a.LID, "port_sm_lid": &a.SMLID, "hw_ver": &a.HWVersion}
	for i := range a.PKeys {
		numbers[fmt.Sprintf("pkey[%d]", i)] = &a.PKeys[i]
	}
	caps := uint32(0)
	for _, r := range rows {
		if r.Attribute == "cap" {
			caps |= abi.CapFlags(verbs.CapNamed(r.Value))
		}
		if to := texts[r.Attribute]; to != nil {
			*to = r.Value
		}
		if to := numbers[r.Attribute]; to != nil {
			n, _ := strconv.ParseUint(r.Value, 0, 16)
			*to = uint16(n)
		}
		a.RoCE = a.RoCE || r.Attribute == "personality" && r.Value == verbs.RoCE.String()
		var entry int
		if n, _ := fmt.Sscanf(r.Attribute, "gid[%d]", &entry); n == 1 {
			enter(&a.GIDs, entry, r.Value)
		}
		if n, _ := fmt.Sscanf(r.Attribute, "gid_type[%d]", &entry); n == 1 {
			enter(&a.GIDTypes, entry, r.Value)
		}
		if n, _ := fmt.Sscanf(r.Attribute, "gid_netdev[%d]", &entry); n == 1 {
			enter(&a.GIDNetdevs, entry, r.Value)
		}
	}
	switch {
	case a.NodeGUID == "" || len(a.GIDs) == 0:
		return a, syscall.ENODEV
	case a.RoCE: // its table is that of the addresses
	case style == MACGID:
		a.GIDs = a.GIDs[:1]
	default:
		a.GIDs = a.GIDs[1:]
	}
	a.Description = "tapir " + d.name
	a.Caps = uint64(caps)
	return a, nil
}

// enter puts a value into a table at an index.
func enter(table *[]string, i int, value string) {
	if i < 0 || i >= sysfs.GIDTable {
		return
	}
	for len(*table) <= i {
		*table = append(*table, "")
	}
	(*table)[i] = value
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
	counts := map[string]*int{"context": &s.CXs, "pd": &s.PDs, "qp": &s.QPs, "cq": &s.CQs, "srq": &s.SRQs, "mr": &s.MRs,
		"cep_listening": &s.CEPs, "cep_starting": &s.CEPs, "cep_connected": &s.CEPs, "cep_closing": &s.CEPs,
		"tcp_socket": &s.Sockets, "wr_sq": &s.WQEs, "wr_rq": &s.WQEs, "wr_srq": &s.WQEs}
	for _, r := range rows {
		if to := counts[r.Name]; to != nil {
			*to += r.Now
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
		list = append(list, sysfs.QP{Num: r.QP, State: strings.ToUpper(r.State), Sends: r.Sends, Recvs: r.Recvs,
			IRD: r.IRD, ORD: r.ORD,
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
		list = append(list, sysfs.CEP{ID: r.ID, State: r.Phase, QP: r.QP, Listening: r.Phase == "listening",
			Local: r.Local, Remote: r.Remote})
	}
	return list, err
}

// siwParameters are those of the siw driver, in the end the one that cannot be
// changed while the driver runs.
var siwParameters = []string{"loopback_enabled", "mpa_crc_required", "mpa_crc_strict", "zcopy_tx", "tcp_nodelay",
	"iface_list"}

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

// noList is how a NIC writes an empty list.
const noList = "none"

// parameter is a parameter's value as the kernel writes it.
func (d *device) parameter(name string) (string, error) {
	var rows []struct{ Name, Type, Value string }
	if err := d.table("params", &rows); err != nil {
		return "", err
	}
	for _, r := range rows {
		if r.Name == name && r.Value == noList {
			return "", nil
		}
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
	if err := d.client.Set(ctx, []ctl.Setting{{Name: name, Value: value}}, nil); err != nil {
		d.logf("%s: %v", d.name, err)
	}
}

var gidStyles = []string{"mac", "ip"}

// ParseGIDStyle reads "mac" or "ip".
func ParseGIDStyle(s string) (GIDStyle, error) {
	i := slices.Index(gidStyles, s)
	if i < 0 {
		return 0, usage.Errorf("GID style %q: want mac or ip", s)
	}
	return GIDStyle(i), nil
}
