package sysfs

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/wire/ib"
)

// Device is an RDMA device. Its functions are called from any goroutine when a
// program opens a file; their errors are errnos.
type Device struct {
	Index  int    // N of uverbsN and of rxeN
	Netdev string // the network interface that belongs to it
	Attr   func() (Attr, error)
	// Counters are those of the port; nil: there are none.
	Counters func() (ib.PortCounters, error)
	// HWCounters are the device's own, always the same in the same order.
	HWCounters func() ([]Counter, error)
	Stats      func() (Stats, error)
	QPs        func() ([]QP, error)
	CEPs       func() ([]CEP, error)
}

// Attr is what a device's files say.
type Attr struct {
	NodeGUID, SystemImageGUID string // 0200:00ff:fe00:0001
	Firmware                  string
	HWVersion                 uint16
	Description               string
	State                     string // of the port: ACTIVE
	Phys                      string // LINK_UP
	LID, SMLID                uint16
	// GIDs are the entries of the table, such as fe80:0000:0000:0000:0200:00ff:fe00:0001,
	// empty ones among them, GIDTypes their types with RoCE. GIDNetdevs are the interfaces of
	// those of VLANs; others are the device's.
	GIDs, GIDTypes, GIDNetdevs []string
	RoCE                       bool // the node is a channel adapter, not an RNIC
	PKeys                      []uint16
	Caps                       uint64 // ibv_device_cap_flags
}

// Counter is one of a device's own.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// The kernel's versions of the interface that is served, and its device
// numbers of the names in /dev/infiniband.
const (
	verbsABI  = 6 // IB_USER_VERBS_ABI_VERSION
	DriverABI = 2 // of rxe's rings and commands
	MADABI    = 5 // IB_USER_MAD_ABI_VERSION
	CMABI     = 4 // RDMA_USER_CM_ABI_VERSION
)

// Lengths of a port's tables.
const (
	GIDTable  = 128
	PKeyTable = 32
)

// Name is the device's name, by which libibverbs chooses its provider.
func (d *Device) Name() string { return fmt.Sprintf("rxe%d", d.Index) }

// UVerbs is the path of its device file.
func (d *Device) UVerbs() string { return UVerbs(d.Index) }

// UVerbs is the path of /dev/infiniband/uverbsN.
func UVerbs(n int) string { return fmt.Sprintf("%s/uverbs%d", devDir, n) }

// UVerbsNumber is the device number of that file.
func (d *Device) UVerbsNumber() uint64 { return UVerbsNumber(d.Index) }

// UVerbsNumber is the device number of that file.
func UVerbsNumber(n int) uint64 { return unix.Mkdev(231, 192+uint32(n)) }

// UMAD is the path of the file for management datagrams of the device's port.
func (d *Device) UMAD() string { return UMAD(d.Index) }

// UMADNumber is the device number of that file.
func (d *Device) UMADNumber() uint64 { return UMADNumber(d.Index) }

// UMAD is the path of /dev/infiniband/umadN.
func UMAD(n int) string { return fmt.Sprintf("%s/umad%d", devDir, n) }

// UMADNumber is the device number of that file.
func UMADNumber(n int) uint64 { return unix.Mkdev(231, uint32(n)) }

// CMNumber is the device number of CMPath.
func CMNumber() uint64 { return unix.Mkdev(10, 125) }

// CMPath is the connection manager's device file.
const CMPath = devDir + "/rdma_cm"

const (
	devDir   = "/dev/infiniband"
	verbsDir = "/sys/class/infiniband_verbs"
	classDir = "/sys/class/infiniband"
	madDir   = "/sys/class/infiniband_mad"
	cmDir    = "/sys/class/misc/rdma_cm"
)

