package iov

import (
	"cmp"
	"errors"
	"slices"
	"syscall"

	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
)

// What is only for those that are trusted: frames for others.
const unmatched = l2.UcastUnmatched | l2.McastUnmatched

// accept is what of the modes that the VF asks for is in force.
func (v *vf) accept(a l2.Accept) l2.Accept {
	if !v.trusted {
		a &^= unmatched
	}
	return a
}

// anyVLAN tells whether the VF receives all VLANs if it asks for them.
func (v *vf) anyVLAN(on bool) bool { return on && (v.policy.VLAN == 0 || v.trusted) }

// changed tells of a change, and returns err.
func (v *vf) changed(err error) error {
	if h := v.pf.cfg.Hooks.Changed; h != nil {
		h(v.id)
	}
	return err
}

// applyAll brings a vport that has been started to the policies.
func (v *vf) applyAll() error {
	return cmp.Or(v.applyMAC(), v.applyVLAN(), v.applySpoofchk(), v.applyRates())
}

// forcedMAC is the address that the VF has to use; zero: none.
func (v *vf) forcedMAC() ether.Addr {
	if v.trusted {
		return ether.Addr{}
	}
	return v.policy.MAC
}

// applyMAC tells the VF of the address that it has to use, or may, and sets its filter.
func (v *vf) applyMAC() error {
	v.suggested = v.policy.MAC
	return cmp.Or(v.sync(), v.post())
}

// applyVLAN puts what the VF sends and receives into its VLAN, whose tags it does not
// see, or ends that.
func (v *vf) applyVLAN() error {
	vlan := v.policy.VLAN
	var err error
	if v.vport.started {
		on := vlan != 0
		remove, all := on || v.wish.removeVLAN, v.anyVLAN(v.wish.anyVLAN)
		err = v.update(updateParams{
			DefaultVLAN:      &l2.DefaultVLAN{Enable: on, VLAN: vlan, Priority: v.policy.QoS, Only: on},
			InnerVLANRemoval: &remove, SilentVLANRemoval: &on, AcceptAnyVLAN: &all,
		})
	}
	return cmp.Or(err, v.sync(), v.post())
}

func (v *vf) applySpoofchk() error {
	if !v.vport.started {
		return nil
	}
	on := v.policy.SpoofChk
	return v.update(updateParams{AntiSpoofing: &on})
}

// applyTrust brings modes, addresses and checks to whether the VF is trusted.
func (v *vf) applyTrust() error {
	v.trusted = v.policy.Trust
	var err error
	if v.vport.started {
		check, all := !v.trusted, v.anyVLAN(v.wish.anyVLAN)
		err = v.update(updateParams{CheckMAC: &check, AcceptAnyVLAN: &all, Accept: &l2.AcceptParams{UpdateRx: true,
			UpdateTx: true, Rx: v.accept(v.wish.rxAccept), Tx: v.accept(v.wish.txAccept)}})
	}
	return cmp.Or(err, v.applyMAC())
}

// applyRates sets the rates of the vport. What the VF is told of the link follows them.
func (v *vf) applyRates() error {
	if !v.vport.started {
		return v.post()
	}
	fn := v.pf.cfg.Function
	return cmp.Or(fn.SetRate(v.id, v.vportID, v.policy.MaxRate), fn.SetMinRate(v.id, v.vportID, v.policy.MinRate),
		v.post())
}

// desired are the filters that the vport is to have: those of the VF, but for what is
// forced. Before the VF has an address of its own, a suggested one does.
func (v *vf) desired() (list []filter) {
	mac, vlan := v.forcedMAC(), v.policy.VLAN
	own := false
	for _, f := range v.wish.filters {
		switch {
		case f.typ != l2.FilterMAC && vlan != 0, f.typ != l2.FilterVLAN && !mac.IsZero():
		default:
			list = append(list, f)
			own = own || f.typ != l2.FilterVLAN
		}
	}
	if mac.IsZero() && !own {
		mac = v.policy.MAC
	}
	if !mac.IsZero() {
		list = append(list, filter{typ: l2.FilterMAC, mac: mac})
	}
	if vlan != 0 {
		list = append(list, filter{typ: l2.FilterVLAN, vlan: vlan})
	}
	return list
}

// sync gives the vport the filters that it is to have: first those that go are removed.
func (v *vf) sync() error {
	if !v.vport.started {
		return nil
	}
	want := v.desired()
	for i := len(v.vport.filters) - 1; i >= 0; i-- {
		f := v.vport.filters[i]
		if slices.Contains(want, f) {
			continue
		}
		if err := v.filter(l2.FilterRemove, f); err != nil && !errors.Is(err, status.NoEnt) {
			return err
		}
		v.vport.filters = slices.Delete(v.vport.filters, i, i+1)
	}
	for _, f := range want {
		if slices.Contains(v.vport.filters, f) {
			continue
		}
		if err := v.filter(l2.FilterAdd, f); err != nil && !errors.Is(err, status.Exists) {
			return err
		}
		v.vport.filters = append(v.vport.filters, f)
	}
	return nil
}

func (v *vf) filter(op l2.Opcode, f filter) error {
	return v.pf.cfg.Function.FilterUcast(v.id, v.ucast(op, f))
}

