package fastlinq

import (
	"errors"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/ll2"
)

// giveShares has the vport of each engine know what the function has there of what
// the driver core has been given.
func (d *Device) giveShares() (err error) {
	for e, h := range d.core.dev.Hwfns {
		d.onVport(e, func(fn *l2.Function) {
			err = errors.Join(err, fn.SetShare(l2.Share{
				Vports: h.Share(ecore.VPort).Num, Queues: d.l2Queues(h.Share(ecore.L2Queue).Num),
				MACs: h.Share(ecore.MAC).Num, VLANs: h.Share(ecore.VLAN).Num,
				RSSEngines: h.Share(ecore.RSSEng).Num, Rules: fn.Share().Rules}))
		})
	}
	return err
}

// l2Queues is how many queue pairs the function can start: it has connection ids for
// no more than there are queues of the host TAP.
func (d *Device) l2Queues(share int) int { return min(share, d.queuePairs()) }

// share is what a function has of a resource, and uses; nil: nothing takes any.
type share struct {
	of    ecore.Resource
	limit int
	used  *int
}

// shares are those of a hwfn, each as it is held.
func (d display) shares(h *ecore.HwfnInfo) (list []share) {
	var used l2.Share
	d.onVport(h.Hwfn, func(fn *l2.Function) { used = fn.Used() })
	blocks := d.interrupts.dev.Hwfns[h.Hwfn].Num()
	if h.Hwfn == 1 {
		d.cmt.withSecond(func(e *SecondEngine) { blocks = e.irq.dev.Hwfns[1].Num() })
	}
	uses := map[ecore.Resource]int{
		ecore.L2Queue: used.Queues, ecore.VPort: used.Vports, ecore.RSSEng: used.RSSEngines, ecore.MAC: used.MACs,
		ecore.VLAN: used.VLANs, ecore.ILT: h.ILTUsed, ecore.SB: 1 + blocks.Cnt - blocks.Free,
		ecore.CNQRAM: 0, ecore.LL2Queue: 0,
	}
	if h.Hwfn == 0 && d.contexts.on {
		uses[ecore.CNQRAM] = len(d.verbs.Notifications())
	}
	if h.Hwfn == 0 && d.light.manager != nil {
		uses[ecore.LL2Queue] = len(d.light.manager.Conns())
	}
	for r, s := range h.Shares {
		one := share{of: ecore.Resource(r), limit: s.Num}
		switch one.of {
		case ecore.L2Queue:
			one.limit = d.l2Queues(s.Num)
		case ecore.LL2Queue:
			one.limit = min(s.Num, ll2.MaxConns)
		case ecore.SB: // those that have a vector, and the slowpath's
			one.limit = min(s.Num, 1+blocks.Cnt)
		}
		if n, ok := uses[one.of]; ok {
			one.used = new(n)
		}
		list = append(list, one)
	}
	return list
}
