package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// What the operating system decides about its interface counts for the whole
// function: a NIC that takes address, MAC and MTU from its host TAP follows
// them here.

// SetAddrs gives the NIC these addresses in place of those it has. RDMA
// connections from one that goes are reset. An address that a NIC cannot have
// is left out and named in the error.
func (d *Device) SetAddrs(addrs []netip.Prefix, now frame.Time) error {
	var errs []error
	for _, p := range slices.Clone(d.cfg.Addrs) {
		if !slices.Contains(addrs, p) {
			errs = append(errs, d.RemoveAddr(p.Addr(), now))
		}
	}
	for _, p := range addrs {
		if !slices.Contains(d.cfg.Addrs, p) {
			errs = append(errs, d.AddAddr(p, now))
		}
	}
	return errors.Join(errs...)
}

// SetMAC changes the station address and announces it, as connections go on:
// operating systems leave that to ARP's timers. The device's GUID, which is for
// good, stays.
func (d *Device) SetMAC(a ether.Addr, now frame.Time) error {
	d.begin(now)
	cfg := d.cfg
	if cfg.MAC = a; a.IsZero() {
		return fmt.Errorf("NIC %s: a station needs a MAC address other than %v", cfg.Name, a)
	}
	if err := d.reshape(cfg, now); err != nil {
		return err
	}
	d.PTP.SetMAC(a)
	d.readdress(d.cfg.Addrs)
	if !d.Wire.Closed {
		d.IP.Announce(now)
	}
	return nil
}

// SetMTU changes the longest IP packet, in octets. Connections whose segments
// are too long for it cut theirs anew; a longer one counts for those that are
// opened from now on.
func (d *Device) SetMTU(octets int, now frame.Time) error {
	d.begin(now)
	cfg := d.cfg
	cfg.MTU = octets
	if err := d.reshape(cfg, now); err != nil {
		return err
	}
	d.Verbs.SetMTU(octets)
	d.TCPEngine.SetMTU(octets, now)
	d.readdress(d.cfg.Addrs)
	return nil
}

// reshape makes the NIC and its hardware what cfg says.
func (d *Device) reshape(cfg Config, now frame.Time) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	if err := d.Hardware.Reshape(cfg.shape(), now); err != nil {
		return fmt.Errorf("NIC %s: %w", cfg.Name, err)
	}
	d.cfg = cfg
	return nil
}
