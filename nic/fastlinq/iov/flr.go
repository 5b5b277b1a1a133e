package iov

import (
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
)

// FLR begins a function-level reset of a VF: nothing of it passes any more, and a
// message that waits is dropped (the firmware's initial clean-up, MFW's VF_DISABLED).
// FLRCleanup ends it. EINVAL: no such VF.
func (p *PF) FLR(id int) error {
	v, err := p.vf(id)
	if err == nil {
		v.initialCleanup()
	}
	return err
}

// FLRCleanup ends the resets that have begun (iov_vf_flr_cleanup); the caller gives the
// firmware 100 ms before. It returns the VFs that were reset: none while the PF's driver
// does not run.
func (p *PF) FLRCleanup() (done []int) {
	if p.down {
		return nil
	}
	for _, v := range p.vfs[:p.num] {
		if v.pending {
			v.finalCleanup()
			done = append(done, v.id)
		}
	}
	return done
}

// Down is the end of the PF's driver: bulletins tell all VFs that the channel is closed,
// and each is reset, as Up ends it.
func (p *PF) Down() {
	p.down = true
	for _, v := range p.vfs[:p.num] {
		v.board.Valid |= tlv.ChannelInvalid
		_ = v.post()
		v.initialCleanup()
	}
}

// Up tells that the PF's driver runs again: FLRCleanup ends the resets, and VFs can be
// acquired.
func (p *PF) Up() { p.down = false }

// IsDown tells whether the PF's driver does not run.
func (p *PF) IsDown() bool { return p.down }

func (v *vf) initialCleanup() {
	v.pf.cfg.Function.Interrupts(v.id, false)
	v.stopAll()
	v.msg, v.ready, v.pending, v.state = nil, false, true, Reset
	v.counts.Resets++
	_ = v.changed(nil)
}

// finalCleanup leaves a VF that waits for ACQUIRE, whatever it has been.
func (v *vf) finalCleanup() {
	v.pf.cfg.Function.FinalCleanup(v.id)
	v.forget()
	v.state, v.malicious = Stopped, false
	v.ready, v.pending = true, false
	v.pf.cfg.Function.Interrupts(v.id, true)
	v.state = Free
	_ = v.changed(nil)
}

// stopAll stops the VF's queues and its vport.
func (v *vf) stopAll() {
	for q := range v.zones {
		for len(v.zones[q]) > 0 {
			_ = v.stopQueue(q, v.zones[q][0])
		}
	}
	if v.vport.started {
		_ = v.pf.cfg.Function.VportStop(v.id, v.vportID)
	}
	v.vport = vport{}
}

// forget forgets what a VF's driver has said. Its policies stay.
func (v *vf) forget() {
	v.rdma = false
	v.acquire.Reply = 0
	v.acquire.VF.Capabilities = 0
	v.board.addr, v.board.size = 0, 0
	v.board.Valid, v.board.OnlyUntagged = 0, 0
	v.wish, v.suggested = wish{}, v.policy.MAC
}

// State checks of the driver core, by relative id (iov_is_vf_*). They are false for VFs
// that there are not.

// WaitsForAcquire tells that no driver has acquired the VF.
func (p *PF) WaitsForAcquire(vf int) bool { return p.in(vf, Free, Stopped) }

// AcquiredNotInitialized tells that a driver has, and has not started its vport.
func (p *PF) AcquiredNotInitialized(vf int) bool { return p.in(vf, Acquired) }

// Initialized tells that the VF's driver runs.
func (p *PF) Initialized(vf int) bool { return p.in(vf, Enabled) }

func (p *PF) in(id int, states ...State) bool {
	v, err := p.vf(id)
	if err != nil {
		return false
	}
	for _, s := range states {
		if v.state == s {
			return true
		}
	}
	return false
}

// info is what there is to know of the VF.
func (v *vf) info() VFInfo {
	i := VFInfo{
		Policy: v.policy, ID: v.id, AbsoluteID: v.pf.AbsoluteID(v.id), FID: v.pf.FID(v.id), State: v.state,
		Malicious: v.malicious, Why: v.why, Address: v.wish.address, Vport: -1, Link: v.link(), Queues: v.queues,
		Blocks: v.blocks, BulletinVersion: v.board.Version, Counts: v.counts,
	}
	if v.vport.started {
		i.Vport, i.MTU = v.vportID, v.vport.mtu
		accept := v.accept(v.wish.rxAccept)
		i.Promisc, i.AllMulti = accept&l2.UcastUnmatched != 0, accept&l2.McastUnmatched != 0
	}
	for q := range v.zones {
		for _, z := range v.zones[q] {
			if z.tx {
				i.TxQueues++
			} else {
				i.RxQueues++
			}
		}
	}
	for _, f := range v.vport.filters {
		if f.typ != l2.FilterVLAN {
			i.MACs = append(i.MACs, f.mac)
		}
		if f.typ != l2.FilterMAC {
			i.VLANs = append(i.VLANs, f.vlan)
		}
	}
	return i
}
