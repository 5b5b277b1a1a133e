package iov

import (
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
)

// onAcquire negotiates versions and resources with a VF's driver. The reply has the
// version of the PF's fastpath even if it is refused, so that the driver can tell why.
func (v *vf) onAcquire(q *tlv.AcquireRequest, _ *message) answer {
	p, r := v.pf, &tlv.AcquireReply{}
	r.PF.HSIMajor, r.PF.HSIMinor = HSIMajor, HSIMinor
	refuse := answer{status: tlv.NotSupported, first: r}
	if v.state != Free && v.state != Stopped {
		refuse.status = tlv.Acquired // by a driver that is gone, perhaps: it may ask for SOFT_FLR
		return refuse
	}
	if q.VF.HSIMajor != HSIMajor {
		if q.VF.Capabilities&tlv.VFPreFPHSI == 0 {
			return refuse
		}
		q.VF.HSIMajor, q.VF.HSIMinor = HSIMajor, legacyMinor
	}
	if p.cfg.Device.CMT && q.VF.Capabilities&tlv.VF100G == 0 {
		return refuse
	}
	p.cfg.Device.describe(&r.PF, q)
	if h := p.cfg.Hooks.Acquire; h != nil && h(v.id) != nil {
		return refuse
	}
	if !v.grant(q, &r.Got) {
		refuse.status = tlv.NoResource
		return refuse
	}
	if err := p.cfg.Function.Start(v.id); err != nil {
		refuse.status = tlv.Failure
		return refuse
	}
	v.acquire = *q
	v.board.addr = q.BulletinAddr
	v.board.size = int(min(q.BulletinSize, tlv.BulletinLen))
	r.BulletinSize = uint32(v.board.size)
	v.state = Acquired
	_ = v.changed(v.post())
	return answer{status: tlv.Success, first: r}
}

// describe tells of the device and of the PF's driver.
func (d *Device) describe(r *tlv.PFInfo, q *tlv.AcquireRequest) {
	r.ChipNum, r.MFWVersion, r.ChipRev, r.DevType = d.ChipNum, d.MFWVersion, d.ChipRev, d.DevType
	r.FWMajor, r.FWMinor, r.FWRevision, r.FWEngineer = d.FWMajor, d.FWMinor, d.FWRevision, d.FWEngineer
	r.IndicesPerSB, r.OSType, r.PortMAC = indicesPerSB, tlv.OSLinux, d.PortMAC
	r.HSIMinor = min(HSIMinor, q.VF.HSIMinor)
	r.Capabilities = tlv.PFDefaultUntagged | tlv.PFPostFWOverride
	if d.CMT {
		r.Capabilities |= tlv.PF100G
	}
	if q.VF.Capabilities&tlv.VFQueueQIDs != 0 {
		r.Capabilities |= tlv.PFQueueQIDs
	}
}

// grant lists what the VF gets and tells whether it is as much as it wants. Drivers for
// Windows from before the negotiation have to take what there is.
func (v *vf) grant(q *tlv.AcquireRequest, r *tlv.Granted) bool {
	n := uint8(v.queues)
	want, got := q.Want, &r.Num
	*got = tlv.Resources{RxQueues: n, TxQueues: n, Blocks: uint8(len(v.blocks)), MACs: min(MaxMACs, want.MACs),
		VLANs: min(MaxVLANs, want.VLANs), Mcasts: l2.MaxMcast, CIDs: min(MaxCIDs, want.CIDs)}
	for i, id := range v.blocks {
		r.Blocks[i].ID = id
	}
	for i := range v.queues {
		r.HWQIDs[i], r.CIDs[i] = uint8(v.rxIDs[i]), uint8(i)
	}
	enough := got.RxQueues >= want.RxQueues && got.TxQueues >= want.TxQueues && got.Blocks >= want.Blocks &&
		got.MACs >= want.MACs && got.VLANs >= want.VLANs && got.Mcasts >= want.Mcasts && got.CIDs >= want.CIDs
	return enough || q.VF.HSIMinor == legacyMinor && q.VF.OSType == tlv.OSWindows
}

// onIntCleanup brings the VF's status blocks to their initial state.
func (v *vf) onIntCleanup(*message) answer {
	v.pf.cfg.Function.Interrupts(v.id, false)
	v.pf.cfg.Function.Interrupts(v.id, true)
	return just(tlv.Success)
}

// onClose ends the VF's interrupts.
func (v *vf) onClose(*message) answer {
	v.pf.cfg.Function.Interrupts(v.id, false)
	return just(tlv.Success)
}

// onRelease ends what the VF's driver has begun.
func (v *vf) onRelease(*message) answer {
	if v.state == Stopped || v.state == Free {
		return just(tlv.Success)
	}
	v.stopAll()
	s := tlv.Success
	if v.pf.cfg.Function.Stop(v.id) != nil {
		s = tlv.Failure
	}
	v.state = Stopped
	v.forget()
	_ = v.changed(nil)
	return just(s)
}

// onSoftFLR resets the VF as a function-level reset does, for a driver that has found
// the VF acquired by one that was killed.
func (v *vf) onSoftFLR(*tlv.SoftFLRRequest, *message) answer {
	return answer{status: tlv.Success, then: func() {
		v.initialCleanup()
		v.finalCleanup()
	}}
}
