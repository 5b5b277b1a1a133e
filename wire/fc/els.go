package fc

import "encoding/binary"

// ELS is the command of an extended link service: the first octet of its payload.
type ELS uint8

// Extended link services (FC-LS-2 section 4).
const (
	LSRJT ELS = 0x01
	LSACC ELS = 0x02
	PLOGI ELS = 0x03
	FLOGI ELS = 0x04
	LOGO  ELS = 0x05
	RTV   ELS = 0x0e
	ECHO  ELS = 0x10
	RRQ   ELS = 0x12
	REC   ELS = 0x13
	PRLI  ELS = 0x20
	PRLO  ELS = 0x21
	PDISC ELS = 0x50
	FDISC ELS = 0x51
	ADISC ELS = 0x52
	FAN   ELS = 0x60
	RSCN  ELS = 0x61
	SCR   ELS = 0x62
	RNID  ELS = 0x78
)

// Command is the link service of a payload; 0 if there is none.
func Command(payload []byte) ELS {
	if len(payload) < 4 {
		return 0
	}
	return ELS(payload[0])
}

// Bits of Login.Features (FC-LS-2 section 6.6.2).
const (
	MultipleIDs    = 0x8000 // FLOGI: NPIV is wanted
	RandomOffset   = 0x8000 // PLOGI: relative offset grows continuously
	IDsSupported   = 0x2000 // LS_ACC of FLOGI: NPIV is there
	FPort          = 0x1000 // an F_Port has sent it
	AltBBCredit    = 0x0800
	NanosecondEDTV = 0x0400 // E_D_TOV is in nanoseconds
)

// LoginLen is the length of FLOGI, FDISC, PLOGI and of their acceptance in octets.
const LoginLen = 116

// Login is the payload of FLOGI, FDISC, PLOGI, PDISC and of their acceptance.
type Login struct {
	Command    ELS
	BBCredit   uint16
	Features   uint16
	MaxPayload uint16 // receive data field size in octets, 256 to 2112
	RATOV      uint32 // FLOGI: R_A_TOV in milliseconds; PLOGI: total sequences and relative offsets
	EDTOV      uint32 // E_D_TOV in milliseconds, or in nanoseconds
	Port, Node WWN
	Class3     bool   // class 3 is supported, with deliveries in order
	Class3Size uint16 // receive data field size of class 3 in octets
	Concurrent uint16 // concurrent sequences
	Open       uint8  // open sequences of an exchange
}

const (
	class3At    = 36 + 2*16
	classValid  = 0x8000
	classInline = 0x0800
)

// ParseLogin reads a login. Error: ErrShort.
func ParseLogin(b []byte) (l Login, err error) {
	if len(b) < LoginLen {
		return l, ErrShort
	}
	be := binary.BigEndian
	c := b[class3At:]
	return Login{
		Command: ELS(b[0]), BBCredit: be.Uint16(b[6:]), Features: be.Uint16(b[8:]),
		MaxPayload: be.Uint16(b[10:]) & 0xfff, RATOV: be.Uint32(b[12:]), EDTOV: be.Uint32(b[16:]),
		Port: WWN(be.Uint64(b[20:])), Node: WWN(be.Uint64(b[28:])),
		Class3: be.Uint16(c)&classValid != 0, Class3Size: be.Uint16(c[6:]), Concurrent: be.Uint16(c[8:]), Open: c[13],
	}, nil
}

// AppendTo appends the 116 octets of the login.
func (l *Login) AppendTo(b []byte) []byte {
	var p [LoginLen]byte
	be := binary.BigEndian
	p[0], p[4], p[5] = byte(l.Command), 0x20, 0x20 // FC-PH-3 and later
	be.PutUint16(p[6:], l.BBCredit)
	be.PutUint16(p[8:], l.Features)
	be.PutUint16(p[10:], l.MaxPayload)
	be.PutUint32(p[12:], l.RATOV)
	be.PutUint32(p[16:], l.EDTOV)
	be.PutUint64(p[20:], uint64(l.Port))
	be.PutUint64(p[28:], uint64(l.Node))
	c := p[class3At:]
	if l.Class3 {
		be.PutUint16(c, classValid|classInline)
	}
	be.PutUint16(c[6:], l.Class3Size)
	be.PutUint16(c[8:], l.Concurrent)
	c[13] = l.Open
	return append(b, p[:]...)
}

// Reason says why a link service was refused (FC-LS-2 table 8).
type Reason uint8

// Reasons of LS_RJT, BA_RJT and rejected CT requests.
const (
	InvalidCommand Reason = 0x01
	LogicalError   Reason = 0x03
	InvalidSize    Reason = 0x04 // CT only
	LogicalBusy    Reason = 0x05
	ProtocolError  Reason = 0x07
	CannotPerform  Reason = 0x09
	NotSupported   Reason = 0x0b
	FIPError       Reason = 0x20
)

// Explanation is the detail of a Reason (FC-LS-2 table 9).
type Explanation uint8

