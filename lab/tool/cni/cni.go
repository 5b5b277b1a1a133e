// Package cni is the CNI plug-in (Container Network Interface, specification 1.0.0): it
// gives a pod a NIC, chained by Multus as a secondary network.
//
//	    host                        pod
//	bridge - veth ============ veth - bridge - wire TAP - tapir nic - net1
//
// The NIC is a process in the pod's network namespace that ADD starts and DEL ends; net1,
// the interface that the pod asked for, is the operating system's side of the NIC and
// shares its MAC and IP addresses. The control socket lies in a directory of the host,
// which the device plug-in mounts into the pod.
package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"tapir/lab/conf/nicconf"
)

// Config is the plug-in's part of a network configuration.
type Config struct {
	types.PluginConf
	// Bridge joins the pods of the host. ADD makes it; it stays.
	Bridge string `json:"bridge"`
	// NIC are settings of the NIC by the names of a nics.yaml, such as {"frames": "gso"}.
	NIC map[string]any `json:"nic"`
	// Addresses with prefix length, instead of ipam, for tests with one pod.
	Addresses []string `json:"addresses"`
	// DeviceID is a device that the device plug-in has allocated: Multus fills it in.
	DeviceID string `json:"deviceID"`
	// RunDir has a directory for each NIC's sockets.
	RunDir string `json:"runDir"`
}

// Defaults of a Config.
const (
	defaultBridge = "tapir0"
	// DefaultRunDir is shared with the device plug-in.
	DefaultRunDir = "/run/tapir/pods"
)

// Codes of errors: those of the specification, and our own.
const (
	codeBadConfig = 7
	codeTwice     = 101
	codeGone      = 102
	codeFailed    = 103
)

// Run answers the call that the environment describes; the configuration is on standard
// input and the result or error goes to standard output, as the specification says.
// program is the tapir that NICs run. It reports whether it succeeded.
func Run(program string) bool {
	p := plugin{program: program}
	err := skel.PluginMainFuncsWithError(skel.CNIFuncs{Add: p.add, Check: p.check, Del: p.del},
		version.PluginSupports("0.3.0", "0.3.1", "0.4.0", "1.0.0"), "CNI plug-in of tapir, a software RDMA NIC")
	if err != nil {
		_ = err.Print() // nobody to tell if this fails
	}
	return err == nil
}

type plugin struct{ program string }

// attachment is a pod's NIC.
type attachment struct {
	Config
	*skel.CmdArgs
	id  string // of container and interface, short enough for names
	dir string // of the sockets
}

// The names of a pod's interfaces behind net1 end in these.
const (
	wireSuffix   = "w"
	bridgeSuffix = "b"
	vethSuffix   = "v"
)

func (a *attachment) hostVeth() string { return "tv" + a.id[:10] }

// mac is the NIC's: the same for the same container and interface, locally administered.
func (a *attachment) mac() net.HardwareAddr {
	sum := sha256.Sum256([]byte("mac " + a.ContainerID + " " + a.IfName))
	return append(net.HardwareAddr{sum[0]&^1 | 2}, sum[1:6]...)
}

// maxName is the longest name of an interface that leaves room for a suffix.
const maxName = 14

// parse reads the configuration and the arguments of a call. strict is off for DEL, which
// has to work with whatever there is.
func parse(args *skel.CmdArgs, strict bool) (*attachment, error) {
	a := &attachment{CmdArgs: args}
	if err := json.Unmarshal(args.StdinData, &a.Config); err != nil {
		return nil, types.NewError(codeBadConfig, "network configuration", err.Error())
	}
	if a.Bridge == "" {
		a.Bridge = defaultBridge
	}
	if a.RunDir == "" {
		a.RunDir = DefaultRunDir
	}
	sum := sha256.Sum256([]byte(args.ContainerID + " " + args.IfName))
	a.id = hex.EncodeToString(sum[:8])
	a.dir = filepath.Join(a.RunDir, a.id)
	if a.DeviceID != "" {
		a.dir = filepath.Join(a.RunDir, filepath.Base(a.DeviceID))
	}
	if !strict {
		return a, nil
	}
	bad := func(format string, values ...any) error {
		return types.NewError(codeBadConfig, "network configuration", fmt.Sprintf(format, values...))
	}
	switch {
	case len(args.IfName) > maxName:
		return nil, bad("interface name %s: at most %d characters", args.IfName, maxName)
	case len(a.Bridge) > 15:
		return nil, bad("bridge: %s: at most 15 characters", a.Bridge)
	case a.IPAM.Type == "" && len(a.Addresses) == 0:
		return nil, bad("no addresses: give ipam, such as {\"type\": \"host-local\", ...}, or addresses")
	case a.DeviceID != "" && (a.DeviceID != filepath.Base(a.DeviceID) || a.DeviceID == ".."):
		return nil, bad("deviceID: %q is no name", a.DeviceID)
	}
	for _, text := range a.Addresses {
		if _, err := netip.ParsePrefix(text); err != nil {
			return nil, bad("addresses: %q: want an address with prefix length, such as 10.0.0.1/24", text)
		}
	}
	if _, err := a.settings(); err != nil {
		return nil, bad("nic: %v", err)
	}
	if err := version.ParsePrevResult(&a.PluginConf); err != nil {
		return nil, bad("prevResult: %v", err)
	}
	return a, nil
}