// Devices adds the files of these devices. Whatever serves the device files
// themselves must be a handler before this one.
func (t *Tree) Devices(devices []Device, hfis ...HFI) error {
	for _, dir := range []string{devDir, verbsDir, classDir, madDir, cmDir} {
		t.Show(dir)
	}
	b := builder{t: t}
	b.files("", [][2]any{{verbsDir + "/abi_version", verbsABI}, {cmDir + "/abi_version", CMABI},
		{madDir + "/abi_version", MADABI}, {cmDir + "/dev", number(CMNumber())}, {CMPath, ""}})
	for i := len(devices) - 1; i >= 0; i-- { // libibverbs has them first that tmpfs lists first: the last made
		d := &devices[i]
		b.files(fmt.Sprintf("%s/uverbs%d/", verbsDir, d.Index), [][2]any{{"ibdev", d.Name()},
			{"dev", number(d.UVerbsNumber())}, {"abi_version", DriverABI}})
		b.files(fmt.Sprintf("%s/umad%d/", madDir, d.Index), [][2]any{{"ibdev", d.Name()}, {"port", 1},
			{"dev", number(d.UMADNumber())}})
		b.files("", [][2]any{{d.UVerbs(), ""}, {d.UMAD(), ""}})
		b.device(d)
		b.siw(d)
	}
	for i := range hfis {
		b.hfi(&hfis[i])
	}
	return b.err
}

func number(dev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)) }

// builder adds files until one fails.
type builder struct {
	t   *Tree
	err error
}

// files adds files of one line: pairs of name and line.
func (b *builder) files(dir string, list [][2]any) {
	for _, f := range list {
		if b.err == nil {
			b.err = b.t.File(dir+f[0].(string), fmt.Sprintln(f[1]))
		}
	}
}

func (b *builder) live(path string, text func() (string, error)) {
	if b.err == nil {
		b.err = b.t.Live(path, text)
	}
}

func (b *builder) device(d *Device) {
	dir := classDir + "/" + d.Name()
	attr := func(path string, line func(a *Attr) string) {
		b.live(dir+"/"+path, func() (string, error) {
			a, err := d.Attr()
			if err != nil {
				return "", err
			}
			return line(&a) + "\n", nil
		})
	}
	a, err := d.Attr()
	if err != nil {
		b.err = cmp.Or(b.err, err)
		return
	}
	node, kind, caps := "4: RNIC", "iWARP", "0x00090000" // managed by a connection manager, and as a device
	if a.RoCE {
		node, kind, caps = "1: CA", "RoCE", "0x04010000" // by a connection manager; GIDs of IP addresses
	}
	b.files(dir+"/", [][2]any{
		{"node_type", node}, {"hca_type", "Tapir " + kind}, {"hw_rev", fmt.Sprintf("0x%x", a.HWVersion)},
		{"ports/1/cap_mask", caps}, {"ports/1/lid_mask_count", 0}, {"ports/1/sm_sl", 0},
		{"ports/1/rate", "100 Gb/sec (4X EDR)"}, {"ports/1/link_layer", "Ethernet"},
	})
	for path := range new(Attr).lines() {
		attr(path, func(a *Attr) string { return a.lines()[path] })
	}
	if d.Netdev != "" {
		b.netdev(dir+"/device/net/"+d.Netdev+"/", d.Netdev)
	}
	b.counters(dir+"/ports/1/counters/", d)
	b.hwCounters(dir+"/ports/1/hw_counters/", d)
	b.tables(dir+"/ports/1", d, attr)
}

// counters adds the counters of the port, as far as it has them.
func (b *builder) counters(dir string, d *Device) {
	if d.Counters == nil {
		return
	}
	for i, name := range []string{"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
		"unicast_xmit_packets", "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets",
		"port_rcv_errors", "port_xmit_discards", "link_downed"} {
		b.live(dir+name, func() (string, error) {
			c, err := d.Counters()
			all := [...]uint64{c.XmitData, c.RcvData, c.XmitPkts, c.RcvPkts, c.UnicastXmit, c.UnicastRcv,
				c.MulticastXmit, c.MulticastRcv, c.RcvErrors, c.XmitDiscards, c.Downed}
			return fmt.Sprintln(all[i]), err
		})
	}
}

// lifespan is how old hardware counters may be, in milliseconds (lifespan).
const lifespan = 10

// hwCounters adds the device's own counters, as far as it has any.
func (b *builder) hwCounters(dir string, d *Device) {
	if d.HWCounters == nil || b.err != nil {
		return
	}
	list, err := d.HWCounters()
	if err != nil {
		b.err = err
		return
	}
	b.files(dir, [][2]any{{"lifespan", lifespan}})
	for i, c := range list {
		b.live(dir+c.Name, func() (string, error) {
			now, err := d.HWCounters()
			if err != nil {
				return "", err
			}
			return fmt.Sprintln(now[i].Value), nil
		})
	}
}