func (v *vf) ucast(op l2.Opcode, f filter) l2.UcastParams {
	return l2.UcastParams{Op: op, Type: f.typ, Sides: l2.Both, Add: v.vportID, Remove: v.vportID, MAC: f.mac,
		VLAN: f.vlan}
}

// onUcast changes the filters of the VF.
func (v *vf) onUcast(q *tlv.UcastRequest, _ *message) answer {
	op, f := l2.Opcode(q.Op), filter{typ: l2.FilterType(q.Type)}
	if !v.vport.started || f.typ > l2.FilterMACVLAN || op > l2.FilterFlush || op == l2.FilterMove || q.VLAN > 4095 {
		return just(tlv.Failure)
	}
	if f.typ != l2.FilterVLAN {
		f.mac = q.MAC
	}
	if f.typ != l2.FilterMAC {
		f.vlan = q.VLAN
	}
	adds := op == l2.FilterAdd || op == l2.FilterReplace
	switch mac := v.forcedMAC(); {
	case adds && f.typ != l2.FilterVLAN && (f.mac.IsZero() || f.mac.IsMulticast()):
		return just(tlv.Failure)
	case adds && f.typ != l2.FilterMAC && v.policy.VLAN != 0:
		return just(tlv.Forced)
	case f.typ != l2.FilterVLAN && !mac.IsZero() && (!adds || f.mac != mac):
		return just(tlv.Forced)
	}
	wish, ok := v.wish.with(op, f)
	if !ok {
		return just(tlv.Success) // as the firmware does when a table is full
	}
	if h := v.pf.cfg.Hooks.CheckUcast; h != nil {
		if err := h(v.id, v.ucast(op, f)); err != nil {
			if errors.Is(err, status.Exists) {
				return just(tlv.Success)
			}
			return just(tlv.Failure)
		}
	}
	was := v.wish
	if v.wish = wish; adds && f.typ != l2.FilterVLAN {
		v.wish.address = f.mac
	}
	if v.sync() != nil {
		v.wish = was
		_ = v.sync()
		return just(tlv.Failure)
	}
	if v.wish.address == was.address {
		return just(tlv.Success)
	}
	return done(v.changed(v.tellAddress()))
}

// with is the wish after a filter command; false: the table of the VF is full, or what
// is to be removed is not there.
func (w wish) with(op l2.Opcode, f filter) (wish, bool) {
	has := slices.Contains(w.filters, f)
	filters := slices.Clone(w.filters)
	switch op {
	case l2.FilterRemove:
		w.filters = slices.DeleteFunc(filters, func(g filter) bool { return g == f })
		return w, has
	case l2.FilterFlush, l2.FilterReplace:
		filters = slices.DeleteFunc(filters, func(g filter) bool { return g.typ == f.typ })
		has = false
	}
	if op != l2.FilterFlush && !has {
		filters = append(filters, f)
	}
	w.filters = filters
	macs, vlans := 0, 0
	for _, g := range filters {
		if g.typ != l2.FilterVLAN {
			macs++
		}
		if g.typ != l2.FilterMAC {
			vlans++
		}
	}
	return w, macs <= MaxMACs && vlans <= MaxVLANs+1
}

// tellAddress shows the address that a trusted VF has chosen on its bulletin board.
func (v *vf) tellAddress() error {
	if !v.trusted {
		return nil
	}
	v.suggested = v.wish.address
	return v.post()
}

// onMAC keeps the address that a trusted VF says it uses. Others have theirs by their
// filters.
func (v *vf) onMAC(q *tlv.MACRequest, _ *message) answer {
	switch {
	case !v.trusted:
		return just(tlv.NotSupported)
	case q.MAC.IsZero() || q.MAC.IsMulticast():
		return just(tlv.Failure)
	}
	v.wish.address = q.MAC
	return done(v.changed(v.tellAddress()))
}

// RSSConfig is the RSS table and key of a VF, with queues by their numbers in the VF.
// EPERM: query_rss is off; EINVAL: no such VF, or it has none.
func (p *PF) RSSConfig(id int) (table []int, key [l2.KeyLen]byte, err error) {
	v, err := p.vf(id)
	switch {
	case err != nil:
		return nil, key, err
	case !v.policy.QueryRSS:
		return nil, key, errno(syscall.EPERM, "VF %d: query_rss is off", id)
	case v.vport.rss == nil:
		return nil, key, errno(syscall.EINVAL, "VF %d has no RSS", id)
	}
	r := v.vport.rss
	for _, q := range r.Queues[:1<<r.TableLog] {
		table = append(table, slices.Index(v.rxIDs[:v.queues], q))
	}
	return table, r.Key, nil
}

// keepRSS merges what changes of the RSS.
func (p *vport) keepRSS(r *RSS) {
	if p.rss == nil {
		p.rss = new(RSS)
	}
	k := p.rss
	if r.UpdateConfig {
		k.Enable = r.Enable
	}
	if r.UpdateCaps {
		k.Hashes = r.Hashes
	}
	if r.UpdateTable {
		k.TableLog, k.Queues = r.TableLog, r.Queues
	}
	if r.UpdateKey {
		k.Key = r.Key
	}
}