// Explanations.
const (
	NoExplanation      Explanation = 0x00
	BadServiceParams   Explanation = 0x01
	BadPortName        Explanation = 0x0d
	BadNodeName        Explanation = 0x0e
	BadCommonParams    Explanation = 0x0f
	BadOXIDRXID        Explanation = 0x17
	LoginInProgress    Explanation = 0x19
	PortLoginRequired  Explanation = 0x1e
	NoResources        Explanation = 0x29
	CannotSupply       Explanation = 0x2a
	ExplainUnsupported Explanation = 0x2c
	InsufficientVPorts Explanation = 0x45
	BadAddressMode     Explanation = 0x60 // FIPError: neither FPMA nor SPMA that the other end has
	BadProposedMAC     Explanation = 0x61 // FIPError
	NotNeighbor        Explanation = 0x62
)

// AppendReject appends the payload of LS_RJT.
func AppendReject(b []byte, r Reason, e Explanation) []byte {
	return append(b, byte(LSRJT), 0, 0, 0, 0, byte(r), byte(e), 0)
}

// ParseReject reads reason and explanation of LS_RJT. Error: ErrShort.
func ParseReject(b []byte) (Reason, Explanation, error) {
	if len(b) < 8 {
		return 0, 0, ErrShort
	}
	return Reason(b[5]), Explanation(b[6]), nil
}

// AppendAccept appends the payload of an LS_ACC that has no parameters, as LOGO has it.
func AppendAccept(b []byte) []byte { return append(b, byte(LSACC), 0, 0, 0) }

// ProcessLogin is the payload of PRLI and PRLO with one service parameter page.
type ProcessLogin struct {
	Command ELS
	Type    Type
	Flags   uint8  // EstablishPair, and in a reply the response code
	Params  uint32 // service parameters
}

// Bits of ProcessLogin.Flags and Params (FCP-4 section 6.3).
const (
	EstablishPair = 0x20
	ResponseMask  = 0x0f
	Executed      = 0x01 // response code: done
	NoImagePair   = 0x03 // response code: the pair cannot be established
	Initiator     = 0x20 // Params: initiator function
	Target        = 0x10 // target function
	RetrySupport  = 0x100
	ConfirmedDone = 0x80
	NoReadXferRdy = 0x02 // no XFER_RDY before data of reads
)

const processLoginLen = 20

// ParseProcessLogin reads PRLI, PRLO or their acceptance. Errors: ErrShort, ErrFormat.
func ParseProcessLogin(b []byte) (p ProcessLogin, err error) {
	if len(b) < processLoginLen {
		return p, ErrShort
	}
	if n := int(binary.BigEndian.Uint16(b[2:])); b[1] != 16 || n < processLoginLen || n > len(b) {
		return p, ErrFormat
	}
	return ProcessLogin{ELS(b[0]), Type(b[4]), b[6], binary.BigEndian.Uint32(b[16:])}, nil
}

// AppendTo appends the 20 octets of the payload.
func (p *ProcessLogin) AppendTo(b []byte) []byte {
	b = append(b, byte(p.Command), 16, 0, processLoginLen, byte(p.Type), 0, p.Flags, 0)
	b = append(b, make([]byte, 8)...)
	return binary.BigEndian.AppendUint32(b, p.Params)
}

// Logout is the payload of LOGO.
type Logout struct {
	Port ID
	Name WWN
}

// ParseLogout reads LOGO. Error: ErrShort.
func ParseLogout(b []byte) (Logout, error) {
	if len(b) < 16 {
		return Logout{}, ErrShort
	}
	return Logout{getID(b[5:]), WWN(binary.BigEndian.Uint64(b[8:]))}, nil
}

// AppendTo appends the 16 octets of the payload.
func (l Logout) AppendTo(b []byte) []byte {
	b = append(b, byte(LOGO), 0, 0, 0, 0, byte(l.Port>>16), byte(l.Port>>8), byte(l.Port))
	return binary.BigEndian.AppendUint64(b, uint64(l.Name))
}

// Discovery is the payload of ADISC and of its acceptance.
type Discovery struct {
	Command    ELS
	Port, Node WWN
	ID         ID
}

// ParseDiscovery reads ADISC. Error: ErrShort.
func ParseDiscovery(b []byte) (Discovery, error) {
	if len(b) < 28 {
		return Discovery{}, ErrShort
	}
	be := binary.BigEndian
	return Discovery{ELS(b[0]), WWN(be.Uint64(b[8:])), WWN(be.Uint64(b[16:])), getID(b[25:])}, nil
}

// AppendTo appends the 28 octets of the payload.
func (d *Discovery) AppendTo(b []byte) []byte {
	b = append(b, byte(d.Command), 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(d.Port))
	b = binary.BigEndian.AppendUint64(b, uint64(d.Node))
	return binary.BigEndian.AppendUint32(b, uint32(d.ID))
}

