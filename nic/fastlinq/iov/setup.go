package iov

import (
	"slices"
	"syscall"

	"tapir/nic/fastlinq/status"
)

// InitParams are the resources of a VF (iov_init_hw_for_vf). Ids are relative to the PF.
type InitParams struct {
	VF        int
	RxQueues  []int // ids; as many status blocks
	TxQueues  []int // ids; as many
	Vport     int
	RSSEngine int
}

// InitHW gives a VF its resources, with an interrupt vector for each queue, before it is
// enabled. INVAL: a VF that has its resources or cannot be, or what the PF does not have
// or another VF has; NORESOURCES: too few status blocks are left.
func (p *PF) InitHW(q InitParams) error {
	if q.VF < 0 || q.VF >= p.cfg.Info.Total {
		return status.Inval.Errorf("VF %d: the function can have %d", q.VF, p.cfg.Info.Total)
	}
	for len(p.vfs) <= q.VF {
		p.vfs = append(p.vfs, &vf{pf: p, id: len(p.vfs)})
	}
	v, n := p.vfs[q.VF], len(q.RxQueues)
	if err := p.checkInit(v, &q); err != nil {
		return err
	}
	if n > len(p.free) {
		return status.NoResources.Errorf("VF %d: %d status blocks of %d", q.VF, n, len(p.free))
	}
	blocks := slices.Clone(p.free[:n])
	if err := p.cfg.Function.Enable(v.id, blocks); err != nil {
		return err
	}
	*v = vf{pf: p, id: v.id, policy: v.policy, mem: v.mem, enabled: true, ready: true, blocks: blocks, queues: n,
		vportID: q.Vport, rssID: q.RSSEngine}
	p.free = p.free[n:]
	copy(v.rxIDs[:], q.RxQueues)
	copy(v.txIDs[:], q.TxQueues)
	return nil
}

// checkInit refuses what the PF does not have, and what is another's.
func (p *PF) checkInit(v *vf, q *InitParams) error {
	s := &p.cfg.Share
	switch n := len(q.RxQueues); {
	case v.enabled:
		return status.Inval.Errorf("VF %d has its resources already", v.id)
	case n < 1 || n > MaxQueues || len(q.TxQueues) != n:
		return status.Inval.Errorf("VF %d: %d and %d queues: want 1 to %d of each", v.id, n, len(q.TxQueues), MaxQueues)
	case q.Vport < 1 || q.Vport >= s.Vports:
		return status.Inval.Errorf("VF %d: vport %d: the function has %d", v.id, q.Vport, s.Vports)
	case q.RSSEngine < 1 || q.RSSEngine >= s.RSSEngines:
		return status.Inval.Errorf("VF %d: RSS engine %d: the function has %d", v.id, q.RSSEngine, s.RSSEngines)
	}
	for _, list := range [][]int{q.RxQueues, q.TxQueues} {
		for _, id := range list {
			if id < p.cfg.Queues || id >= s.Queues {
				return status.Inval.Errorf("VF %d: queue %d: VFs have %d to %d", v.id, id, p.cfg.Queues, s.Queues-1)
			}
		}
	}
	for _, o := range p.vfs {
		if !o.enabled {
			continue
		}
		shared := func(mine, others []int) bool {
			return slices.ContainsFunc(mine, func(id int) bool { return slices.Contains(others, id) })
		}
		if o.vportID == q.Vport || o.rssID == q.RSSEngine || shared(q.RxQueues, o.rxIDs[:o.queues]) ||
			shared(q.TxQueues, o.txIDs[:o.queues]) {
			return status.Inval.Errorf("VF %d: VF %d has its vport, RSS engine or queues", v.id, o.id)
		}
	}
	return nil
}

// ReleaseHW takes the resources of a VF back (iov_release_hw_for_vf). INVAL: it has none.
func (p *PF) ReleaseHW(id int) error {
	if id < 0 || id >= len(p.vfs) || !p.vfs[id].enabled {
		return status.Inval.Errorf("VF %d has no resources", id)
	}
	v := p.vfs[id]
	v.stopAll()
	p.cfg.Function.Disable(id)
	p.free = append(slices.Clone(v.blocks), p.free...)
	*v = vf{pf: p, id: id, policy: v.policy}
	return nil
}

// SetToDisable marks a VF that is about to go: its messages are not served any more
// (iov_set_vf_to_disable).
func (p *PF) SetToDisable(id int, on bool) error {
	v, err := p.vf(id)
	if err == nil {
		v.toDisable = on
	}
	return err
}

// QueuesPerVF is how many queues of each kind n VFs have each.
func (p *PF) QueuesPerVF(n int) int {
	return min(MaxQueues, (p.cfg.Share.Queues-p.cfg.Queues)/n, len(p.cfg.Blocks)/n)
}

// SetNumVFs sets the number of VFs (sriov_numvfs): each gets its part of the queues, the
// vport and the RSS engine one above its id. ERANGE: more than there can be; EBUSY: there
// are some, and n is not 0; EINVAL: the PF has too few vports or queues; ENODEV: its driver
// does not run.
func (p *PF) SetNumVFs(n int) error {
	switch {
	case n == p.num:
		return nil
	case n < 0 || n > p.cfg.Info.Total:
		return errno(syscall.ERANGE, "%d VFs: the function can have %d", n, p.cfg.Info.Total)
	case p.num > 0 && n > 0:
		return errno(syscall.EBUSY, "%d VFs: there are %d: set 0 first", n, p.num)
	case n == 0:
		return p.removeVFs()
	case p.down:
		return errno(syscall.ENODEV, "%d VFs: the function's driver is unloaded", n)
	case n > p.cfg.Share.Vports-1 || p.QueuesPerVF(n) < 1:
		return errno(syscall.EINVAL, "%d VFs: the function has %d vports, %d queues and %d status blocks for them", n,
			p.cfg.Share.Vports-1, p.cfg.Share.Queues-p.cfg.Queues, len(p.cfg.Blocks))
	}
	each := p.QueuesPerVF(n)
	for id := range n {
		q := InitParams{VF: id, Vport: id + 1, RSSEngine: id + 1}
		for i := range each {
			q.RxQueues = append(q.RxQueues, p.cfg.Queues+id*each+i)
		}
		q.TxQueues = q.RxQueues
		if err := p.InitHW(q); err != nil {
			p.num = id
			_ = p.removeVFs()
			return errno(syscall.EINVAL, "%v", err)
		}
	}
	p.num = n
	return nil
}

// removeVFs ends all VFs and forgets their policies.
func (p *PF) removeVFs() error {
	for id := range p.num {
		p.vfs[id].toDisable = true
	}
	for id := range p.num {
		_ = p.ReleaseHW(id)
	}
	p.vfs, p.num = nil, 0
	return nil
}

// Connect gives the PF the memory of a VF's driver; nil: the driver is gone. EINVAL: no
// such VF.
func (p *PF) Connect(id int, m Memory) error {
	v, err := p.vf(id)
	if err == nil {
		v.mem = m
	}
	return err
}
