package fcf

import (
	"cmp"

	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/frame"
)

// object is what an N_Port has registered with the name server (FC-GS-6 section 5.2).
type object struct {
	types      fc.Types
	features   [fc.FeaturesLen]byte // of FC-4 types, four bits each
	symbol     string               // symbolic port name
	nodeSymbol string
}

// rejection is why the name server refuses a request.
type rejection struct {
	reason fc.Reason
	why    fc.Explanation
}

var (
	errCommand = &rejection{fc.NotSupported, fc.NoExplanation}
	errSize    = &rejection{fc.InvalidSize, fc.NoExplanation}
	errLogin   = &rejection{fc.LogicalError, fc.NoExplanation} // no PLOGI
	errPort    = &rejection{fc.CannotPerform, fc.NotRegistered}
	errName    = &rejection{fc.CannotPerform, fc.NameNotRegistered}
	errNode    = &rejection{fc.CannotPerform, fc.NodeNotRegistered}
	errTypes   = &rejection{fc.CannotPerform, fc.TypesNotThere}
	errOther   = &rejection{fc.CannotPerform, fc.BadPortIdentifier}
	errFixed   = &rejection{fc.LogicalError, fc.NameNotRegistered} // the names are those of the login
)

// registrations are the commands from this one on.
const registrations fc.CTCommand = 0x0200

// directory is the reply to a request to the directory server, with its header.
func (f *FCF) directory(p *nport, c *fc.CT, q []byte, now frame.Time) []byte {
	reply := fc.CT{Service: c.Service, Subtype: c.Subtype, Command: fc.CTReply}
	var body []byte
	err := errCommand
	switch {
	case c.Service != fc.DirectoryService || c.Subtype != fc.NameServer:
	case p.size == 0:
		err = errLogin
	case c.Command >= registrations:
		err = f.register(p, c.Command, q, now)
	default:
		body, err = f.query(p, c, q)
	}
	if err != nil {
		f.counts.Rejected++
		reply.Command, reply.Reason, reply.Explanation = fc.CTRefus, err.reason, err.why
		return reply.AppendTo(nil)
	}
	if most := int(c.MaxSize) * 4; most > 0 && len(body) > most {
		reply.MaxSize = uint16((len(body) - most) / 4)
		body = body[:most]
	}
	return append(reply.AppendTo(nil), body...)
}

// query answers a question about N_Ports that the asking one sees.
func (f *FCF) query(p *nport, c *fc.CT, q []byte) (body []byte, refused *rejection) {
	switch c.Command {
	case fc.GPNID, fc.GNNID, fc.GFTID, fc.GFFID, fc.GSPNID, fc.GANXT:
		id, _, err := fc.IDParam(q)
		if err != nil {
			return nil, errSize
		}
		return f.ofPort(p, c.Command, id)
	case fc.GIDPN, fc.GIDNN, fc.GSNNNN:
		name, _, err := fc.NameParam(q)
		if err != nil {
			return nil, errSize
		}
		return f.ofName(p, c.Command, name)
	case fc.GIDFT, fc.GPNFT, fc.GNNFT:
		domain, area, typ, err := fc.TypeParam(q)
		if err != nil {
			return nil, errSize
		}
		all := f.list(p, func(o *nport) (fc.WWN, bool) {
			name := o.name
			if c.Command == fc.GNNFT {
				name = o.nodeName
			}
			return name, o.types.Has(typ) && (domain == 0 || domain == o.id.Domain()) &&
				(area == 0 || area == uint8(o.id>>8))
		})
		if all == nil {
			return nil, errTypes
		}
		return fc.AppendEntries(nil, all, c.Command != fc.GIDFT), nil
	}
	return nil, errCommand
}

// list are the N_Ports that p sees and that match, by identifier.
func (f *FCF) list(p *nport, match func(*nport) (fc.WWN, bool)) (all []fc.Entry) {
	for _, o := range f.nports {
		if name, ok := match(o); ok && f.zoned(p, o) {
			all = append(all, fc.Entry{ID: o.id, Name: name})
		}
	}
	return all
}

// ofPort is what is registered of an identifier.
func (f *FCF) ofPort(p *nport, cmd fc.CTCommand, id fc.ID) ([]byte, *rejection) {
	if cmd == fc.GANXT {
		return f.after(p, id).everything(), nil
	}
	o := f.find(id)
	if o == nil || !f.zoned(p, o) {
		return nil, errPort
	}
	switch cmd {
	case fc.GPNID:
		return fc.AppendName(nil, o.name), nil
	case fc.GNNID:
		return fc.AppendName(nil, o.nodeName), nil
	case fc.GFTID:
		return o.types[:], nil
	case fc.GFFID:
		return o.features[:], nil
	}
	return fc.AppendSymbol(nil, o.symbol), nil
}

// after is the N_Port with the next higher identifier, and after the highest the lowest one.
func (f *FCF) after(p *nport, id fc.ID) *nport {
	i, found := f.search(id)
	if found {
		i++
	}
	for range f.nports {
		if o := f.nports[i%len(f.nports)]; f.zoned(p, o) {
			return o
		}
		i++
	}
	return p
}

