// Package dcbx negotiates Data Center Bridging with the other end of a link:
// IEEE DCBX (802.1Q-2018 clause 38) and CEE DCBX 1.01, over the LLDP agent of the
// nearest bridge. A Machine is a pure function of its administrative values and of
// what the neighbors tell.
package dcbx

import (
	"bytes"
	"math/bits"
	"slices"

	"tapir/nic/dcb"
	"tapir/wire/ether"
	"tapir/wire/lldp"
)

// Version is a version of DCBX.
type Version uint8

// The versions. Dynamic begins with IEEE, and changes to CEE if the neighbor
// knows only that.
const (
	Disabled Version = iota
	IEEE
	CEE
	Dynamic
)

// String returns the name of the version in lower case.
func (v Version) String() string { return [...]string{"disabled", "ieee", "cee", "dynamic"}[v&3] }

// MaxApps is the size of the application table.
const MaxApps = 32

// Values are what one side wants or has. Apps has the selectors of IEEE DCBX; one
// of CEE for a port has lldp.SelPort.
type Values struct {
	dcb.Config
	CBS    bool
	MaxTCs uint8 // traffic classes, 1 to 8
	PFCCap uint8 // priorities that can have PFC at a time, 0 to 8
	MBC    bool
	Apps   []lldp.AppEntry

	ETS, Pause, App Feature
}

// Feature is the state of ETS, PFC or the application table.
type Feature struct {
	Enabled bool // it is told, or it came from the neighbor
	Willing bool // it takes the other side's values
	Error   bool // the two sides do not fit, or the values cannot be used
}

// Equal tells whether two sets of values are the same.
func (v *Values) Equal(o *Values) bool {
	a, b := *v, *o
	a.Apps, b.Apps = nil, nil
	return slices.Equal(v.Apps, o.Apps) && a.Config == b.Config && a.CBS == b.CBS && a.MaxTCs == b.MaxTCs &&
		a.PFCCap == b.PFCCap && a.MBC == b.MBC && a.ETS == b.ETS && a.Pause == b.Pause && a.App == b.App
}

// Peer is a neighbor.
type Peer struct {
	MAC ether.Addr
	PDU *lldp.PDU
}

// Machine is DCBX of a port.
type Machine struct {
	mac     ether.Addr
	version Version
	static  bool
	admin   Values

	active    Version // with Dynamic, the version in use
	remote    *Values // nil: there is none
	oper      Values
	tooMany   bool
	seq, ack  uint32 // of CEE
	synced    bool
	advertise lldp.CEE  // of the last configuration that has a number
	said      *lldp.PDU // what News has last compared with; nil: nothing
}

// New returns a machine that is off, for a port with a station address.
func New(mac ether.Addr) *Machine { return &Machine{mac: mac} }

// Set sets the version and the administrative values; static: they are used as
// they are, and the neighbor's only shown. Update must follow.
func (m *Machine) Set(mac ether.Addr, v Version, static bool, admin Values) {
	m.mac, m.version, m.static, m.admin = mac, v, static, admin
}

// Version is the version in use; Disabled: none.
func (m *Machine) Version() Version { return m.active }

// Operational is what the port acts on, Remote what the neighbor has told, nil:
// there is none, or several. Both are borrowed.
func (m *Machine) Operational() *Values { return &m.oper }
func (m *Machine) Remote() *Values      { return m.remote }

// TooMany tells whether several neighbors have stopped the negotiation.
func (m *Machine) TooMany() bool { return m.tooMany }

// Synced tells whether the neighbor has acknowledged the configuration; of CEE.
func (m *Machine) Synced() bool { return m.synced }

// Update takes in what the neighbors with DCBX are.
func (m *Machine) Update(peers []Peer) {
	m.active, m.remote, m.tooMany, m.synced = m.version, nil, false, false
	peers = slices.DeleteFunc(slices.Clone(peers), func(p Peer) bool {
		d := p.PDU
		return d.ETS == nil && d.ETSRec == nil && d.PFC == nil && d.App == nil && d.CEE == nil
	})
	if m.active == Dynamic {
		m.active = IEEE
	}
	m.oper = m.admin
	if m.version == Disabled {
		return
	}
	switch len(peers) {
	case 0:
		return
	case 1:
	default:
		m.tooMany = true
		m.oper.ETS.Error, m.oper.Pause.Error, m.oper.App.Error = true, true, true
		return
	}
	p := &peers[0]
	d := p.PDU
	if m.version == Dynamic && d.CEE != nil && d.ETS == nil && d.ETSRec == nil && d.PFC == nil && d.App == nil {
		m.active = CEE
	}
	switch {
	case m.active == CEE && d.CEE != nil:
		m.updateCEE(d.CEE)
	case m.active == IEEE:
		m.updateIEEE(p)
	}
}

