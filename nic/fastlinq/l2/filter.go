package l2

import (
	"fmt"
	"math/bits"
	"slices"

	"tapir/nic/fastlinq/status"
	"tapir/wire/crc"
	"tapir/wire/enum"
	"tapir/wire/ether"
)

// Accept is what a vport accepts beyond and within its filters.
type Accept uint8

// The flags. A vport takes unicast frames that its filters match with
// UcastMatched, those that no filter of any vport matches with UcastUnmatched, and
// all with both; multicast frames of its bins with either of the two, and all
// with both.
const (
	AcceptNone     Accept = 1 << 0
	UcastMatched   Accept = 1 << 1
	UcastUnmatched Accept = 1 << 2
	McastMatched   Accept = 1 << 3
	McastUnmatched Accept = 1 << 4
	Bcast          Accept = 1 << 5
	AnyVNI         Accept = 1 << 6

	// The modes that drivers use.
	Regular  = UcastMatched | McastMatched | Bcast
	AllMulti = Regular | McastUnmatched
	Promisc  = AllMulti | UcastUnmatched
)

func (a Accept) all(flags Accept) bool { return a&flags == flags }
func (a Accept) any(flags Accept) bool { return a&flags != 0 }

const maxVLAN = 4095

// Bins are the 256 bins of multicast addresses.
type Bins [8]uint32

// Bin is that of an address: the low octet of its CRC-32C.
func Bin(a ether.Addr) int { return int(mcastCRC(a) & 0xff) }

// mcastCRC is the CRC-32C of the address and two zero octets: seed 0, not
// inverted, the register's high bit out first.
func mcastCRC(a ether.Addr) uint32 {
	b := [8]byte{a[0], a[1], a[2], a[3], a[4], a[5]}
	return bits.Reverse32(^crc.Update(^uint32(0), b[:]))
}

// Add puts an address into its bin.
func (b *Bins) Add(a ether.Addr) { n := Bin(a); b[n/32] |= 1 << (n % 32) }

// Has tells whether an address falls into a bin that is in use.
func (b *Bins) Has(a ether.Addr) bool { n := Bin(a); return b[n/32]&(1<<(n%32)) != 0 }

// FilterType says what a filter compares.
type FilterType uint8

// The types of filters that do not look into tunnels.
const (
	FilterMAC FilterType = iota
	FilterVLAN
	FilterMACVLAN
)

var filterNames = [...]string{"MAC", "VLAN", "MAC-VLAN"}

func (t FilterType) String() string {
	return enum.Name(filterNames[:], t, "FilterType(%d)")
}

// Opcode is what a filter command does.
type Opcode uint8

// The operations. Move takes a filter from one vport to another, Replace removes all of a type and
// adds one, Flush removes all of a type.
const (
	FilterAdd Opcode = iota
	FilterRemove
	FilterMove
	FilterReplace
	FilterFlush
)

// Sides are the directions that a filter holds for.
type Sides uint8

// The sides: frames of the port, frames of other vports.
const (
	Rx   Sides = 1 << rx
	Tx   Sides = 1 << tx
	Both       = Rx | Tx
)

// UcastParams are the parameters of FilterUcast.
type UcastParams struct {
	Op     Opcode
	Type   FilterType
	Sides  Sides
	Add    int // the vport that gets the filter
	Remove int // the vport that loses it
	MAC    ether.Addr
	VLAN   uint16 // 0: frames without a tag, or with a priority tag
	// AssertOnError: the firmware asserts instead of answering with a code.
	AssertOnError bool
}

// FilterCode is the firmware's answer to a filter command.
type FilterCode uint8

// The answers (eth_error_code). Bit 7 is set in those about transmitting.
const (
	FilterOK FilterCode = iota
	MACAddFull
	MACAddFullMTT2
	MACAddDupMTT2
	MACAddDupSTT2
	MACDelNOF
	MACDelNOFMTT2
	MACDelNOFSTT2
	MACAddZero
	VLANAddFull
	VLANAddDup
	VLANDelNOF
	VLANDelNOFTT1
	PairAddDup
	PairAddFull
	PairAddFullMAC
	PairDelNOF
	PairDelNOFTT1
	PairAddZero
	VNIAddFull
	VNIAddDup
	GFTUpdateFail
	codeTx FilterCode = 1 << 7
)

