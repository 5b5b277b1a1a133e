package mgmt

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"tapir/ptp/msg"
)

// Row is a line of a Reply's text.
type Row struct{ Name, Value string }

var actionNames = [...]string{"GET", "SET", "RESPONSE", "COMMAND", "ACKNOWLEDGE"}

// ActionName is how pmc writes an action.
func ActionName(a msg.Action) string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return strconv.Itoa(int(a))
}

// widths has the place of the values of ids whose longest name does not tell.
var widths = map[msg.ManagementID]int{
	msg.IDUserDescription: 17, msg.IDUnicastMasterTable: 17, msg.IDPortProperties: 24, msg.IDPortHWClock: 24,
	msg.IDPortStats: 26, msg.IDPortServiceStats: 26,
}

// String is the reply as pmc prints it; of an error, also what it is.
func (r *Reply) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\t%v seq %d %s ", r.From, r.Sequence, ActionName(r.Action))
	rows := r.Rows()
	switch {
	case r.Error != 0:
		fmt.Fprintf(&b, "MANAGEMENT_ERROR_STATUS %v %v %s", r.ID, r.Error, r.Text)
		return strings.TrimRight(b.String(), " ") + "\n"
	case r.ID == msg.IDNullManagement:
		b.WriteString("MANAGEMENT ")
	case r.Data == nil:
		fmt.Fprintf(&b, "MANAGEMENT %v empty-tlv ", r.ID)
	default:
		fmt.Fprintf(&b, "MANAGEMENT %v ", r.ID)
	}
	width := widths[r.ID]
	if width == 0 {
		for _, row := range rows {
			width = max(width, len(row.Name)+1)
		}
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n\t\t%-*s%s", width, row.Name, row.Value)
	}
	b.WriteByte('\n')
	return b.String()
}

// lister collects rows.
type lister []Row

func (l *lister) add(name, format string, v any) { *l = append(*l, Row{name, fmt.Sprintf(format, v)}) }

func (l *lister) flag(name string, flags uint8, f msg.Flags) {
	v := 0
	if flags&uint8(f) != 0 {
		v = 1
	}
	l.add(name, "%d", v)
}

func (l *lister) quality(prefix [3]string, q msg.ClockQuality) {
	l.add(prefix[0], "%d", q.Class)
	l.add(prefix[1], "0x%02x", q.Accuracy)
	l.add(prefix[2], "0x%04x", q.Variance)
}

func (l *lister) timeFlags(flags uint8) {
	l.flag("leap61", flags, msg.FlagLeap61)
	l.flag("leap59", flags, msg.FlagLeap59)
	l.flag("currentUtcOffsetValid", flags, msg.FlagUTCOffsetValid)
	l.flag("ptpTimescale", flags, msg.FlagPTPTimescale)
	l.flag("timeTraceable", flags, msg.FlagTimeTraceable)
	l.flag("frequencyTraceable", flags, msg.FlagFrequencyTraceable)
}

// Rows are the fields of the data, named and written as pmc does.
func (r *Reply) Rows() []Row {
	var l lister
	switch d := r.Data.(type) {
	case *msg.Octet:
		l.octet(r.ID, d.Value)
	case *msg.ClockDescription:
		l.description(d)
	case *msg.UserDescription:
		l.add("userDescription", "%s", d.Text)
	case *msg.DefaultDataSet:
		l.defaultDS(d)
	case *msg.CurrentDataSet:
		l.add("stepsRemoved", "%d", d.StepsRemoved)
		l.add("offsetFromMaster", "%.1f", float64(d.OffsetFromMaster)/65536)
		l.add("meanPathDelay", "%.1f", float64(d.MeanPathDelay)/65536)
	case *msg.ParentDataSet:
		l.parentDS(d)
	case *msg.TimeProperties:
		l.add("currentUtcOffset", "%d", d.UTCOffset)
		l.timeFlags(d.Flags)
		l.add("timeSource", "0x%02x", uint8(d.Source))
	case *msg.PortDataSet:
		l.portDS(d)
	case *msg.TimeStatus:
		l.timeStatus(d)
	case *msg.GrandmasterSettings:
		l.quality([3]string{"clockClass", "clockAccuracy", "offsetScaledLogVariance"}, d.Quality)
		l.add("currentUtcOffset", "%d", d.UTCOffset)
		l.timeFlags(d.TimeFlags)
		l.add("timeSource", "0x%02x", uint8(d.Source))
	case *msg.PortDataSetNP:
		l.add("neighborPropDelayThresh", "%d", d.NeighborPropDelayThresh)
		l.add("asCapable", "%d", min(d.AsCapable, 1))
	default:
		l.linuxptp(d)
	}
	return l
}

// octetNames has the name and form of each id with a single value.
var octetNames = map[msg.ManagementID]struct {
	name, format string
	signed       bool
}{
	msg.IDPriority1:                {name: "priority1", format: "%d"},
	msg.IDPriority2:                {name: "priority2", format: "%d"},
	msg.IDDomain:                   {name: "domainNumber", format: "%d"},
	msg.IDSlaveOnly:                {name: "slaveOnly", format: "%d"},
	msg.IDClockAccuracy:            {name: "clockAccuracy", format: "0x%02x"},
	msg.IDLogAnnounceInterval:      {name: "logAnnounceInterval", format: "%d", signed: true},
	msg.IDAnnounceReceiptTimeout:   {name: "announceReceiptTimeout", format: "%d"},
	msg.IDLogSyncInterval:          {name: "logSyncInterval", format: "%d", signed: true},
	msg.IDVersionNumber:            {name: "versionNumber", format: "%d"},
	msg.IDDelayMechanism:           {name: "delayMechanism", format: "%d"},
	msg.IDLogMinPdelayReqInterval:  {name: "logMinPdelayReqInterval", format: "%d", signed: true},
	msg.IDSynchronizationUncertain: {name: "uncertain", format: "%d"},
}

