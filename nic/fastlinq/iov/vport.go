package iov

import (
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
)

// updateParams are what a request or a policy changes of a vport.
type updateParams = l2.UpdateParams

// update changes the vport.
func (v *vf) update(p updateParams) error {
	p.Vport = v.vportID
	return v.pf.cfg.Function.VportUpdate(v.id, p, nil)
}

func (v *vf) onVportStart(q *tlv.VportStartRequest, _ *message) answer {
	mtu := int(q.MTU)
	if v.vport.started || mtu < l2.MinMTU || mtu > l2.MaxMTU || q.TPAMode > uint32(l2.TPAGRO) {
		return just(tlv.Failure)
	}
	if v.board.Valid&tlv.UntaggedDefaultForced == 0 {
		v.board.OnlyUntagged = q.OnlyUntagged
		v.board.Valid |= tlv.UntaggedDefault
	}
	v.wish.removeVLAN = q.RemoveInnerVLAN != 0
	err := v.pf.cfg.Function.VportStart(v.id, l2.StartParams{
		Vport: v.vportID, MTU: mtu, TPA: l2.TPAMode(q.TPAMode), RemoveInnerVLAN: v.wish.removeVLAN, TxSwitching: true,
		OnlyUntagged: v.board.OnlyUntagged != 0, CheckMAC: !v.trusted,
	})
	if err != nil {
		return just(tlv.Failure)
	}
	v.vport = vport{started: true, mtu: mtu}
	v.state = Enabled
	v.pf.cfg.Function.Interrupts(v.id, true)
	return done(v.changed(v.applyAll()))
}

// onVportTeardown stops the vport. A driver that leaves queues open is not to be trusted
// any more.
func (v *vf) onVportTeardown(*message) answer {
	if !v.vport.started {
		return just(tlv.Failure)
	}
	for q := range v.zones {
		if len(v.zones[q]) > 0 {
			v.shutOut("VPORT_TEARDOWN with open queues")
			return just(tlv.Malicious)
		}
	}
	if v.pf.cfg.Function.VportStop(v.id, v.vportID) != nil {
		return just(tlv.Failure)
	}
	v.vport, v.wish = vport{}, wish{address: v.wish.address}
	return done(v.changed(nil))
}

// onMTU changes the MTU; the vport is idle meanwhile.
func (v *vf) onMTU(q *tlv.MTURequest, _ *message) answer {
	mtu := int(q.MTU)
	if !v.vport.started || mtu < l2.MinMTU || mtu > l2.MaxMTU {
		return just(tlv.Failure)
	}
	off := false
	if v.update(updateParams{RxActive: &off, TxActive: &off}) != nil {
		return just(tlv.Failure)
	}
	err := v.update(updateParams{MTU: &mtu})
	if err == nil {
		v.vport.mtu = mtu
	}
	if e := v.update(updateParams{RxActive: &v.vport.rxActive, TxActive: &v.vport.txActive}); err == nil {
		err = e
	}
	return done(v.changed(err))
}

// part is a TLV of VPORT_UPDATE: what it changes, or false if it is refused.
type part struct {
	typ  tlv.Type
	take func(u *change, b []byte) bool
}

// change is what a VPORT_UPDATE comes to: it takes effect only as a whole.
type change struct {
	v *vf
	updateParams
	rss                *RSS
	wish               wish
	rxActive, txActive bool
}

// parts are in the order in which the reply answers them.
var parts = [...]part{
	{tlv.UpdateActivate, takes((*change).activate)},
	{tlv.UpdateVLANStrip, takes((*change).vlanStrip)},
	{tlv.UpdateTxSwitch, takes((*change).txSwitch)},
	{tlv.UpdateMcast, (*change).mcast},
	{tlv.UpdateAcceptParam, takes((*change).acceptParam)},
	{tlv.UpdateRSS, takes((*change).setRSS)},
	{tlv.UpdateAcceptAnyVLAN, takes((*change).acceptAnyVLAN)},
	{tlv.UpdateSGETPA, takes((*change).sgeTPA)},
}

// takes is for a part with structure Q. One that is too short is refused.
func takes[Q any](do func(*change, *Q) bool) func(*change, []byte) bool {
	return func(u *change, b []byte) bool {
		var q Q
		return tlv.Decode(b, &q) == nil && do(u, &q)
	}
}

// onVportUpdate changes the vport by the parts that it knows and that are not refused,
// and answers each that it knows.
func (v *vf) onVportUpdate(m *message) answer {
	if !v.vport.started {
		return just(tlv.Failure)
	}
	u := change{v: v, wish: v.wish, rxActive: v.vport.rxActive, txActive: v.vport.txActive}
	var replies []*tlv.Reply
	accepted := 0
	for _, p := range &parts {
		b := m.find(p.typ)
		if b == nil {
			continue
		}
		r := &tlv.Reply{Header: tlv.Header{Type: p.typ, Length: tlv.ReplyLen}, Status: tlv.NotSupported}
		if p.take(&u, b) {
			accepted++
			r.Status = tlv.Waiting
		}
		replies = append(replies, r)
	}
	a := just(tlv.NotSupported)
	if accepted > 0 {
		a = done(v.commit(&u))
	}
	for _, r := range replies {
		if r.Status == tlv.Waiting {
			r.Status = a.status
		}
		a.more = append(a.more, r)
	}
	return a
}

