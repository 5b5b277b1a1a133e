package l2

import (
	"slices"

	"tapir/nic/fastlinq/status"
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// vport is a set of queues with one classification.
type vport struct {
	id     int
	start  StartParams
	active [2]bool // by direction: receiving, transmitting
	accept [2]Accept
	bins   Bins

	anyVLAN      bool
	filters      []filter
	vlanRules    [2]int // VLAN filters and pairs, by direction
	innerRemoval bool
	silent       bool
	defaultVLAN  DefaultVLAN
	txSwitching  bool
	antiSpoofing bool
	checkMAC     bool
	checkType    bool
	mtu          int
	rss          rss
	checksum     bool
	tpa          tpa

	rxq   []*RxQueue // in order of their ids
	txq   []*TxQueue
	stats VportStats
	base  Statistics
	drops [2]frame.Drops

	pacing  *pacing.Node
	minRate int // Mb/s; 0: not configured
}

// Errors says which mistakes in transmitted frames the firmware asserts on;
// the others are dropped.
type Errors struct {
	IllegalVLANMode      bool // a tag to insert, which is none
	IllegalInbandMode    bool // a tag in the frame, where the default VLAN allows none
	VLANInsertWithInband bool // a tag to insert into a frame that has one
	SmallPacket          bool // no octet behind the header
	BigPacket            bool // longer than the MTU allows
	AntiSpoofing         bool // the source address of another station
	ControlFrame         bool // of a protocol that is the port's own
}

// StartParams are the parameters of VportStart.
type StartParams struct {
	Vport           int
	MTU             int // octets behind the Ethernet header
	TPA             TPAMode
	RemoveInnerVLAN bool
	TxSwitching     bool // frames for other vports of the function go there
	OnlyUntagged    bool // tagged frames are dropped while there is no VLAN filter
	DropTTL0        bool
	CheckMAC        bool // frames to the addresses of link protocols are not sent
	CheckEtherType  bool // nor those with their EtherTypes
	Errors          Errors
}

// VportStart starts a vport. It is not active, has no queue and no filter, and
// accepts nothing. INVAL for an id beyond the share, or an impossible MTU or TPA
// mode; the firmware asserts if it is started.
func (fn *Function) VportStart(p StartParams) error {
	if p.Vport < 0 || p.Vport >= len(fn.vports) {
		return status.Inval.Errorf("vport %d: the function has %d", p.Vport, len(fn.vports))
	}
	if err := checkMTU(p.MTU); err != nil {
		return err
	}
	switch {
	case p.TPA > TPAGRO:
		return status.Inval.Errorf("vport %d: %v", p.Vport, p.TPA)
	case fn.vports[p.Vport] != nil:
		return fn.assert("vport %d is started already", p.Vport)
	}
	v := &vport{
		id: p.Vport, start: p, mtu: p.MTU, innerRemoval: p.RemoveInnerVLAN, txSwitching: p.TxSwitching,
		checkMAC: p.CheckMAC, checkType: p.CheckEtherType,
		pacing: fn.pacing.Child(false),
	}
	fn.vports[v.id] = v
	fn.list()
	return nil
}

// VportStop stops a vport: its filters are gone, and nothing passes any more.
// The firmware asserts while it has queues.
func (fn *Function) VportStop(id int) error {
	v, err := fn.vport(id)
	if err != nil {
		return err
	}
	if n := len(v.rxq) + len(v.txq); n > 0 {
		return fn.assert("vport %d stops with %d queues", id, n)
	}
	fn.removeFilters(v, func(*filter) bool { return true }, Both)
	fn.vports[id] = nil
	v.pacing.Remove()
	fn.list()
	return nil
}

// Reset is the end of the function in the chip, whatever its driver has stopped:
// frames that wait are lost, and nothing passes any more.
func (fn *Function) Reset() {
	for len(fn.txq) > 0 {
		_ = fn.TxQueueStop(fn.txq[0])
	}
	for i := range fn.zones {
		if q := fn.zones[i].rx; q != nil {
			_ = fn.RxQueueStop(q)
		}
	}
	for len(fn.started) > 0 {
		_ = fn.VportStop(fn.started[0].id)
	}
	fn.rules, fn.tunnels, fn.tunnelled, fn.inside = rules{}, TunnelParams{}, false, false
}

// list brings started up to date.
func (fn *Function) list() {
	fn.started = fn.started[:0]
	for _, v := range fn.vports {
		if v != nil {
			fn.started = append(fn.started, v)
		}
	}
	fn.countStrangers()
	fn.weigh()
}

// countStrangers counts the vports that take frames for stations without a filter.
func (fn *Function) countStrangers() {
	fn.strangers, fn.foreign = 0, [2]uint64{noStation, noStation}
	for _, v := range fn.started {
		if (v.accept[rx] | v.accept[tx]).any(UcastUnmatched) {
			fn.strangers++
		}
	}
}

// DefaultVLAN is the VLAN of frames that have no tag: its tag is put into them
// on the way out and reported on the way in.
type DefaultVLAN struct {
	Enable   bool
	VLAN     uint16 // 1 to 4095
	Priority uint8  // of the tag, 0 to 7
	Only     bool   // frames that have a tag are not sent
}

// UpdateParams are the parameters of VportUpdate: nil means unchanged.
type UpdateParams struct {
	Vport             int
	RxActive          *bool
	TxActive          *bool
	InnerVLANRemoval  *bool // tags are removed and reported
	SilentVLANRemoval *bool // tags are removed and not reported
	DefaultVLAN       *DefaultVLAN
	TxSwitching       *bool
	AntiSpoofing      *bool
	AcceptAnyVLAN     *bool
	Bins              *Bins // of multicast addresses
	RSS               *RSSParams
	TPA               *TPAParams
	RxChecksum        *bool // those of TCP and UDP are verified
	Accept            *AcceptParams
	MTU               *int // only while the vport is not active
	CheckMAC          *bool
	CheckEtherType    *bool
}

// VportUpdate changes a vport: all of it, or nothing if something is refused.
// INVAL for values out of range; the firmware asserts when receiving begins
// without a queue, and when the MTU changes while frames pass.
func (fn *Function) VportUpdate(p UpdateParams) error {
	v, err := fn.vport(p.Vport)
	if err != nil {
		return err
	}
	if err := fn.checkUpdate(v, &p); err != nil {
		return err
	}
	if p.RSS != nil {
		v.rss.update(p.RSS)
	}
	if p.Accept != nil {
		v.setAccept(p.Accept)
		fn.countStrangers()
	}
	if p.TPA != nil {
		fn.flush(v)
		v.tpa.update(p.TPA, v.start.TPA)
	}
	if p.RxActive != nil && !*p.RxActive {
		fn.flush(v)
	}
	apply(&v.checksum, p.RxChecksum)
	apply(&v.active[rx], p.RxActive)
	apply(&v.active[tx], p.TxActive)
	apply(&v.innerRemoval, p.InnerVLANRemoval)
	apply(&v.silent, p.SilentVLANRemoval)
	apply(&v.defaultVLAN, p.DefaultVLAN)
	apply(&v.txSwitching, p.TxSwitching)
	apply(&v.antiSpoofing, p.AntiSpoofing)
	apply(&v.anyVLAN, p.AcceptAnyVLAN)
	apply(&v.bins, p.Bins)
	apply(&v.mtu, p.MTU)
	apply(&v.checkMAC, p.CheckMAC)
	apply(&v.checkType, p.CheckEtherType)
	return nil
}

func apply[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (fn *Function) checkUpdate(v *vport, p *UpdateParams) error {
	if p.MTU != nil {
		if err := checkMTU(*p.MTU); err != nil {
			return err
		}
		if *p.MTU != v.mtu && (stays(v.active[rx], p.RxActive) || stays(v.active[tx], p.TxActive)) {
			return fn.assert("vport %d gets another MTU while it is active", v.id)
		}
	}
	if d := p.DefaultVLAN; d != nil && d.Enable && (d.VLAN == 0 || d.VLAN > maxVLAN || d.Priority > 7) {
		return status.Inval.Errorf("vport %d: default VLAN %d, priority %d", v.id, d.VLAN, d.Priority)
	}
	if p.RSS != nil {
		if err := fn.checkRSS(v, p.RSS); err != nil {
			return err
		}
	}
	if p.TPA != nil {
		if err := p.TPA.check(); err != nil {
			return err
		}
	}
	if p.RxActive != nil && *p.RxActive && len(v.rxq) == 0 {
		return fn.assert("vport %d is to receive without a queue", v.id)
	}
	return nil
}

// stays tells whether what was on, or is to be, is on.
func stays(was bool, next *bool) bool { return was || next != nil && *next }

// AcceptParams are what a vport is to accept from the port and from other vports.
type AcceptParams struct {
	UpdateRx, UpdateTx bool
	Rx, Tx             Accept
}

func (v *vport) setAccept(p *AcceptParams) {
	if p.UpdateRx {
		v.accept[rx] = p.Rx
	}
	if p.UpdateTx {
		v.accept[tx] = p.Tx
	}
}

// FilterAccept sets what a vport accepts, and, unless anyVLAN is nil, whether
// frames of all VLANs pass.
func (fn *Function) FilterAccept(id int, p AcceptParams, anyVLAN *bool) error {
	return fn.VportUpdate(UpdateParams{Vport: id, Accept: &p, AcceptAnyVLAN: anyVLAN})
}

// attach keeps queues in order of their ids.
func (v *vport) attach(q *RxQueue) {
	at, _ := slices.BinarySearchFunc(v.rxq, q, func(a, b *RxQueue) int { return a.ID - b.ID })
	v.rxq = slices.Insert(v.rxq, at, q)
}

func (v *vport) detach(q *RxQueue) {
	v.rxq = slices.DeleteFunc(v.rxq, func(r *RxQueue) bool { return r == q })
	v.rss.forget(q)
	if len(v.rxq) == 0 {
		v.active[rx] = false
	}
}