var codeNames = [...]string{
	"OK", "MAC_ADD_FAIL_FULL", "MAC_ADD_FAIL_FULL_MTT2", "MAC_ADD_FAIL_DUP_MTT2", "MAC_ADD_FAIL_DUP_STT2",
	"MAC_DEL_FAIL_NOF", "MAC_DEL_FAIL_NOF_MTT2", "MAC_DEL_FAIL_NOF_STT2", "MAC_ADD_FAIL_ZERO_MAC",
	"VLAN_ADD_FAIL_FULL", "VLAN_ADD_FAIL_DUP", "VLAN_DEL_FAIL_NOF", "VLAN_DEL_FAIL_NOF_TT1",
	"PAIR_ADD_FAIL_DUP", "PAIR_ADD_FAIL_FULL", "PAIR_ADD_FAIL_FULL_MAC", "PAIR_DEL_FAIL_NOF",
	"PAIR_DEL_FAIL_NOF_TT1", "PAIR_ADD_FAIL_ZERO_MAC", "VNI_ADD_FAIL_FULL", "VNI_ADD_FAIL_DUP", "GFT_UPDATE_FAIL",
}

func (c FilterCode) String() string {
	if n := int(c &^ codeTx); n < len(codeNames) {
		return codeNames[n]
	}
	return fmt.Sprintf("FilterCode(%d)", uint8(c))
}

// Error makes the code an error.
func (c FilterCode) Error() string { return "filter: " + c.String() }

// Unwrap is the status that belongs to the code.
func (c FilterCode) Unwrap() error {
	switch c &^ codeTx {
	case MACAddFull, MACAddFullMTT2, VLANAddFull, PairAddFull, PairAddFullMAC, VNIAddFull:
		return status.NoResources
	case MACAddDupMTT2, MACAddDupSTT2, VLANAddDup, PairAddDup, VNIAddDup:
		return status.Exists
	case MACDelNOF, MACDelNOFMTT2, MACDelNOFSTT2, VLANDelNOF, VLANDelNOFTT1, PairDelNOF, PairDelNOFTT1:
		return status.NoEnt
	}
	return status.Inval
}

// key is a filter in the form that frames are looked up in.
type key struct{ mac, tag uint64 }

func makeKey(t FilterType, mac ether.Addr, vlan uint16) key {
	m := uint64(mac[0])<<40 | uint64(mac[1])<<32 | uint64(mac[2])<<24 | uint64(mac[3])<<16 | uint64(mac[4])<<8 |
		uint64(mac[5])
	return key{m | uint64(t)<<56, uint64(vlan)}
}

// table tells, for one direction, which vports have a filter.
type table struct {
	by     map[key]set
	pairs  int
	recent [len(filterNames)]found // by type: frames come in flows
}

// found is what a look-up has found.
type found struct {
	valid bool
	key   key
	set   set
}

// find returns the vports with a filter of a type.
func (t *table) find(typ FilterType, k key) *set {
	f := &t.recent[typ]
	if !f.valid || f.key != k {
		*f = found{true, k, t.by[k]}
	}
	return &f.set
}

// filter is one filter of a vport.
type filter struct {
	typ   FilterType
	sides Sides
	mac   ether.Addr
	vlan  uint16
}

func (f *filter) key() key { return makeKey(f.typ, f.mac, f.vlan) }

// FilterUcast changes the unicast and VLAN filters. It answers with a
// FilterCode, which changes nothing; INVAL for ids, addresses and VLANs that
// cannot be, NOTIMPL for unknown operations and types.
func (fn *Function) FilterUcast(p UcastParams) error {
	if p.Op > FilterFlush || int(p.Type) >= len(filterNames) {
		return status.NotImpl.Errorf("filter command %d of type %v", p.Op, p.Type)
	}
	if p.Sides == 0 || p.Sides > Both || p.VLAN > maxVLAN || p.MAC.IsMulticast() {
		return status.Inval.Errorf("filter for sides %d, VLAN %d, address %v", p.Sides, p.VLAN, p.MAC)
	}
	f := filter{typ: p.Type, sides: p.Sides}
	if p.Type != FilterVLAN {
		f.mac = p.MAC
	}
	if p.Type != FilterMAC {
		f.vlan = p.VLAN
	}
	code, err := fn.command(&p, f)
	if err != nil || code == FilterOK {
		return err
	}
	if p.Sides == Tx {
		code |= codeTx
	}
	if p.AssertOnError {
		return fn.assert("filter command %d on vport %d: %v", p.Op, p.Add, code)
	}
	return code
}

