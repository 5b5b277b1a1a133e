// Package ideal is an ideal NIC's hardware: ports and functions without firmware,
// interrupt controller or queues. The link follows the carrier, and everything
// that is notified is served at once.
package ideal

import (
	"errors"
	"fmt"

	"tapir/nic/hardware"
	"tapir/nic/hostfn"
	"tapir/nic/param"
)

// Kind names this hardware.
const Kind = "ideal"

// Config describes a device; 0 stands for 1.
type Config struct {
	Ports     int
	Functions int // of each port
}

// Kind implements hardware.Config.
func (c *Config) Kind() string { return Kind }

// Open implements hardware.Config.
func (c *Config) Open() (hardware.Device, error) {
	d := make(Device, max(1, c.Ports))
	for p := range d {
		d[p].functions = make([]*Function, max(1, c.Functions))
	}
	return d, nil
}

// Clone implements hardware.Config.
func (c *Config) Clone() hardware.Config { return new(*c) }

// Default implements hardware.Config.
func (c *Config) Default() hardware.Config { return &Config{} }

// Params implements hardware.Config: there is nothing to set.
func (c *Config) Params() []*param.Row { return nil }

// Validate implements hardware.Config.
func (c *Config) Validate(s hardware.Shape) error {
	if s.Queues > 1 {
		return fmt.Errorf("hardware ideal has one queue, not %d: remove queues, or use hardware fastlinq", s.Queues)
	}
	return nil
}

// Segments implements hardware.Config.
func (c *Config) Segments() bool { return true }

// Device is a device with its ports.
type Device []port

// port is a port with its functions, nil where no NIC is attached.
type port struct {
	functions []*Function
	down      bool
}

// Attach implements hardware.Device. Functions are numbered within their port.
func (d Device) Attach(fn int, e hardware.Env) (hardware.Function, error) {
	ports, functions := len(d), len(d[0].functions)
	switch {
	case e.Port < 0 || e.Port >= ports || fn < 0 || fn >= functions:
		return nil, fmt.Errorf("hardware ideal: no function %d of port %d: it has %d ports with %d functions each", fn,
			e.Port, ports, functions)
	case d[e.Port].functions[fn] != nil:
		return nil, fmt.Errorf("hardware ideal: function %d of port %d is another NIC's", fn, e.Port)
	case e.Host != nil && e.Shape.VLAN != 0:
		return nil, errors.New("hardware ideal does not tag the operating system's frames: remove vlan or the host " +
			"TAP, or use hardware fastlinq")
	}
	p := &d[e.Port]
	f := &Function{nic: e.NIC, verbs: e.Verbs, port: p, host: hostfn.None{}}
	if e.Host != nil {
		f.host = &host{nic: e.NIC}
	}
	p.functions[fn] = f
	f.nic.Carrier(hardware.Link{Up: !p.down})
	return f, nil
}
