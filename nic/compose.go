package nic

import (
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
)

// compose makes the engines above IP and connects them.
func (d *Device) compose(seed uint64, reserver Reserver) {
	d.Verbs = verbs.NewDevice(verbs.Limits{}, seed)
	d.CM = cm.New(d.Verbs)
	cfg := toe.Config{Seed: seed, MTU: d.cfg.MTU, MaxSegs: 1}
	if d.cfg.Frames != Wire {
		cfg.MaxSegs = gsoSegs
	}
	if reserver != nil {
		cfg.FirstPort, cfg.LastPort = ephemeral(reserver.EphemeralRange())
	}
	d.toe = toe.New(cfg, d.pool, toeOutput{d}, &d.notes)
}

// ephemeral is the larger range of ports, from 1024 on, outside of [lo, hi].
func ephemeral(lo, hi uint16) (first, last uint16) {
	if 65535-int(hi) > int(lo)-1024 {
		return hi + 1, 65535
	}
	return 1024, lo - 1
}