func (fn *Function) command(p *UcastParams, f filter) (FilterCode, error) {
	var to, from *vport
	var err error
	if p.Op == FilterRemove || p.Op == FilterMove || p.Op == FilterFlush {
		if from, err = fn.vport(p.Remove); err != nil {
			return 0, err
		}
	}
	if p.Op == FilterAdd || p.Op == FilterMove || p.Op == FilterReplace {
		if to, err = fn.vport(p.Add); err != nil {
			return 0, err
		}
	}
	switch p.Op {
	case FilterAdd:
		return fn.addFilter(to, f, 0), nil
	case FilterRemove:
		return fn.removeFilter(from, f), nil
	case FilterMove:
		return fn.moveFilter(from, to, f), nil
	case FilterReplace:
		return fn.replaceFilter(to, f), nil
	}
	fn.removeFilters(from, func(g *filter) bool { return g.typ == f.typ }, f.sides)
	return FilterOK, nil
}

// find is the vport's filter that compares the same as f, -1 if there is none.
func (v *vport) find(f *filter) int {
	return slices.IndexFunc(v.filters, func(g filter) bool { return g.key() == f.key() })
}

// addFilter adds a filter if there is room for it, where free more of its type
// are about to be removed.
func (fn *Function) addFilter(v *vport, f filter, free int) FilterCode {
	at := v.find(&f)
	if f.typ != FilterVLAN && f.mac.IsZero() {
		return pick(f.typ, MACAddZero, 0, PairAddZero)
	}
	if at >= 0 && v.filters[at].sides&f.sides != 0 {
		return fn.duplicate(&f)
	}
	if at >= 0 {
		v.filters[at].sides |= f.sides
	} else {
		if code := fn.full(&f, free); code != FilterOK {
			return code
		}
		v.filters = append(v.filters, f)
		fn.charge(&f, 1)
	}
	fn.index(v, &f, 1)
	return FilterOK
}

func pick(t FilterType, mac, vlan, pair FilterCode) FilterCode {
	return [...]FilterCode{mac, vlan, pair}[t]
}

// duplicate is the code for a filter that the vport has already. An address of one vport
// is in the table of single targets, that of several in another.
func (fn *Function) duplicate(f *filter) FilterCode {
	if f.typ == FilterMAC && fn.owners(f) > 1 {
		return MACAddDupMTT2
	}
	return pick(f.typ, MACAddDupSTT2, VLANAddDup, PairAddDup)
}

// owners counts the vports with a filter.
func (fn *Function) owners(f *filter) (n int) {
	for _, v := range fn.started {
		if v.find(f) >= 0 {
			n++
		}
	}
	return n
}

// full tells whether there is no room for a filter. That for VLAN 0 costs nothing.
func (fn *Function) full(f *filter, free int) FilterCode {
	s := &fn.cfg.Share
	switch f.typ {
	case FilterMAC:
		if fn.macs-free >= s.MACs {
			return MACAddFull
		}
	case FilterVLAN:
		if f.vlan != 0 && fn.vlans-free >= s.VLANs {
			return VLANAddFull
		}
	case FilterMACVLAN:
		if fn.pairs-free >= s.VLANs {
			return PairAddFull
		}
		if fn.macs-free >= s.MACs {
			return PairAddFullMAC
		}
	}
	return FilterOK
}

// charge counts a filter against the share, or with -1 gives it back.
func (fn *Function) charge(f *filter, n int) {
	switch {
	case f.typ == FilterMAC:
		fn.macs += n
	case f.typ == FilterMACVLAN:
		fn.pairs += n
		fn.macs += n
	case f.vlan != 0:
		fn.vlans += n
	}
}