// everything is the answer to GA_NXT (FC-GS-6 section 5.2.5.2).
func (p *nport) everything() []byte {
	const portType = 1 // N_Port
	symbol := func(b []byte, s string) []byte {
		return append(fc.AppendSymbol(b, s), make([]byte, 255-len(s))...)
	}
	b := fc.AppendID(nil, fc.ID(portType)<<24|p.id)
	b = symbol(fc.AppendName(b, p.name), p.symbol)
	b = symbol(fc.AppendName(b, p.nodeName), p.nodeSymbol)
	b = append(b, make([]byte, 8+16)...) // initial process associator, IP address
	b = fc.AppendID(b, classOfService3)
	b = append(b, p.types[:]...)
	b = append(b, make([]byte, 16)...) // IP address of the port
	b = fc.AppendName(b, p.fabricPort)
	return fc.AppendID(b, 0) // hard address
}

// classOfService3 is class 3 in a registered class of service.
const classOfService3 = 1 << 3

// ofName is what is registered of a port name or a node name.
func (f *FCF) ofName(p *nport, cmd fc.CTCommand, name fc.WWN) ([]byte, *rejection) {
	if cmd == fc.GIDPN {
		o := f.named(name)
		if o == nil || !f.zoned(p, o) {
			return nil, errName
		}
		return fc.AppendID(nil, o.id), nil
	}
	all := f.list(p, func(o *nport) (fc.WWN, bool) { return 0, o.nodeName == name })
	if all == nil {
		return nil, errNode
	}
	if cmd == fc.GIDNN {
		return fc.AppendEntries(nil, all, false), nil
	}
	return fc.AppendSymbol(nil, f.find(all[0].ID).nodeSymbol), nil
}

// register takes a registration, which an N_Port makes for itself alone. Names are those of
// the login.
func (f *FCF) register(p *nport, cmd fc.CTCommand, q []byte, now frame.Time) *rejection {
	if cmd == fc.RSNNNN {
		return f.nameNode(p, q)
	}
	id, rest, err := fc.IDParam(q)
	if err != nil {
		return errSize
	}
	before := p.object
	switch cmd {
	case fc.RPNID, fc.RNNID:
		name, _, err := fc.NameParam(rest)
		if err != nil {
			return errSize
		}
		if login := p.nameOf(cmd); id == p.id && name != login {
			return errFixed
		}
	case fc.RFTID:
		if len(rest) < len(p.types) {
			return errSize
		}
		if id == p.id {
			copy(p.types[:], rest)
		}
	case fc.RFFID:
		if len(rest) < 4 {
			return errSize
		}
		if id == p.id {
			p.setFeatures(fc.Type(rest[3]), rest[2])
		}
	case fc.RSPNID:
		s, err := fc.SymbolParam(rest)
		if err != nil {
			return errSize
		}
		if id == p.id {
			p.symbol = s
		}
	case fc.DAID:
		if id == p.id {
			p.object = object{}
		}
	default:
		return errCommand
	}
	if id != p.id {
		return errOther
	}
	if before.types != p.types || before.features != p.features {
		f.changed(p, now)
	}
	return nil
}

// nameOf is the name that RPN_ID or RNN_ID registers.
func (p *nport) nameOf(cmd fc.CTCommand) fc.WWN {
	if cmd == fc.RPNID {
		return p.name
	}
	return p.nodeName
}

// setFeatures sets the four bits of a type.
func (o *object) setFeatures(t fc.Type, features uint8) {
	at, shift := int(t/8)*4+3-int(t%8/2), 4*(t%2)
	o.features[at] = o.features[at]&^(0xf<<shift) | (features&0xf)<<shift
}

// nameNode takes the symbolic name of a node, for all its N_Ports.
func (f *FCF) nameNode(p *nport, q []byte) *rejection {
	name, rest, err := fc.NameParam(q)
	if err != nil {
		return errSize
	}
	s, err := fc.SymbolParam(rest)
	switch {
	case err != nil:
		return errSize
	case name != p.nodeName:
		return errOther
	}
	for _, o := range f.nports {
		if o.nodeName == name && o.node == p.node {
			o.nodeSymbol = s
		}
	}
	return nil
}

// Login is a logged-in N_Port.
type Login struct {
	Port           int
	ID             fc.ID
	Name, NodeName fc.WWN
	ENode, MAC     ether.Addr
	Virtual        bool // by FDISC
	Types          fc.Types
	FCP            uint8 // fc.TargetFeature, fc.InitiatorFeature
	Symbol         string
	Registered     bool // for state changes
	Left           frame.Time
}

// Logins are the logged-in N_Ports by FC_ID.
func (f *FCF) Logins() []Login {
	list := make([]Login, 0, len(f.nports))
	for _, p := range f.nports {
		list = append(list, Login{Port: p.node.port, ID: p.id, Name: p.name, NodeName: p.nodeName, ENode: p.node.mac,
			MAC: p.mac, Virtual: p.virtual, Types: p.types, FCP: p.features[7] & 0xf,
			Symbol: cmp.Or(p.symbol, p.nodeSymbol), Registered: p.registrar, Left: min(p.until, p.node.until)})
	}
	return list
}
