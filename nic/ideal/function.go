package ideal

import (
	"slices"

	"tapir/nic/fcoe"
	"tapir/nic/hardware"
	"tapir/nic/hostfn"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Function is a NIC's function. What it inherits has nothing to do.
type Function struct {
	idle
	nic    hardware.NIC
	verbs  *verbs.Device
	device *Device
	port   *port
	host   hostfn.Function
	shared bool // its port is that of other functions too
}

// Check implements hardware.Function.
func (f *Function) Check(s hardware.Shape, _ hardware.Config) error { return s.CheckClasses(f.shared) }

// Signal implements hardware.Function: the link of all functions of the port
// follows its carrier. Who calls announces its addresses itself.
func (f *Function) Signal(on bool, now frame.Time) {
	f.port.down = !on
	for _, o := range f.device.functions {
		if o == nil || o.port != f.port {
			continue
		}
		o.nic.Enter(now)
		if o.nic.Carrier(hardware.Link{Up: on}); o != f && o.nic.Active() {
			o.nic.Announce()
		}
	}
}

// Notify implements hardware.Function.
func (f *Function) Notify(cnq int) { f.verbs.ServeCNQ(cnq) }

// Host implements hardware.Function.
func (f *Function) Host() hostfn.Function { return f.host }

// Describe implements hardware.View.
func (f *Function) Describe(e *view.EthtoolInfo) {
	e.Link.Up, e.Link.Speed = f.nic.Active(), speed
}

// speed is the one that the port claims, in Mb/s.
const speed = 100_000

// Close implements hardware.Function: the function is free for another NIC.
func (f *Function) Close(frame.Time) error {
	if i := slices.Index(f.device.functions, f); i >= 0 {
		f.device.functions[i] = nil
	}
	return nil
}

// idle is a function that holds, delays, drops and counts nothing, and keeps no
// contexts.
type idle struct{ verbs.NoContexts }

// Poll implements hardware.Function.
func (idle) Poll(frame.Time) {}

// Holds implements hardware.Function.
func (idle) Holds() bool { return false }

// Hold implements hardware.Function.
func (idle) Hold(*frame.Frame, frame.Time) bool { return false }

// Batch implements hardware.Function.
func (idle) Batch(int, frame.Time) {}

// Sent implements hardware.Function.
func (idle) Sent(int, frame.Time) frame.Time { return frame.Never }

// SYN implements hardware.Function.
func (idle) MAD(ether.Header, []byte) (bool, frame.DropReason) { return false, frame.DropNone }
func (idle) SYN(ether.Header, []byte, frame.Offload) (bool, frame.DropReason) {
	return false, frame.DropNone
}

// FCoE implements hardware.Function.
func (idle) FCoE() fcoe.Hardware { return nil }

// Isles implements hardware.Function.
func (idle) Isles() hardware.Isles { return nil }

// Closed implements hardware.Function.
func (idle) Closed([]byte, frame.Time) {}

// Apply implements hardware.Function.
func (idle) Apply(hardware.Shape, hardware.Config, frame.Time) error { return nil }

// Reshape implements hardware.Function.
func (idle) Reshape(hardware.Shape, frame.Time) error { return nil }

// SetTracer implements hardware.Function.
func (idle) SetTracer(t frame.Tracer) frame.Tracer { return t }

// Counters implements hardware.View.
func (idle) Counters() []view.Counter { return nil }

// Drops implements hardware.View.
func (idle) Drops() frame.Drops { return frame.Drops{} }

// HostTraffic implements hardware.View.
func (idle) HostTraffic() [4]uint64 { return [4]uint64{} }

// LLDP implements hardware.Function: there is no agent.
func (idle) LLDP([]byte, frame.Time) (bool, frame.DropReason) { return false, frame.DropNone }

// DeviceRows implements hardware.View.
func (idle) DeviceRows() []view.DeviceRow { return nil }
