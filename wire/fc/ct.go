package fc

import "encoding/binary"

// CTCommand is a request to the directory server, or its reply.
type CTCommand uint16

// Requests to the name server (FC-GS-6 section 5.2.4) and replies.
const (
	GANXT   CTCommand = 0x0100 // all of the next port
	GPNID   CTCommand = 0x0112 // port name of an identifier
	GNNID   CTCommand = 0x0113 // node name of an identifier
	GFTID   CTCommand = 0x0117 // FC-4 types of an identifier
	GFFID   CTCommand = 0x011f // FC-4 features of an identifier
	GSPNID  CTCommand = 0x0118 // symbolic port name of an identifier
	GIDPN   CTCommand = 0x0121 // identifier of a port name
	GIDNN   CTCommand = 0x0131 // identifiers of a node name
	GSNNNN  CTCommand = 0x0139 // symbolic name of a node name
	GIDFT   CTCommand = 0x0171 // identifiers of an FC-4 type
	GPNFT   CTCommand = 0x0172 // identifiers and port names of an FC-4 type
	GNNFT   CTCommand = 0x0173 // identifiers and node names of an FC-4 type
	RPNID   CTCommand = 0x0212 // register a port name
	RNNID   CTCommand = 0x0213 // register a node name
	RFTID   CTCommand = 0x0217 // register FC-4 types
	RSPNID  CTCommand = 0x0218 // register a symbolic port name
	RFFID   CTCommand = 0x021f // register FC-4 features
	RSNNNN  CTCommand = 0x0239 // register a symbolic node name
	DAID    CTCommand = 0x0300 // remove all of an identifier
	CTReply CTCommand = 0x8002 // accepted
	CTRefus CTCommand = 0x8001 // rejected
)

// CTLen is the length of a CT header in octets.
const CTLen = 16

// Service and subtype of the name server.
const (
	DirectoryService = 0xfc
	NameServer       = 2
)

// Explanations of rejected name server requests (FC-GS-6 table 61).
const (
	NotRegistered     Explanation = 0x01 // port identifier
	NameNotRegistered Explanation = 0x02 // port name
	NodeNotRegistered Explanation = 0x03 // node name
	TypesNotThere     Explanation = 0x07 // FC-4 types
	BadPortIdentifier Explanation = 0x11 // a registration for another port
)

// CT is the header of a common transport request or reply.
type CT struct {
	Service, Subtype uint8
	Command          CTCommand
	MaxSize          uint16 // words that are left, or that fit
	Reason           Reason
	Explanation      Explanation
}

// ParseCT reads a header; the rest borrows b. Error: ErrShort.
func ParseCT(b []byte) (c CT, rest []byte, err error) {
	if len(b) < CTLen {
		return c, nil, ErrShort
	}
	be := binary.BigEndian
	c = CT{b[4], b[5], CTCommand(be.Uint16(b[8:])), be.Uint16(b[10:]), Reason(b[13]), Explanation(b[14])}
	return c, b[CTLen:], nil
}

// AppendTo appends the 16 octets of the header.
func (c *CT) AppendTo(b []byte) []byte {
	b = append(b, 1, 0, 0, 0, c.Service, c.Subtype, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(c.Command))
	b = binary.BigEndian.AppendUint16(b, c.MaxSize)
	return append(b, 0, byte(c.Reason), byte(c.Explanation), 0)
}

// AppendQuery appends a request to the name server with its parameters.
func AppendQuery(b []byte, cmd CTCommand, parameters []byte) []byte {
	return append((&CT{Service: DirectoryService, Subtype: NameServer, Command: cmd}).AppendTo(b), parameters...)
}

// Types is a set of FC-4 types: 256 bits in words, the lowest type in the lowest bit of
// the first word.
type Types [32]byte

// Add adds a type.
func (t *Types) Add(y Type) { t[int(y/32)*4+3-int(y%32/8)] |= 1 << (y % 8) }

// Has tells that a type is in the set.
func (t *Types) Has(y Type) bool { return t[int(y/32)*4+3-int(y%32/8)]>>(y%8)&1 != 0 }

// FeaturesLen is the length of the FC-4 features of all types in octets, four bits each.
const FeaturesLen = 128

// Features of FCP, as RFF_ID has them.
const (
	TargetFeature    = 1
	InitiatorFeature = 2
)

// Parameters of the name server's requests.

// IDParam is the identifier that GPN_ID, GNN_ID, GFT_ID, GFF_ID, RPN_ID, RNN_ID,
// RFT_ID, RSPN_ID, RFF_ID and DA_ID begin with. Error: ErrShort.
func IDParam(b []byte) (ID, []byte, error) {
	if len(b) < 4 {
		return 0, nil, ErrShort
	}
	return getID(b[1:]), b[4:], nil
}

// AppendID appends an identifier as a word.
func AppendID(b []byte, id ID) []byte { return binary.BigEndian.AppendUint32(b, uint32(id)) }

// NameParam reads a world-wide name. Error: ErrShort.
func NameParam(b []byte) (WWN, []byte, error) {
	if len(b) < 8 {
		return 0, nil, ErrShort
	}
	return WWN(binary.BigEndian.Uint64(b)), b[8:], nil
}

// AppendName appends a world-wide name.
func AppendName(b []byte, w WWN) []byte { return binary.BigEndian.AppendUint64(b, uint64(w)) }

// SymbolParam reads a symbolic name of up to 255 octets. Error: ErrShort.
func SymbolParam(b []byte) (string, error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", ErrShort
	}
	return string(b[1 : 1+int(b[0])]), nil
}

// AppendSymbol appends a symbolic name, cut at 255 octets.
func AppendSymbol(b []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(b, byte(len(s))), s...)
}

// TypeParam reads domain and area, 0 for all, and the FC-4 type of GID_FT and GPN_FT. Error:
// ErrShort.
func TypeParam(b []byte) (domain, area uint8, y Type, err error) {
	if len(b) < 4 {
		return 0, 0, 0, ErrShort
	}
	return b[1], b[2], Type(b[3]), nil
}

// AppendType appends the parameters of GID_FT and GPN_FT: a type in the whole fabric.
func AppendType(b []byte, y Type) []byte { return append(b, 0, 0, 0, byte(y)) }

// Entry is one port in the replies of GID_FT and GPN_FT.
type Entry struct {
	ID   ID
	Name WWN // GPN_FT and GNN_FT only
}

const lastEntry = 0x80

// AppendEntries appends the entries of a reply, with names or without.
func AppendEntries(b []byte, entries []Entry, names bool) []byte {
	for i, e := range entries {
		word := uint32(e.ID)
		if i == len(entries)-1 {
			word |= lastEntry << 24
		}
		b = binary.BigEndian.AppendUint32(b, word)
		if names {
			b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 0), uint64(e.Name))
		}
	}
	return b
}

// ParseEntries reads the entries of a reply up to the last one. Error: ErrShort if the last
// one is not there.
func ParseEntries(b []byte, names bool) (entries []Entry, err error) {
	size := 4
	if names {
		size = 16
	}
	for ; len(b) >= size; b = b[size:] {
		e := Entry{ID: getID(b[1:])}
		if names {
			e.Name = WWN(binary.BigEndian.Uint64(b[8:]))
		}
		entries = append(entries, e)
		if b[0]&lastEntry != 0 {
			return entries, nil
		}
	}
	return entries, ErrShort
}