// updateIEEE resolves each feature by itself (802.1Q-2018 38.4).
func (m *Machine) updateIEEE(p *Peer) {
	r, own, d := &Values{MaxTCs: 8}, &m.admin, p.PDU
	m.remote = r
	if ets := d.ETS; ets != nil {
		r.Config, r.CBS, r.MaxTCs = config(ets), ets.CBS, ets.MaxTCs
		r.ETS = Feature{Enabled: true, Willing: ets.Willing}
	}
	if d.ETSRec != nil && own.ETS.Enabled && own.ETS.Willing && !m.static {
		m.adoptETS(config(d.ETSRec))
	}
	if d.PFC != nil {
		r.Config.PFC, r.PFCCap, r.MBC = d.PFC.Enabled, d.PFC.Cap, d.PFC.MBC
		r.Pause = Feature{Enabled: true, Willing: d.PFC.Willing}
		if own.Pause.Enabled && !m.static {
			adopt := own.Pause.Willing && (!r.Pause.Willing || slices.Compare(p.MAC[:], m.mac[:]) < 0)
			m.resolvePFC(adopt, !own.Pause.Willing && !r.Pause.Willing)
		}
	}
	if d.App != nil {
		r.Apps, r.App = d.App.Entries, Feature{Enabled: true}
		if own.App.Enabled && own.App.Willing && !m.static {
			m.adoptApps()
		}
	}
}

// config are the tables of ETS; a priority without a class has class 0.
func config(e *lldp.ETS) (c dcb.Config) {
	c.PrioTC, c.Weight = e.PrioTC, e.Weight
	for i := range c.PrioTC {
		c.TSA[i] = dcb.TSA(e.TSA[i])
		if c.PrioTC[i] >= dcb.Classes {
			c.PrioTC[i] = 0
		}
	}
	return c
}

// adoptETS takes tables over, unless the port cannot act on them.
func (m *Machine) adoptETS(c dcb.Config) {
	if c.Validate() != nil || c.TCs() > int(m.admin.MaxTCs) {
		m.oper.ETS.Error = true
		return
	}
	m.oper.PrioTC, m.oper.Weight, m.oper.TSA = c.PrioTC, c.Weight, c.TSA
}

// resolvePFC takes the neighbor's priorities over, or compares them.
func (m *Machine) resolvePFC(adopt, compare bool) {
	theirs := m.remote.Config.PFC
	switch {
	case !adopt:
		m.oper.Pause.Error = compare && theirs != m.admin.Config.PFC
	case bits.OnesCount8(theirs) > int(m.admin.PFCCap):
		m.oper.Pause.Error = true
	default:
		m.oper.Config.PFC = theirs
	}
}

// adoptApps takes the neighbor's table over, if it is not too long.
func (m *Machine) adoptApps() {
	if len(m.remote.Apps) > MaxApps {
		m.oper.App.Error = true
		return
	}
	m.oper.Apps = m.remote.Apps
}

// News tells whether AddTo adds something else than when News was last asked.
func (m *Machine) News() bool {
	told := &lldp.PDU{}
	m.AddTo(told)
	if m.said != nil && bytes.Equal(told.AppendTo(nil), m.said.AppendTo(nil)) {
		return false
	}
	m.said = told
	return true
}

// AddTo adds the TLVs of the version in use to an LLDPDU. ETS and PFC are told as
// they are in use, the recommendation and the applications as they are
// administered, so that two willing sides come to rest.
func (m *Machine) AddTo(p *lldp.PDU) {
	if m.version == Disabled {
		return
	}
	if m.active == CEE {
		p.CEE = m.cee()
		return
	}
	if a := &m.admin; a.ETS.Enabled {
		tsa := func(c *dcb.Config) (t [8]uint8) {
			for i := range t {
				t[i] = uint8(c.TSA[i])
			}
			return t
		}
		o := &m.oper
		p.ETS = &lldp.ETS{Willing: a.ETS.Willing, CBS: a.CBS, MaxTCs: a.MaxTCs, PrioTC: o.PrioTC, Weight: o.Weight,
			TSA: tsa(&o.Config)}
		p.ETSRec = &lldp.ETS{PrioTC: a.PrioTC, Weight: a.Weight, TSA: tsa(&a.Config)}
	}
	if a := &m.admin; a.Pause.Enabled {
		p.PFC = &lldp.PFC{Willing: a.Pause.Willing, MBC: a.MBC, Cap: a.PFCCap & 15, Enabled: m.oper.Config.PFC}
	}
	if a := &m.admin; a.App.Enabled && len(a.Apps) > 0 {
		p.App = &lldp.App{Entries: a.Apps}
	}
}