// index enters a filter of a vport for its sides, or with -1 removes it.
func (fn *Function) index(v *vport, f *filter, n int) {
	for d := range fn.tables {
		if f.sides&(1<<d) == 0 {
			continue
		}
		t := &fn.tables[d]
		t.recent[f.typ].valid = false
		fn.foreign[d] = noStation
		k := f.key()
		s := t.by[k]
		if n > 0 {
			s.add(v.id)
		} else {
			s.remove(v.id)
		}
		if s.any() {
			t.by[k] = s
		} else {
			delete(t.by, k)
		}
		if f.typ == FilterMACVLAN {
			t.pairs += n
		}
		if f.typ != FilterMAC {
			v.vlanRules[d] += n
		}
	}
}

func (fn *Function) removeFilter(v *vport, f filter) FilterCode {
	at := v.find(&f)
	if at < 0 || v.filters[at].sides&f.sides != f.sides {
		return fn.absent(&f)
	}
	fn.index(v, &f, -1)
	g := &v.filters[at]
	if g.sides &^= f.sides; g.sides == 0 {
		fn.charge(&f, -1)
		v.filters = slices.Delete(v.filters, at, at+1)
	}
	return FilterOK
}

// absent is the code for a filter that the vport has not: nobody, one other or several others
// may have it.
func (fn *Function) absent(f *filter) FilterCode {
	switch n := fn.owners(f); {
	case n == 0:
		return pick(f.typ, MACDelNOF, VLANDelNOF, PairDelNOF)
	case n > 1:
		return pick(f.typ, MACDelNOFMTT2, VLANDelNOFTT1, PairDelNOFTT1)
	}
	return pick(f.typ, MACDelNOFSTT2, VLANDelNOFTT1, PairDelNOFTT1)
}

// removeFilters removes the chosen filters of a vport on some sides.
func (fn *Function) removeFilters(v *vport, chosen func(*filter) bool, sides Sides) {
	for i := len(v.filters) - 1; i >= 0; i-- {
		if f := v.filters[i]; chosen(&f) && f.sides&sides != 0 {
			f.sides &= sides
			fn.removeFilter(v, f)
		}
	}
}

func (fn *Function) moveFilter(from, to *vport, f filter) FilterCode {
	if at := from.find(&f); at < 0 || from.filters[at].sides&f.sides != f.sides {
		return fn.absent(&f)
	}
	if at := to.find(&f); at >= 0 && to.filters[at].sides&f.sides != 0 {
		return fn.duplicate(&f)
	}
	fn.removeFilter(from, f)
	return fn.addFilter(to, f, 0)
}

func (fn *Function) replaceFilter(v *vport, f filter) FilterCode {
	if f.typ != FilterVLAN && f.mac.IsZero() {
		return pick(f.typ, MACAddZero, 0, PairAddZero)
	}
	same := func(g *filter) bool { return g.typ == f.typ }
	freed := 0
	for i := range v.filters {
		if g := &v.filters[i]; same(g) && g.sides&^f.sides == 0 && (g.typ != FilterVLAN || g.vlan != 0) {
			freed++
		}
	}
	if code := fn.full(&f, freed); code != FilterOK {
		return code
	}
	fn.removeFilters(v, same, f.sides)
	return fn.addFilter(v, f, 0)
}

// McastParams are the parameters of FilterMcast.
type McastParams struct {
	Op    Opcode
	Vport int
	MACs  []ether.Addr // borrowed, at most MaxMcast
}

// MaxMcast is how many multicast addresses a command names at most; a driver
// that has more accepts all.
const MaxMcast = 64

// FilterMcast sets a vport's multicast addresses: FilterAdd takes the place of all that
// were set before, FilterRemove and FilterFlush leave none. INVAL for too many addresses
// or unicast ones, NOTIMPL for other operations.
func (fn *Function) FilterMcast(p McastParams) error {
	if p.Op != FilterAdd && p.Op != FilterRemove && p.Op != FilterFlush {
		return status.NotImpl.Errorf("multicast filter command %d", p.Op)
	}
	if len(p.MACs) > MaxMcast {
		return status.Inval.Errorf("%d multicast addresses: want at most %d", len(p.MACs), MaxMcast)
	}
	var bins Bins
	for _, a := range p.MACs {
		if !a.IsMulticast() {
			return status.Inval.Errorf("%v is not a multicast address", a)
		}
		if p.Op == FilterAdd {
			bins.Add(a)
		}
	}
	return fn.VportUpdate(UpdateParams{Vport: p.Vport, Bins: &bins})
}
