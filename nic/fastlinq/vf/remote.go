package vf

import (
	"slices"

	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// memory is that of a driver in another process.
type memory func(addr uint64, b []byte) error

// Write implements iov.Memory.
func (m memory) Write(addr uint64, b []byte) error { return m(addr, b) }

// Hand gives the VF to a driver elsewhere, which has the device by the channel alone:
// Deliver takes its messages, and write, which must not wait, writes to its memory. The
// VF's host TAP stays; the queues that the driver starts serve it. BUSY: another such
// driver has the VF; AGAIN: it is being reset; NODEV: the PF's driver does not run.
func (v *VF) Hand(write func(addr uint64, b []byte) error) error {
	d := v.driver
	if d != nil && d.remote {
		return status.Busy.Errorf("VF %d has a driver in another process", v.id)
	}
	if v.b.iov.IsDown() {
		return status.NoDev.Errorf("VF %d: the PF's driver is unloaded", v.id)
	}
	if i, err := v.b.iov.VFInfo(v.id); err != nil || i.State == iov.Reset {
		return status.Again.Errorf("VF %d is being reset", v.id)
	}
	mac := v.MAC()
	v.Close()
	v.driver = &driver{v: v, remote: true, mac: mac}
	return v.b.iov.Connect(v.id, memory(write))
}

// Deliver takes a message of the driver elsewhere. NODEV: the PF does not serve it.
func (v *VF) Deliver(msg []byte) error {
	err := v.b.iov.Deliver(v.id, msg)
	v.touch()
	return err
}

// TakeBack resets the VF, whose driver elsewhere has gone. The VF's own driver has it
// afterwards.
func (v *VF) TakeBack(now frame.Time) {
	_ = v.b.iov.Connect(v.id, nil)
	v.driver = &driver{v: v, accept: l2.Regular, gone: true, mac: v.MAC()}
	_ = v.b.FLR(v.id, now)
}

// follow has the host TAP use the queues that a driver elsewhere has started, and see
// the link that it sees.
func (d *driver) follow() {
	dev, vport := &d.v.b.device, d.v.vport()
	d.rx, d.tx = d.rx[:0], d.tx[:0]
	for _, q := range dev.rx {
		if q != nil && q.Vport() == vport {
			d.rx = append(d.rx, q)
			_ = q.Post(q.Free()) // all that is free
		}
	}
	for _, q := range dev.tx {
		if q.Vport() == vport {
			d.tx = append(d.tx, q.TxQueue)
		}
	}
	slices.SortFunc(d.tx, func(a, b *l2.TxQueue) int { return a.ID - b.ID })
	for len(d.v.napi) < len(d.rx) {
		d.v.napi = append(d.v.napi, false)
	}
	i, err := d.v.b.iov.VFInfo(d.v.id)
	if err == nil && i.State == iov.Enabled && !i.Address.IsZero() {
		d.tell(i.Address)
	}
	d.setLink(err == nil && i.Link.Up && len(d.tx) > 0)
}
