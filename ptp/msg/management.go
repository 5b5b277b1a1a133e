package msg

import (
	"encoding/binary"
	"errors"
	"strconv"
)

// ManagementID names what a management TLV is about (table 59, and those of
// linuxptp, from 0xc000 on).
type ManagementID uint16

// The management ids.
const (
	IDNullManagement           ManagementID = 0x0000
	IDClockDescription         ManagementID = 0x0001
	IDUserDescription          ManagementID = 0x0002
	IDDefaultDataSet           ManagementID = 0x2000
	IDCurrentDataSet           ManagementID = 0x2001
	IDParentDataSet            ManagementID = 0x2002
	IDTimeProperties           ManagementID = 0x2003
	IDPortDataSet              ManagementID = 0x2004
	IDPriority1                ManagementID = 0x2005
	IDPriority2                ManagementID = 0x2006
	IDDomain                   ManagementID = 0x2007
	IDSlaveOnly                ManagementID = 0x2008
	IDLogAnnounceInterval      ManagementID = 0x2009
	IDAnnounceReceiptTimeout   ManagementID = 0x200a
	IDLogSyncInterval          ManagementID = 0x200b
	IDVersionNumber            ManagementID = 0x200c
	IDEnablePort               ManagementID = 0x200d
	IDDisablePort              ManagementID = 0x200e
	IDClockAccuracy            ManagementID = 0x2010
	IDTraceability             ManagementID = 0x2012
	IDTimescale                ManagementID = 0x2013
	IDDelayMechanism           ManagementID = 0x6000
	IDLogMinPdelayReqInterval  ManagementID = 0x6001
	IDTimeStatus               ManagementID = 0xc000
	IDGrandmasterSettings      ManagementID = 0xc001
	IDPortDataSetNP            ManagementID = 0xc002
	IDSubscribeEvents          ManagementID = 0xc003
	IDPortProperties           ManagementID = 0xc004
	IDPortStats                ManagementID = 0xc005
	IDSynchronizationUncertain ManagementID = 0xc006
	IDPortServiceStats         ManagementID = 0xc007
	IDUnicastMasterTable       ManagementID = 0xc008
	IDPortHWClock              ManagementID = 0xc009
)