// lines are the files of one line that the NIC is asked for.
func (a *Attr) lines() map[string]string {
	return map[string]string{
		"node_guid": a.NodeGUID, "sys_image_guid": a.SystemImageGUID, "fw_ver": a.Firmware, "node_desc": a.Description,
		"ports/1/state": numbered(portStates, a.State), "ports/1/phys_state": numbered(physStates, a.Phys),
		"ports/1/lid": fmt.Sprintf("0x%x", a.LID), "ports/1/sm_lid": fmt.Sprintf("0x%x", a.SMLID),
	}
}

// used tells whether entry i of the GID table is.
func (a *Attr) used(i int) bool { return i < len(a.GIDs) && a.GIDs[i] != "" }

// gidType is the type of a used entry.
func (a *Attr) gidType(i int) string {
	if i < len(a.GIDTypes) && a.GIDTypes[i] != "" {
		return a.GIDTypes[i]
	}
	return "IB/RoCE v1"
}

// tables adds the port's tables. GID entries that are not used say zero, as the
// kernel's do, and their attributes cannot be read: EINVAL, which libibverbs
// expects.
func (b *builder) tables(dir string, d *Device, attr func(string, func(*Attr) string)) {
	for i := range GIDTable {
		attr(fmt.Sprintf("ports/1/gids/%d", i), func(a *Attr) string {
			if a.used(i) {
				return a.GIDs[i]
			}
			return strings.Repeat("0000:", 7) + "0000"
		})
	}
	if _, err := d.Attr(); err != nil && b.err == nil {
		b.err = err
	}
	for i := range GIDTable {
		used := func(line func(a *Attr) string) func() (string, error) {
			return func() (string, error) {
				a, err := d.Attr()
				if err == nil && !a.used(i) {
					err = syscall.EINVAL
				}
				if err != nil {
					return "", err
				}
				return line(&a) + "\n", nil
			}
		}
		b.live(fmt.Sprintf("%s/gid_attrs/types/%d", dir, i), used(func(a *Attr) string { return a.gidType(i) }))
		b.live(fmt.Sprintf("%s/gid_attrs/ndevs/%d", dir, i), used(func(a *Attr) string {
			if i < len(a.GIDNetdevs) && a.GIDNetdevs[i] != "" {
				return a.GIDNetdevs[i]
			}
			return d.Netdev
		}))
	}
	for i := range PKeyTable {
		attr(fmt.Sprintf("ports/1/pkeys/%d", i), func(a *Attr) string {
			if i < len(a.PKeys) {
				return fmt.Sprintf("0x%04x", a.PKeys[i])
			}
			return "0x0000"
		})
	}
}

// The states' names at their numbers, as the files write them and as a NIC
// calls them.
var (
	portStates = []stateName{{1, "DOWN", "DOWN"}, {2, "INIT", "INIT"}, {3, "ARMED", "ARMED"}, {4, "ACTIVE", "ACTIVE"}}
	physStates = []stateName{{1, "Sleep", "SLEEP"}, {2, "Polling", "POLLING"}, {3, "Disabled", "DISABLED"},
		{4, "PortConfigurationTraining", "TRAINING"}, {5, "LinkUp", "LINK_UP"}}
)

type stateName struct {
	number       int
	written, nic string
}

func numbered(states []stateName, nic string) string {
	s := find(states, nic)
	return fmt.Sprintf("%d: %s", s.number, s.written)
}

func find(states []stateName, nic string) stateName {
	for _, s := range states {
		if s.nic == nic {
			return s
		}
	}
	return stateName{written: "NOP"}
}

// StateNumber is the port's state as the kernel numbers it.
func (a *Attr) StateNumber() uint8 { return uint8(find(portStates, a.State).number) }

// PhysNumber is the port's physical state as the kernel numbers it.
func (a *Attr) PhysNumber() uint8 { return uint8(find(physStates, a.Phys).number) }