// ours are settings of the NIC that the plug-in decides.
var ours = []string{"name", "tap", "tap_fd", "tap_ip", "wire", "host_tap", "ip_from_host", "ip", "ip6", "mac", "gw"}

// settings are the NIC's own settings as flags of `tapir nic`, in order of their names.
func (a *attachment) settings() (flags []string, err error) {
	var c nicconf.Config
	for name, value := range a.NIC {
		text := fmt.Sprint(value)
		if slices.Contains(ours, name) {
			return nil, fmt.Errorf("%s is the plug-in's business", name)
		}
		if err := c.Set(name, text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		flags = append(flags, "--"+strings.ReplaceAll(name, "_", "-")+"="+text)
	}
	slices.Sort(flags)
	return flags, nil
}

// mtu of the pod's links, and whether the wire carries super-frames.
func (a *attachment) wire() (mtu int, vnet bool) {
	var c nicconf.Config
	for name, value := range a.NIC {
		_ = c.Set(name, fmt.Sprint(value)) // was checked
	}
	c = c.WithDefaults()
	return c.MTU, c.Vnet()
}

// add gives the pod a NIC. What it has made when it fails, it takes back.
func (p *plugin) add(args *skel.CmdArgs) (err error) {
	a, err := parse(args, true)
	if err != nil {
		return err
	}
	if a.running() != nil {
		return types.NewError(codeTwice, "ADD was called twice",
			fmt.Sprintf("interface %s of container %s has its NIC", a.IfName, a.ContainerID))
	}
	result, err := a.addresses()
	if err != nil {
		return err
	}
	if err := a.attach(p.program, result); err != nil {
		err = errors.Join(err, a.detach(), a.ipam("DEL", nil))
		return types.NewError(codeFailed, "ADD", oneLine(err))
	}
	if a.PrevResult != nil {
		if result, err = chained(a.PrevResult, result); err != nil {
			return types.NewError(codeFailed, "prevResult", oneLine(err))
		}
	}
	return types.PrintResult(result, a.CNIVersion)
}

// chained is the result of the plug-ins before this one and its own.
func chained(before types.Result, own *current.Result) (*current.Result, error) {
	all, err := current.NewResultFromResult(before)
	if err != nil {
		return nil, err
	}
	shift := len(all.Interfaces)
	for _, ip := range own.IPs {
		if ip.Interface != nil {
			ip.Interface = current.Int(*ip.Interface + shift)
		}
	}
	all.Interfaces, all.IPs = append(all.Interfaces, own.Interfaces...), append(all.IPs, own.IPs...)
	all.Routes = append(all.Routes, own.Routes...)
	return all, nil
}

// addresses are those that IPAM gives out, or the configuration's own.
func (a *attachment) addresses() (*current.Result, error) {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	if a.IPAM.Type == "" {
		for _, text := range a.Addresses {
			ip, network, _ := net.ParseCIDR(text) // was checked
			network.IP = ip
			result.IPs = append(result.IPs, &current.IPConfig{Address: *network})
		}
		return result, nil
	}
	var out []byte
	if err := a.ipam("ADD", &out); err != nil {
		return nil, err
	}
	given, err := version.NewResult(a.CNIVersion, out)
	if err == nil {
		result, err = current.NewResultFromResult(given)
	}
	if err == nil && len(result.IPs) == 0 {
		err = errors.New("it gave no address")
	}
	if err != nil {
		return nil, types.NewError(codeFailed, "ipam "+a.IPAM.Type, oneLine(errors.Join(err, a.ipam("DEL", nil))))
	}
	return result, nil
}

// check fails if the NIC does not answer, or the pod's interface lacks an address.
func (p *plugin) check(args *skel.CmdArgs) error {
	a, err := parse(args, true)
	if err != nil {
		return err
	}
	c := a.running()
	if c == nil {
		return types.NewError(codeGone, "CHECK", "the NIC of "+a.IfName+" does not run")
	}
	c.Close()
	if err := a.ipam("CHECK", nil); err != nil {
		return err
	}
	if a.PrevResult == nil {
		return types.NewError(codeBadConfig, "CHECK", "prevResult is missing")
	}
	result, err := current.NewResultFromResult(a.PrevResult)
	if err != nil {
		return types.NewError(codeBadConfig, "prevResult", err.Error())
	}
	if err := a.holds(result); err != nil {
		return types.NewError(codeGone, "CHECK", oneLine(err))
	}
	return nil
}

// del ends the NIC and removes its links, whatever of them there is: it may be called
// twice, after a failed ADD, or when the namespace is gone.
func (p *plugin) del(args *skel.CmdArgs) error {
	a, err := parse(args, false)
	if err != nil {
		return err
	}
	if err := errors.Join(a.ipam("DEL", nil), a.detach()); err != nil {
		return types.NewError(codeFailed, "DEL", oneLine(err))
	}
	return nil
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