// managementIDs has the name of each id and whether it is answered by each
// port or once by the clock.
var managementIDs = [...]struct {
	id   ManagementID
	name string
	port bool
	data func() any
}{
	{IDNullManagement, "NULL_MANAGEMENT", true, func() any { return new(Empty) }},
	{IDClockDescription, "CLOCK_DESCRIPTION", true, func() any { return new(ClockDescription) }},
	{IDUserDescription, "USER_DESCRIPTION", false, func() any { return new(UserDescription) }},
	{IDDefaultDataSet, "DEFAULT_DATA_SET", false, func() any { return new(DefaultDataSet) }},
	{IDCurrentDataSet, "CURRENT_DATA_SET", false, func() any { return new(CurrentDataSet) }},
	{IDParentDataSet, "PARENT_DATA_SET", false, func() any { return new(ParentDataSet) }},
	{IDTimeProperties, "TIME_PROPERTIES_DATA_SET", false, func() any { return new(TimeProperties) }},
	{IDPortDataSet, "PORT_DATA_SET", true, func() any { return new(PortDataSet) }},
	{IDPriority1, "PRIORITY1", false, newOctet},
	{IDPriority2, "PRIORITY2", false, newOctet},
	{IDDomain, "DOMAIN", false, newOctet},
	{IDSlaveOnly, "SLAVE_ONLY", false, newOctet},
	{IDLogAnnounceInterval, "LOG_ANNOUNCE_INTERVAL", true, newOctet},
	{IDAnnounceReceiptTimeout, "ANNOUNCE_RECEIPT_TIMEOUT", true, newOctet},
	{IDLogSyncInterval, "LOG_SYNC_INTERVAL", true, newOctet},
	{IDVersionNumber, "VERSION_NUMBER", true, newOctet},
	{IDEnablePort, "ENABLE_PORT", true, func() any { return new(Empty) }},
	{IDDisablePort, "DISABLE_PORT", true, func() any { return new(Empty) }},
	{IDClockAccuracy, "CLOCK_ACCURACY", false, newOctet},
	{IDTraceability, "TRACEABILITY_PROPERTIES", false, newOctet},
	{IDTimescale, "TIMESCALE_PROPERTIES", false, newOctet},
	{IDDelayMechanism, "DELAY_MECHANISM", true, newOctet},
	{IDLogMinPdelayReqInterval, "LOG_MIN_PDELAY_REQ_INTERVAL", true, newOctet},
	{IDTimeStatus, "TIME_STATUS_NP", false, func() any { return new(TimeStatus) }},
	{IDGrandmasterSettings, "GRANDMASTER_SETTINGS_NP", false, func() any { return new(GrandmasterSettings) }},
	{IDPortDataSetNP, "PORT_DATA_SET_NP", true, func() any { return new(PortDataSetNP) }},
	{IDSubscribeEvents, "SUBSCRIBE_EVENTS_NP", false, func() any { return new(SubscribeEvents) }},
	{IDPortProperties, "PORT_PROPERTIES_NP", true, func() any { return new(PortProperties) }},
	{IDPortStats, "PORT_STATS_NP", true, func() any { return new(PortStats) }},
	{IDSynchronizationUncertain, "SYNCHRONIZATION_UNCERTAIN_NP", false, newOctet},
	{IDPortServiceStats, "PORT_SERVICE_STATS_NP", true, func() any { return new(PortServiceStats) }},
	{IDUnicastMasterTable, "UNICAST_MASTER_TABLE_NP", true, func() any { return new(UnicastMasterTable) }},
	{IDPortHWClock, "PORT_HWCLOCK_NP", true, func() any { return new(PortHWClock) }},
}

func newOctet() any { return new(Octet) }

// ManagementIDs are all ids that this package knows, in ascending order.
func ManagementIDs() (ids []ManagementID) {
	for _, m := range managementIDs {
		ids = append(ids, m.id)
	}
	return ids
}

// String is the name of linuxptp's pmc.
func (id ManagementID) String() string {
	for i := range managementIDs {
		if managementIDs[i].id == id {
			return managementIDs[i].name
		}
	}
	return "0x" + strconv.FormatUint(uint64(id), 16)
}

// OfPort reports whether every port answers for itself, rather than the clock
// once for all.
func (id ManagementID) OfPort() bool {
	for i := range managementIDs {
		if managementIDs[i].id == id {
			return managementIDs[i].port
		}
	}
	return false
}

// What can be wrong with the data of a management TLV.
var (
	ErrManagementID = errors.New("msg: management id without a known layout")
	ErrDataLength   = errors.New("msg: management data of wrong length")
)

// ParseManagement splits the value of a TLVManagement into its id and its data,
// borrowed.
func ParseManagement(v []byte) (id ManagementID, data []byte, err error) {
	if len(v) < 2 {
		return 0, nil, ErrValueLength
	}
	return ManagementID(binary.BigEndian.Uint16(v)), v[2:], nil
}

// variable is implemented by data whose layout is not that of the struct.
type variable interface {
	parse(b []byte) error
	append(b []byte) []byte
}

// ParseData reads the data of a management TLV into a new struct: Octet,
// DefaultDataSet, PortStats..., as the id asks for.
func ParseData(id ManagementID, b []byte) (any, error) {
	for i := range managementIDs {
		if managementIDs[i].id != id {
			continue
		}
		data := managementIDs[i].data()
		if v, ok := data.(variable); ok {
			return data, v.parse(b)
		}
		if binary.Size(data) != len(b) {
			return nil, ErrDataLength
		}
		_, err := binary.Decode(b, binary.BigEndian, data)
		return data, err
	}
	return nil, ErrManagementID
}

