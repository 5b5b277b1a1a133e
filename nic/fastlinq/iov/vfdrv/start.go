package vfdrv

import (
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
	"tapir/wire/ether"
)

// Setup is how Start brings a VF up.
type Setup struct {
	MTU     int // octets of IP
	Queues  int // pairs
	Promisc bool
	VXLAN   uint16 // UDP port that the device is to recognize; 0: as the PF has it
}

// Pairs are the resources for queue pairs.
func Pairs(n int) tlv.Resources {
	q := uint8(n)
	return tlv.Resources{RxQueues: q, TxQueues: q, Blocks: q, MACs: iov.MaxMACs, VLANs: iov.MaxVLANs, CIDs: iov.MaxCIDs}
}

// Sizes of queues: pages of rings, and octets of a buffer.
const (
	ringPages = 8
	bufSize   = 32 << 10
)

// Start starts the VF's vport and queues, as many as it was granted, and lets frames
// pass.
func (d *Driver) Start(s Setup) error {
	if s.VXLAN != 0 {
		if err := d.UseVXLAN(s.VXLAN); err != nil {
			return err
		}
	}
	if err := d.VportStart(l2.StartParams{MTU: s.MTU}); err != nil {
		return err
	}
	r := d.Resources()
	for id := range min(s.Queues, int(r.RxQueues), int(r.TxQueues)) {
		if _, err := d.RxQueueStart(Queue{ID: id, Block: id, Pages: ringPages, BufSize: bufSize}); err != nil {
			return err
		}
		if _, err := d.TxQueueStart(Queue{ID: id, Block: id, PI: 1, Pages: ringPages, Usage: 1}); err != nil {
			return err
		}
		d.pairs++
	}
	on, accept := true, l2.Regular
	if s.Promisc {
		accept = l2.Promisc
	}
	return d.VportUpdate(l2.UpdateParams{RxActive: &on, TxActive: &on, Accept: &l2.AcceptParams{UpdateRx: true,
		UpdateTx: true, Rx: accept, Tx: accept}}, nil)
}

// UseMAC uses the address that the PF sets, else mac.
func (d *Driver) UseMAC(mac ether.Addr) error {
	if set, must := d.ForcedMAC(); must || mac.IsZero() {
		mac = set
	}
	if mac == d.mac {
		return nil
	}
	d.mac = mac
	return d.FilterUcast(l2.UcastParams{Op: l2.FilterReplace, Type: l2.FilterMAC, MAC: mac})
}

// Stop stops what Start has started, and gives the VF back.
func (d *Driver) Stop() error {
	off := false
	err := d.VportUpdate(l2.UpdateParams{RxActive: &off, TxActive: &off}, nil)
	for ; d.pairs > 0 && err == nil; d.pairs-- {
		if err = d.TxQueueStop(Queue{ID: d.pairs - 1, Usage: 1}); err == nil {
			err = d.RxQueueStop(Queue{ID: d.pairs - 1})
		}
	}
	if err == nil {
		err = d.VportStop()
	}
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}
