package nic

import (
	"tapir/nic/hardware"
	"tapir/nic/port"
	"tapir/nic/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// attach puts the NIC on its function of the device.
func (d *Device) attach(env *Env) (err error) {
	device := env.Device
	if device == nil {
		if device, err = d.cfg.Hardware.Open(); err != nil {
			return err
		}
	}
	d.Hardware, err = device.Attach(env.Function, hardware.Env{
		NIC: below{d}, Shape: d.cfg.shape(), Config: d.cfg.Hardware, Port: env.Port, Verbs: d.Verbs,
		Log: &d.Common.Log, Pool: d.pool, System: d.Common.System, Ethernet: transport.NewEthernet(d.Wire, d.RoCE),
		PF: d.rdma.Parent().Parent(), LimitReceived: d.Wire.LimitReceived, TCP: d.TCPEngine,
		Host: env.Host, Second: env.Second, Laser: env.Laser, Tagged: env.Tagged, DCB: d.Wire.SetDCB,
	})
	if err != nil {
		return err
	}
	d.Verbs.SetInterrupt(d.Hardware.Notify)
	d.Verbs.SetContexts(d.Hardware)
	d.tcp.SYN = d.Hardware.SYN
	if d.roce != nil {
		d.roce.MAD = d.Hardware.MAD
	}
	d.TCPEngine.SetIsles(d.Hardware.Isles())
	d.FCoE.Attach(d.Hardware.FCoE())
	d.os, d.holds = d.Hardware.Host(), d.Hardware.Holds()
	return nil
}

// shape is what the hardware has to know of the NIC.
func (c *Config) shape() hardware.Shape {
	return hardware.Shape{Name: c.Name, MAC: c.MAC, MTU: c.MTU, VLAN: c.VLAN, Queues: c.Queues,
		Superframes: c.Frames != Wire,
		RSSKey:      c.Secret.For("rss"), RDMA: c.RDMA.Personality, Classes: c.DCB.Admin}
}

// below is the NIC as its hardware calls it.
type below struct{ d *Device }

// Now implements hardware.NIC.
func (b below) Now() frame.Time { return b.d.called }

// Enter implements hardware.NIC.
func (b below) Enter(now frame.Time) { b.d.begin(now) }

// Schedule implements hardware.NIC.
func (b below) Schedule(at frame.Time, fn func(now frame.Time)) (cancel func()) {
	return b.d.Schedule(at, fn)
}

// Carrier implements hardware.NIC.
func (b below) Carrier(l hardware.Link) {
	d := b.d
	d.Wire.Loopback(port.LoopPHY, l.Looped)
	if l.Up || !d.Wire.Shared() { // a function whose driver ends does not change the port's link
		d.Wire.SetLink(port.Link{Speed: l.Speed, RxPause: l.RxPause, TxPause: l.TxPause}, b.Now())
	}
	d.tcp.SetSegments()
	d.Verbs.SetCarrier(l.Up)
}

// Active implements hardware.NIC.
func (b below) Active() bool { return !b.d.Wire.Closed }

// Announce implements hardware.NIC: with a host TAP its owner does.
func (b below) Announce() {
	b.d.IP.AnnounceOwn(b.Now())
}

// Failed implements hardware.NIC.
func (b below) Failed(failed bool) {
	if b.d.tcp.Failed = failed; b.d.roce != nil {
		b.d.roce.Failed = failed
	}
}

// Received implements hardware.NIC.
func (b below) Received(f *frame.Frame) { b.d.handleWire(f, b.Now()) }

// Traffic implements hardware.NIC.
func (b below) Traffic() hardware.Traffic {
	in, out := b.d.Wire.Frames[frame.Inbound], b.d.Wire.Frames[frame.Outbound]
	t := hardware.Traffic{RxFrames: in.Packets, RxBytes: in.Bytes, TxFrames: out.Packets, TxBytes: out.Bytes,
		Connections: b.d.TCPEngine.Stats().Open, LoginFailures: b.d.FCoE.LoginFailures()}
	switch {
	case b.d.IWARP != nil:
		n := b.d.IWARP.Totals()
		t.RxMessages, t.RxPayload, t.TxMessages, t.TxPayload = n.RxFPDUs, n.RxBytes, n.TxFPDUs, n.TxBytes
	case b.d.RoCE != nil:
		n := b.d.RoCE.Stats()
		t.RxMessages, t.RxPayload, t.TxMessages, t.TxPayload = n.PacketsIn, n.OctetsIn, n.PacketsOut, n.OctetsOut
	}
	return t
}

// ToWire implements hostfn.NIC.
func (b below) ToWire(f *frame.Frame) { b.d.Wire.Send(port.Out{Frame: f}, b.Now()) }

// WireRoom implements hostfn.NIC.
func (b below) WireRoom() int { return b.d.Wire.Room() }

// ToHost implements hostfn.NIC.
func (b below) ToHost(f *frame.Frame) { b.d.Host.Transmit(port.Out{Frame: f}, b.Now()) }

// HostRoom implements hostfn.NIC.
func (b below) HostRoom() int { return b.d.Host.External().Room() }

// Drop implements hostfn.NIC.
func (b below) Drop(p frame.Port, f *frame.Frame, r frame.DropReason) {
	b.port(p).Drop(port.Out{Frame: f}, r, b.Now())
}

// Buffer implements hostfn.NIC.
func (b below) Buffer(f *frame.Frame) (i uint8, size int) { return b.d.Wire.Buffer(f) }

// Dropped implements hostfn.NIC.
func (b below) Dropped(p frame.Port, f *frame.Frame, r frame.DropReason) {
	b.d.Common.Drops.Count(r)
	b.port(p).Trace(frame.Outbound, f, nil, r, b.Now())
}

func (b below) port(p frame.Port) *port.Port {
	if p == frame.Host {
		return b.d.Host
	}
	return b.d.Wire
}

// Admit implements hostfn.NIC.
func (b below) Admit(f *frame.Frame) bool { return b.d.admit(f, b.Now(), false) }

// Loop implements hardware.Bench.
func (b below) Loop(on bool) { b.d.Wire.Loopback(port.LoopSelftest, on) }

// Looping implements hardware.Bench.
func (b below) Looping() bool { return b.d.Wire.Waiting() > 0 }

// Opened implements hardware.NIC.
func (b below) Opened(packet []byte, off frame.Offload) { b.d.tcp.Opened(packet, off, b.Now()) }

// MAD implements hardware.NIC.
func (b below) MAD(h ether.Header, packet []byte) { b.d.roce.Managed(h, packet, b.Now()) }

// FCoE implements hardware.NIC.
func (b below) FCoE(h ether.Header, body []byte) { b.d.FCoE.Receive(h, body, b.Now()) }

// TakeEtherType implements hardware.NIC.
func (b below) TakeEtherType(typ uint16,
	take func(h ether.Header, body []byte) (bool, frame.DropReason)) (remove func()) {
	h := &transport.EtherType{Take: take}
	b.d.IP.RegisterEtherType(typ, h)
	return func() { b.d.IP.Unregister(h) }
}

// ClockCounter implements hardware.Bench.
func (b below) ClockCounter(now frame.Time) (ns, ppb int64) {
	return b.d.Common.PHC.Counter(now), b.d.Common.PHC.Frequency() * 1000 >> 16
}