// AppendManagement appends a TLVManagement. data is a pointer to the struct
// that ParseData gives for id, or nil for a TLV without data, as in a GET.
func AppendManagement(b []byte, id ManagementID, data any) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(openTLV(b, TLVManagement), uint16(id))
	if v, ok := data.(variable); ok {
		b = v.append(b)
	} else if data != nil {
		// It cannot fail: the struct is of fixed size.
		b, _ = binary.Append(b, binary.BigEndian, data)
	}
	return closeTLV(b, start)
}

// ManagementError tells why a management message was refused (section 15.5.4).
type ManagementError uint16

// The management errors.
const (
	ErrorResponseTooBig ManagementError = 0x0001
	ErrorNoSuchID       ManagementError = 0x0002
	ErrorWrongLength    ManagementError = 0x0003
	ErrorWrongValue     ManagementError = 0x0004
	ErrorNotSetable     ManagementError = 0x0005
	ErrorNotSupported   ManagementError = 0x0006
	ErrorGeneral        ManagementError = 0xfffe
)

// String is the name in the standard.
func (e ManagementError) String() string {
	names := [...]string{"", "RESPONSE_TOO_BIG", "NO_SUCH_ID", "WRONG_LENGTH", "WRONG_VALUE", "NOT_SETABLE",
		"NOT_SUPPORTED"}
	switch {
	case e == ErrorGeneral:
		return "GENERAL_ERROR"
	case e > 0 && int(e) < len(names):
		return names[e]
	}
	return "0x" + strconv.FormatUint(uint64(e), 16)
}

// ErrorStatus is a TLVManagementErrorStatus (section 15.5.4).
type ErrorStatus struct {
	Error ManagementError
	ID    ManagementID
	Text  string // displayData, at most 255 octets; may be empty
}

const errorStatusLen = 8

// Parse reads the value of a TLVManagementErrorStatus. The text may be missing
// altogether, as linuxptp sends it.
func (e *ErrorStatus) Parse(v []byte) error {
	if len(v) < errorStatusLen {
		return ErrValueLength
	}
	be, c := binary.BigEndian, cursor{b: v[errorStatusLen:]}
	*e = ErrorStatus{Error: ManagementError(be.Uint16(v)), ID: ManagementID(be.Uint16(v[2:]))}
	if len(c.b) > 0 {
		e.Text = c.text()
	}
	if !c.end() {
		return ErrValueLength
	}
	return nil
}

// Append appends the TLV; an empty text is left out.
func (e *ErrorStatus) Append(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(openTLV(b, TLVManagementErrorStatus), uint16(e.Error))
	b = append(binary.BigEndian.AppendUint16(b, uint16(e.ID)), 0, 0, 0, 0)
	if e.Text != "" {
		b = appendText(b, e.Text)
	}
	return closeTLV(b, start)
}

// cursor reads fields of variable length. After the first that does not fit,
// it has failed.
type cursor struct {
	b      []byte
	failed bool
}

// take returns the next n octets, nil if there are fewer.
func (c *cursor) take(n int) []byte {
	if c.failed || len(c.b) < n {
		c.failed = true
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) uint16() uint16 {
	if v := c.take(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

// text reads a PTPText (section 5.3.9).
func (c *cursor) text() string {
	if n := c.take(1); n != nil {
		return string(c.take(int(n[0])))
	}
	return ""
}

func (c *cursor) address() (p PortAddress) {
	n, err := p.parse(c.b)
	if err != nil {
		c.failed = true
		return PortAddress{}
	}
	c.take(n)
	return p
}

// end reports whether everything has been read, but perhaps an octet of
// padding.
func (c *cursor) end() bool { return !c.failed && len(c.b) <= 1 }

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(b, uint8(len(s))), s...)
}
