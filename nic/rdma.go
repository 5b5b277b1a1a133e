package nic

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/msglog"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// Identity of the emulated device.
const (
	vendorPartID = 1
	hwVersion    = 1
	firmware     = "1.0.0" // of the engine; programs want three numbers
)

// newVerbs makes and starts the RDMA device.
func (d *Device) newVerbs() error {
	r := &d.cfg.RDMA
	d.Verbs = verbs.NewDevice(r.Resources(), d.cfg.Secret.For("stag").Source())
	d.Verbs.SetIdentity(verbs.Identity{
		Personality: r.Personality, Name: d.cfg.Name, GUID: verbs.GUIDFromMAC(d.cfg.MAC),
		VendorPartID: vendorPartID, HWVersion: hwVersion, Firmware: firmware,
	})
	d.Verbs.SetMTU(d.cfg.MTU)
	if len(r.PKeys) > 0 {
		if err := d.Verbs.ModifyPort(verbs.PortMod{PKeys: r.PKeys}); err != nil {
			return err
		}
	}
	d.Verbs.OnPort(d.portMoved)
	d.GIDs.SetV2Only(r.GIDsV2)
	d.GIDs.SetNetdev(cmp.Or(d.cfg.Iface, d.cfg.Name))
	d.readdress(d.cfg.Addrs)
	if !r.Personality.RDMA() {
		return nil
	}
	return d.Verbs.Start(r.DesiredCNQs)
}

// portMoved follows the state of the port: nothing passes one that is not open.
func (d *Device) portMoved(open bool) {
	d.Wire.Closed = !open
	d.LinkChanges++
	d.FCoE.Link(open, d.called)
	d.Common.Log.Say(msglog.Notice, msglog.Link, "link is %s", map[bool]string{true: "up", false: "down"}[open])
}

// CI is the NIC as a vendor registers it with an access layer; do runs its
// argument on the NIC's thread, nil stands for a world with one thread, and now is
// the time there.
func (d *Device) CI(do func(fn func(now frame.Time)), now func() frame.Time) al.CI {
	return al.CI{Verbs: d.Verbs, CM: d.CM, Counters: d.PortCounters, Do: do, Now: now, Schedule: d.Schedule}
}

// LinkUp reports that the carrier of the wire has come up. If the management
// firmware then has link, and the driver has asked for it, the port becomes
// active, unless a manager has to say so, and the NIC announces its addresses,
// unless the host TAP's owner does.
func (d *Device) LinkUp(now frame.Time) {
	d.begin(now)
	d.Hardware.Signal(true, now)
	if !d.Wire.Closed {
		d.IP.AnnounceOwn(now)
	}
}

// LinkDown reports that the carrier has gone: the port is down, and what the
// NIC would send is dropped and counted. Connections stay.
func (d *Device) LinkDown(now frame.Time) {
	d.begin(now)
	d.Hardware.Signal(false, now)
}

// Fail takes the NIC away as if it were unplugged: the port is dead, queue
// pairs are flushed, and whoever has the device open is told. Closing and
// destroying still work.
func (d *Device) Fail(why error, now frame.Time) {
	d.begin(now)
	d.Common.Log.Say(msglog.Err, msglog.Cmd, "device failed: %v", why)
	d.Verbs.Fail(why)
	d.CM.Remove(now)
	d.IP.DiscardFragments(now)
}

// AddAddr gives the NIC another address and announces it.
func (d *Device) AddAddr(p netip.Prefix, now frame.Time) error {
	d.begin(now)
	cfg := d.cfg
	cfg.Addrs = append(slices.Clone(cfg.Addrs), p)
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	d.readdress(cfg.Addrs)
	d.Common.Log.Say(msglog.Info, msglog.Cmd, "address %v added", p)
	if !d.Host.Exists() && !d.Wire.Closed {
		d.IP.AnnounceOne(p.Addr(), now)
	}
	return nil
}

// RemoveAddr takes an address from the NIC. RDMA connections from it are
// reset.
func (d *Device) RemoveAddr(a netip.Addr, now frame.Time) error {
	d.begin(now)
	i := slices.IndexFunc(d.cfg.Addrs, func(p netip.Prefix) bool { return p.Addr() == a })
	if i < 0 {
		return fmt.Errorf("NIC %s: address %v is not one of its own", d.cfg.Name, a)
	}
	for _, id := range slices.Clone(d.CM.IDs()) {
		if id.Local().Addr() == a && id.State() != cm.Closed {
			_ = id.Disconnect(true, now) // one that is closing already stays so
		}
	}
	d.readdress(slices.Delete(slices.Clone(d.cfg.Addrs), i, i+1))
	d.Common.Log.Say(msglog.Info, msglog.Cmd, "address %v removed", a)
	return nil
}

// readdress makes the internet layer and the port's GID table follow the addresses.
func (d *Device) readdress(addrs []netip.Prefix) {
	d.cfg.Addrs = addrs
	d.IP.Set(d.cfg.ip())
	d.FCoE.Follow(d.called)
	if d.cfg.RDMA.Personality == verbs.RoCE {
		d.GIDs.Update(d.cfg.MAC, d.cfg.VLAN, d.IP.ByVLAN())
		d.Verbs.SetGIDs(d.GIDs.Table())
		return
	}
	gids := []verbs.GID{verbs.GIDFromMAC(d.cfg.MAC)}
	for _, p := range d.IP.Addrs() {
		gids = append(gids, verbs.GIDFromAddr(p.Addr()))
	}
	d.Verbs.SetAddrs(gids)
}