func (l *lister) octet(id msg.ManagementID, v uint8) {
	switch id {
	case msg.IDTraceability:
		l.flag("timeTraceable", v, msg.FlagTimeTraceable)
		l.flag("frequencyTraceable", v, msg.FlagFrequencyTraceable)
		return
	case msg.IDTimescale:
		l.flag("ptpTimescale", v, msg.FlagPTPTimescale)
		return
	case msg.IDVersionNumber:
		v &= 15
	}
	n, value := octetNames[id], any(v)
	if n.signed {
		value = int8(v)
	}
	l.add(n.name, n.format, value)
}

func (l *lister) description(d *msg.ClockDescription) {
	l.add("clockType", "0x%x", d.Type)
	l.add("physicalLayerProtocol", "%s", d.PhysicalProtocol)
	l.add("physicalAddress", "%s", colons(d.PhysicalAddress))
	l.add("protocolAddress", "%s", fmt.Sprintf("%d %s", d.ProtocolAddress.Protocol, address(&d.ProtocolAddress)))
	l.add("manufacturerId", "%s", colons(d.Manufacturer[:]))
	l.add("productDescription", "%s", d.Product)
	l.add("revisionData", "%s", d.Revision)
	l.add("userDescription", "%s", d.User)
	l.add("profileId", "%s", colons(d.Profile[:]))
}

func colons(b []byte) string {
	var s strings.Builder
	for i, v := range b {
		if i > 0 {
			s.WriteByte(':')
		}
		fmt.Fprintf(&s, "%02x", v)
	}
	return s.String()
}

func address(p *msg.PortAddress) string {
	if p.Protocol == msg.NetworkUDPv4 || p.Protocol == msg.NetworkUDPv6 {
		if a, ok := netip.AddrFromSlice(p.Address); ok {
			return a.String()
		}
	}
	return colons(p.Address)
}

func (l *lister) defaultDS(d *msg.DefaultDataSet) {
	l.flag("twoStepFlag", d.Flags, msg.Flags(msg.DefaultTwoStep))
	l.flag("slaveOnly", d.Flags, msg.Flags(msg.DefaultSlaveOnly))
	l.add("numberPorts", "%d", d.NumberPorts)
	l.add("priority1", "%d", d.Priority1)
	l.quality([3]string{"clockClass", "clockAccuracy", "offsetScaledLogVariance"}, d.Quality)
	l.add("priority2", "%d", d.Priority2)
	l.add("clockIdentity", "%v", d.Identity)
	l.add("domainNumber", "%d", d.Domain)
}

func (l *lister) parentDS(d *msg.ParentDataSet) {
	l.add("parentPortIdentity", "%v", d.Parent)
	l.add("parentStats", "%d", d.Stats)
	l.add("observedParentOffsetScaledLogVariance", "0x%04x", d.ObservedVariance)
	l.add("observedParentClockPhaseChangeRate", "0x%08x", uint32(d.ObservedPhaseChangeRate))
	l.add("grandmasterPriority1", "%d", d.GrandmasterPriority1)
	l.quality([3]string{"gm.ClockClass", "gm.ClockAccuracy", "gm.OffsetScaledLogVariance"}, d.GrandmasterQuality)
	l.add("grandmasterPriority2", "%d", d.GrandmasterPriority2)
	l.add("grandmasterIdentity", "%v", d.GrandmasterIdentity)
}

// state is the port state as it is on the wire: linuxptp's own is none.
func state(s msg.PortState) msg.PortState {
	if s > msg.StateSlave {
		return 0
	}
	return s
}

func (l *lister) portDS(d *msg.PortDataSet) {
	l.add("portIdentity", "%v", d.Identity)
	l.add("portState", "%v", state(d.State))
	l.add("logMinDelayReqInterval", "%d", d.LogMinDelayReqInterval)
	l.add("peerMeanPathDelay", "%d", int64(d.PeerMeanPathDelay.Duration()))
	l.add("logAnnounceInterval", "%d", d.LogAnnounceInterval)
	l.add("announceReceiptTimeout", "%d", d.AnnounceReceiptTimeout)
	l.add("logSyncInterval", "%d", d.LogSyncInterval)
	l.add("delayMechanism", "%d", d.DelayMechanism)
	l.add("logMinPdelayReqInterval", "%d", d.LogMinPdelayReqInterval)
	l.add("versionNumber", "%d", d.Version&15)
}

func (l *lister) timeStatus(d *msg.TimeStatus) {
	l.add("master_offset", "%d", d.MasterOffset)
	l.add("ingress_time", "%d", d.IngressTime)
	l.add("cumulativeScaledRateOffset", "%+.9f", math.Ldexp(float64(d.CumulativeRateOffset), -41))
	l.add("scaledLastGmPhaseChange", "%d", d.LastFreqChange)
	l.add("gmTimeBaseIndicator", "%d", d.TimeBaseIndicator)
	p := d.LastPhaseChange
	l.add("lastGmPhaseChange", "%s", fmt.Sprintf("0x%04x'%016x.%04x", p.MSB, p.LSB, p.Fraction))
	l.add("gmPresent", "%v", d.GrandmasterPresent != 0)
	l.add("gmIdentity", "%v", d.GrandmasterIdentity)
}