// AppendStateChange appends an RSCN with one page for each port whose state has changed.
func AppendStateChange(b []byte, ports ...ID) []byte {
	b = append(b, byte(RSCN), 4)
	b = binary.BigEndian.AppendUint16(b, uint16(4+4*len(ports)))
	for _, id := range ports {
		b = binary.BigEndian.AppendUint32(b, uint32(id))
	}
	return b
}

// Change is one page of an RSCN. Scope says how much of the identifier counts.
type Change struct {
	Scope Scope
	ID    ID
}

// Scope is the address format of an RSCN's page.
type Scope uint8

// Scopes.
const (
	OfPort Scope = iota
	OfArea
	OfDomain
	OfFabric
)

// Covers tells that the page speaks of this port.
func (c Change) Covers(id ID) bool {
	if c.Scope >= OfFabric {
		return true
	}
	return (c.ID^id)>>(8*c.Scope) == 0
}

// ParseStateChange reads the pages of an RSCN. Errors: ErrShort, ErrFormat.
func ParseStateChange(b []byte) ([]Change, error) {
	if len(b) < 4 {
		return nil, ErrShort
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if b[1] != 4 || n < 4 || n%4 != 0 || n > len(b) {
		return nil, ErrFormat
	}
	var pages []Change
	for at := 4; at < n; at += 4 {
		pages = append(pages, Change{Scope(b[at] & 3), getID(b[at+1:])})
	}
	return pages, nil
}

// Registration functions of SCR.
const (
	ScrFabric = 1 // changes that the fabric detects
	ScrPorts  = 2 // changes that N_Ports tell of
	ScrFull   = 3
	ScrClear  = 0xff
)

// AppendSCR appends a state change registration.
func AppendSCR(b []byte, function uint8) []byte {
	return append(b, byte(SCR), 0, 0, 0, 0, 0, 0, function)
}

// ParseSCR reads the registration function. Error: ErrShort.
func ParseSCR(b []byte) (uint8, error) {
	if len(b) < 8 {
		return 0, ErrShort
	}
	return b[7], nil
}

// Exchange names an exchange, as RRQ and REC do.
type Exchange struct {
	Command    ELS // RRQ or REC
	Originator ID
	OXID, RXID uint16
}

// ParseExchange reads RRQ or REC. Error: ErrShort.
func ParseExchange(b []byte) (Exchange, error) {
	if len(b) < 12 {
		return Exchange{}, ErrShort
	}
	return Exchange{ELS(b[0]), getID(b[5:]), binary.BigEndian.Uint16(b[8:]), binary.BigEndian.Uint16(b[10:])}, nil
}

// AppendTo appends the 12 octets of the payload.
func (e Exchange) AppendTo(b []byte) []byte {
	b = append(b, byte(e.Command), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Originator))
	b = binary.BigEndian.AppendUint16(b, e.OXID)
	return binary.BigEndian.AppendUint16(b, e.RXID)
}

// Bits of ExchangeState.Status (FC-FS-3 section 9.12).
const (
	HasInitiative  = 1 << 30 // the sender of the acceptance holds the sequence initiative
	ExchangeClosed = 1 << 29
)

// ExchangeState is the acceptance of REC.
type ExchangeState struct {
	OXID, RXID            uint16
	Originator, Responder ID
	Transferred           uint32 // octets
	Status                uint32
}

// ParseExchangeState reads it. Error: ErrShort.
func ParseExchangeState(b []byte) (ExchangeState, error) {
	if len(b) < 24 {
		return ExchangeState{}, ErrShort
	}
	be := binary.BigEndian
	return ExchangeState{be.Uint16(b[4:]), be.Uint16(b[6:]), getID(b[9:]), getID(b[13:]), be.Uint32(b[16:]),
		be.Uint32(b[20:])}, nil
}

// AppendTo appends the 24 octets of the payload.
func (e *ExchangeState) AppendTo(b []byte) []byte {
	b = AppendAccept(b)
	b = binary.BigEndian.AppendUint16(b, e.OXID)
	b = binary.BigEndian.AppendUint16(b, e.RXID)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Originator))
	b = binary.BigEndian.AppendUint32(b, uint32(e.Responder))
	b = binary.BigEndian.AppendUint32(b, e.Transferred)
	return binary.BigEndian.AppendUint32(b, e.Status)
}

// AppendTimeouts appends the acceptance of RTV: R_A_TOV and E_D_TOV in milliseconds.
func AppendTimeouts(b []byte, ratov, edtov uint32) []byte {
	b = binary.BigEndian.AppendUint32(AppendAccept(b), ratov)
	b = binary.BigEndian.AppendUint32(b, edtov)
	return append(b, 0, 0, 0, 0)
}

// AppendAbortAccept appends BA_ACC: the exchange is aborted.
func AppendAbortAccept(b []byte, oxid, rxid uint16) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, oxid)
	b = binary.BigEndian.AppendUint16(b, rxid)
	return append(b, 0, 0, 0xff, 0xff)
}

// AppendAbortReject appends BA_RJT.
func AppendAbortReject(b []byte, r Reason, e Explanation) []byte {
	return append(b, 0, byte(r), byte(e), 0)
}