// commit has a change take effect.
func (v *vf) commit(u *change) error {
	u.Vport = v.vportID
	if err := v.pf.cfg.Function.VportUpdate(v.id, u.updateParams, u.rss); err != nil {
		return err
	}
	v.wish, v.vport.rxActive, v.vport.txActive = u.wish, u.rxActive, u.txActive
	if u.rss != nil {
		v.vport.keepRSS(u.rss)
	}
	return nil
}

// activate starts and stops the passing of frames. To receive takes a queue.
func (u *change) activate(q *tlv.Activate) bool {
	if q.UpdateRx != 0 && q.Rx != 0 && !u.v.receives() {
		return false
	}
	if q.UpdateRx != 0 {
		u.rxActive = q.Rx != 0
		u.RxActive = &u.rxActive
	}
	if q.UpdateTx != 0 {
		u.txActive = q.Tx != 0
		u.TxActive = &u.txActive
	}
	return true
}

// vlanStrip: while a VLAN is forced its tag is stripped in any case.
func (u *change) vlanStrip(q *tlv.Flag) bool {
	u.wish.removeVLAN = q.On != 0
	if u.v.policy.VLAN == 0 {
		u.InnerVLANRemoval = &u.wish.removeVLAN
	}
	return true
}

func (u *change) txSwitch(q *tlv.Flag) bool {
	on := q.On != 0
	u.TxSwitching = &on
	return true
}

// mcast takes the bins of newer drivers and of older ones: each number has 32 bins.
func (u *change) mcast(b []byte) bool {
	var q tlv.Mcast
	var short tlv.McastShort
	switch {
	case tlv.Decode(b, &q) == nil:
	case tlv.Decode(b, &short) == nil:
		copy(q.Bins[:], short.Bins[:])
	default:
		return false
	}
	u.Bins = new(l2.Bins)
	for i := range u.Bins {
		u.Bins[i] = uint32(q.Bins[i/2] >> (32 * (i % 2)))
	}
	return true
}

// acceptParam keeps what the VF asks for. One that is not trusted gets less, and is not
// told.
func (u *change) acceptParam(q *tlv.AcceptParam) bool {
	u.Accept = &l2.AcceptParams{UpdateRx: q.UpdateRx != 0, UpdateTx: q.UpdateTx != 0, Rx: u.v.accept(l2.Accept(q.Rx)),
		Tx: u.v.accept(l2.Accept(q.Tx))}
	if q.UpdateRx != 0 {
		u.wish.rxAccept = l2.Accept(q.Rx)
	}
	if q.UpdateTx != 0 {
		u.wish.txAccept = l2.Accept(q.Tx)
	}
	return true
}

func (u *change) acceptAnyVLAN(q *tlv.AcceptAnyVLAN) bool {
	if q.Update != 0 {
		u.wish.anyVLAN = q.On != 0
		on := u.v.anyVLAN(u.wish.anyVLAN)
		u.AcceptAnyVLAN = &on
	}
	return true
}

// setRSS refuses a table with a queue that is not active, or what no RSS engine knows.
func (u *change) setRSS(q *tlv.RSS) bool {
	r := &RSS{RSSParams: l2.RSSParams{
		Engine: u.v.rssID, UpdateConfig: q.Flags&tlv.RSSConfig != 0, UpdateCaps: q.Flags&tlv.RSSCaps != 0,
		UpdateTable: q.Flags&tlv.RSSTable != 0, UpdateKey: q.Flags&tlv.RSSKey != 0, Enable: q.Enable != 0,
		Hashes: l2.HashTypes(q.Caps), TableLog: int(q.TableLog), Key: q.Key,
	}}
	if r.UpdateCaps && q.Caps&^uint8(l2.DefaultHash|l2.HashIPv4UDP|l2.HashIPv6UDP) != 0 {
		return false
	}
	if r.UpdateTable {
		if q.TableLog > 7 {
			return false
		}
		for i := range 1 << q.TableLog {
			if !u.v.active(q.Table[i], false) {
				return false
			}
			r.Queues[i] = u.v.rxIDs[q.Table[i]]
		}
	}
	u.rss = r
	return true
}

func (u *change) sgeTPA(q *tlv.SGETPA) bool {
	if q.MaxAggregations > 64 {
		return false
	}
	if q.Update&(tlv.UpdateTPAEnable|tlv.UpdateTPAParams) == 0 {
		return true
	}
	u.TPA = &l2.TPAParams{
		IPv4: q.Flags&tlv.TPAIPv4 != 0, IPv6: q.Flags&tlv.TPAIPv6 != 0, MaxBuffersPerCQE: int(q.BuffersPerCQE),
		MaxAggregations: int(q.MaxAggregations), MaxSize: int(q.MaxSize), MinStart: int(q.MinStart),
		MinContinue: int(q.MinContinue),
	}
	return true
}

// onTunnels: whether a VF may change what tunnels the device recognizes is the hook's
// decision. The answer is what it recognizes.
func (v *vf) onTunnels(q *tlv.TunnRequest, _ *message) answer {
	fn, s := v.pf.cfg.Function, tlv.Success
	if h := v.pf.cfg.Hooks.Tunnels; h != nil {
		want, err := h(v.id, q.Want(fn.Tunnels()))
		if err == nil && want != fn.Tunnels() {
			if err = fn.SetTunnels(want); err == nil {
				v.pf.Post()
			}
		}
		if err != nil {
			s = tlv.Failure
		}
	}
	return answer{status: s, first: tlv.Tunnels(fn.Tunnels())}
}
