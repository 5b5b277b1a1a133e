// Package wires knows the kinds of wires that take the place of a TAP.
package wires

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"tapir/nic/tap"
	"tapir/nic/tap/meet"
	"tapir/nic/tap/packet"
	"tapir/nic/tap/shm"
	"tapir/nic/tap/stream"
	"tapir/nic/tap/tunnel"
	"tapir/wire/ether"
)

// Expect is what Check expects.
const Expect = "shm:PATH, udp:LOCAL,REMOTE[,key=FILE], vxlan:VNI,REMOTE[,LOCAL][,key=FILE], stream:PATH, " +
	"dev:IFACE or tapdev:/dev/tapN"

// kind is one kind of wires.
type kind struct {
	name  string
	check func(rest string) error
	open  func(text, rest string, vnet bool) (tap.Wire, error)
}

var kinds = []kind{
	{"shm", func(rest string) error { return checkPath("shm", rest) },
		func(_, rest string, vnet bool) (tap.Wire, error) { return wire(shm.Open(rest, vnet)) }},
	{"udp", nil, openTunnel},
	{"vxlan", nil, openTunnel},
	{"stream", func(rest string) error {
		_, err := stream.Parse(rest)
		return err
	}, func(_, rest string, vnet bool) (tap.Wire, error) { return wire(stream.Open(rest, vnet)) }},
	{"dev", func(rest string) error {
		if rest == "" {
			return errors.New("expected the name of an interface, such as dev:eth1")
		}
		return tap.CheckName(rest)
	}, func(_, rest string, vnet bool) (tap.Wire, error) { return wire(packet.Open(rest, vnet)) }},
	{"tapdev", func(rest string) error { return checkPath("tapdev", rest) },
		func(_, rest string, vnet bool) (tap.Wire, error) { return openDevice(rest, vnet) }},
}

// wire keeps a nil pointer from becoming a wire.
func wire[W tap.Wire](w W, err error) (tap.Wire, error) {
	if err != nil {
		return nil, err
	}
	return w, nil
}

func openTunnel(text, _ string, vnet bool) (tap.Wire, error) {
	spec, err := tunnel.Parse(text)
	if err != nil {
		return nil, err
	}
	return wire(tunnel.Open(spec, vnet))
}

func checkPath(kind, path string) error {
	if !meet.IsPath(path) {
		return fmt.Errorf("%q: expected a path with a slash, such as %s", path,
			map[string]string{"shm": "shm:/run/cable0", "tapdev": "tapdev:/dev/tap7"}[kind])
	}
	if kind == "shm" {
		return meet.Config{Path: path}.Check()
	}
	return nil
}

func find(text string) (k kind, rest string, ok bool) {
	name, rest, found := strings.Cut(text, ":")
	for _, k := range kinds {
		if found && k.name == name {
			return k, rest, true
		}
	}
	return k, "", false
}

// Is reports whether a text names a wire rather than an interface: a kind and a colon.
func Is(text string) bool {
	_, _, ok := find(text)
	return ok
}

// Check finds what is wrong with the text of a wire, in one line.
func Check(text string) error {
	k, rest, ok := find(text)
	switch {
	case !ok:
		return errors.New("expected " + Expect)
	case k.check == nil:
		_, err := tunnel.Parse(text)
		return err
	}
	return k.check(rest)
}

// Local are the kinds of wires of which Ends knows two ends on one host, Kernel those whose ends
// are interfaces; All are both, and Names are all in one line.
var (
	Local  = []string{"shm", "stream", "udp", "vxlan"}
	Kernel = []string{"dev", "tapdev"}
	All    = append(Local[:len(Local):len(Local)], Kernel...)
	Names  = strings.Join(All, ", ")
)

// Ends are the texts of both ends of a wire that stays on this host: path is where those of kinds
// shm and stream meet, and the others have two ports of the loopback interface from port on.
func Ends(kind, path string, port uint16) (near, far string, err error) {
	const own = "127.0.0.1"
	switch kind {
	case "shm", "stream":
		return kind + ":" + path, kind + ":" + path, nil
	case "udp":
		return fmt.Sprintf("udp:%s:%d,%s:%d", own, port, own, port+1), fmt.Sprintf("udp:%s:%d,%s:%d", own, port+1, own,
			port), nil
	case "vxlan":
		return fmt.Sprintf("vxlan:7,%s:%d,%s:%d", own, port+1, own, port), fmt.Sprintf("vxlan:7,%s:%d,%s:%d", own, port,
			own, port+1), nil
	}
	return "", "", fmt.Errorf("%q: expected %s", kind, strings.Join(Local, ", "))
}

// Open opens a wire, in the network namespace of the calling thread. With vnet, frames may
// carry a frame.Offload. An error is one line.
func Open(text string, vnet bool) (tap.Wire, error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	k, rest, _ := find(text)
	return k.open(text, rest, vnet)
}

// device is a macvtap's queue as a wire.
type device struct {
	*tap.TAP
	mtu int
	mac ether.Addr
}

func openDevice(path string, vnet bool) (tap.Wire, error) {
	t, err := tap.OpenDevice(path, vnet)
	if err != nil {
		return nil, err
	}
	ifi, err := net.InterfaceByName(t.Name())
	if err != nil || len(ifi.HardwareAddr) != len(ether.Addr{}) {
		t.Close()
		return nil, fmt.Errorf("tapdev:%s: its interface is not in this network namespace", path)
	}
	return &device{t, ifi.MTU, ether.Addr(ifi.HardwareAddr)}, nil
}

// MTU is that of the interface, in octets.
func (d *device) MTU() int { return d.mtu }

// Counters implements tap.Wire: the kernel counts.
func (d *device) Counters() []tap.Counter { return nil }

// Station is the MAC address that the interface lets through, which a NIC on it takes.
func (d *device) Station() ether.Addr { return d.mac }

// Removed is tap.ErrRemoved if the interface does not exist any more: its queue goes on without a word.
func (d *device) Removed() error {
	if d.Attached() {
		return nil
	}
	return tap.ErrRemoved
}

// Where is on which side of an interface of the kernel a queue lies.
type Where uint8

// The sides.
const (
	NoInterface Where = iota // none that shows when frames pass
	FarSide                  // what the queue reads, the kernel sends: a TAP
	KernelSide               // what the queue reads, the kernel receives
)

// Side tells where a queue lies.
func Side(q tap.Queue) Where {
	switch q.(type) {
	case *tap.TAP:
		return FarSide
	case *packet.Wire:
		return KernelSide
	}
	return NoInterface
}
