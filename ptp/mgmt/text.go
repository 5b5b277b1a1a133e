package mgmt

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
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

// row is a field, written in a format of fmt.
func row(name, format string, v any) Row { return Row{name, fmt.Sprintf(format, v)} }

func flag(name string, flags uint8, f msg.Flags) Row {
	return row(name, "%d", map[bool]int{true: 1}[flags&uint8(f) != 0])
}

// quality has the three fields of a clock's quality by their names.
func quality(names [3]string, q msg.ClockQuality) []Row {
	return []Row{row(names[0], "%d", q.Class), row(names[1], "0x%02x", q.Accuracy), row(names[2], "0x%04x", q.Variance)}
}

var ownQuality = [3]string{"clockClass", "clockAccuracy", "offsetScaledLogVariance"}

func timeRows(offset int16, flags uint8, source msg.TimeSource) []Row {
	return []Row{
		row("currentUtcOffset", "%d", offset),
		flag("leap61", flags, msg.FlagLeap61),
		flag("leap59", flags, msg.FlagLeap59),
		flag("currentUtcOffsetValid", flags, msg.FlagUTCOffsetValid),
		flag("ptpTimescale", flags, msg.FlagPTPTimescale),
		flag("timeTraceable", flags, msg.FlagTimeTraceable),
		flag("frequencyTraceable", flags, msg.FlagFrequencyTraceable),
		row("timeSource", "0x%02x", uint8(source)),
	}
}

// Rows are the fields of the data, named and written as pmc does.
func (r *Reply) Rows() []Row {
	switch d := r.Data.(type) {
	case *msg.Octet:
		return octetRows(r.ID, d.Value)
	case *msg.ClockDescription:
		return []Row{
			row("clockType", "0x%x", d.Type),
			{"physicalLayerProtocol", d.PhysicalProtocol},
			{"physicalAddress", colons(d.PhysicalAddress)},
			{"protocolAddress", fmt.Sprintf("%d %s", d.ProtocolAddress.Protocol, address(&d.ProtocolAddress))},
			{"manufacturerId", colons(d.Manufacturer[:])},
			{"productDescription", d.Product},
			{"revisionData", d.Revision},
			{"userDescription", d.User},
			{"profileId", colons(d.Profile[:])},
		}
	case *msg.UserDescription:
		return []Row{{"userDescription", d.Text}}
	case *msg.DefaultDataSet:
		return slices.Concat([]Row{
			flag("twoStepFlag", d.Flags, msg.Flags(msg.DefaultTwoStep)),
			flag("slaveOnly", d.Flags, msg.Flags(msg.DefaultSlaveOnly)),
			row("numberPorts", "%d", d.NumberPorts),
			row("priority1", "%d", d.Priority1),
		}, quality(ownQuality, d.Quality), []Row{
			row("priority2", "%d", d.Priority2),
			row("clockIdentity", "%v", d.Identity),
			row("domainNumber", "%d", d.Domain),
		})
	case *msg.CurrentDataSet:
		return []Row{
			row("stepsRemoved", "%d", d.StepsRemoved),
			row("offsetFromMaster", "%.1f", float64(d.OffsetFromMaster)/65536),
			row("meanPathDelay", "%.1f", float64(d.MeanPathDelay)/65536),
		}
	case *msg.ParentDataSet:
		return slices.Concat([]Row{
			row("parentPortIdentity", "%v", d.Parent),
			row("parentStats", "%d", d.Stats),
			row("observedParentOffsetScaledLogVariance", "0x%04x", d.ObservedVariance),
			row("observedParentClockPhaseChangeRate", "0x%08x", uint32(d.ObservedPhaseChangeRate)),
			row("grandmasterPriority1", "%d", d.GrandmasterPriority1),
		}, quality([3]string{"gm.ClockClass", "gm.ClockAccuracy", "gm.OffsetScaledLogVariance"}, d.GrandmasterQuality),
			[]Row{
				row("grandmasterPriority2", "%d", d.GrandmasterPriority2),
				row("grandmasterIdentity", "%v", d.GrandmasterIdentity),
			})
	case *msg.TimeProperties:
		return timeRows(d.UTCOffset, d.Flags, d.Source)
	case *msg.GrandmasterSettings:
		return append(quality(ownQuality, d.Quality), timeRows(d.UTCOffset, d.TimeFlags, d.Source)...)
	}
	return portRows(r.Data)
}

// portRows are the fields of the data of a port, and of what linuxptp has added.
func portRows(data any) []Row {
	switch d := data.(type) {
	case *msg.PortDataSet:
		return []Row{
			row("portIdentity", "%v", d.Identity),
			row("portState", "%v", state(d.State)),
			row("logMinDelayReqInterval", "%d", d.LogMinDelayReqInterval),
			row("peerMeanPathDelay", "%d", int64(d.PeerMeanPathDelay.Duration())),
			row("logAnnounceInterval", "%d", d.LogAnnounceInterval),
			row("announceReceiptTimeout", "%d", d.AnnounceReceiptTimeout),
			row("logSyncInterval", "%d", d.LogSyncInterval),
			row("delayMechanism", "%d", d.DelayMechanism),
			row("logMinPdelayReqInterval", "%d", d.LogMinPdelayReqInterval),
			row("versionNumber", "%d", d.Version&15),
		}
	case *msg.TimeStatus:
		p := d.LastPhaseChange
		return []Row{
			row("master_offset", "%d", d.MasterOffset),
			row("ingress_time", "%d", d.IngressTime),
			row("cumulativeScaledRateOffset", "%+.9f", math.Ldexp(float64(d.CumulativeRateOffset), -41)),
			row("scaledLastGmPhaseChange", "%d", d.LastFreqChange),
			row("gmTimeBaseIndicator", "%d", d.TimeBaseIndicator),
			{"lastGmPhaseChange", fmt.Sprintf("0x%04x'%016x.%04x", p.MSB, p.LSB, p.Fraction)},
			row("gmPresent", "%v", d.GrandmasterPresent != 0),
			row("gmIdentity", "%v", d.GrandmasterIdentity),
		}
	case *msg.PortDataSetNP:
		return []Row{
			row("neighborPropDelayThresh", "%d", d.NeighborPropDelayThresh),
			row("asCapable", "%d", min(d.AsCapable, 1)),
		}
	case *msg.PortProperties:
		return []Row{
			row("portIdentity", "%v", d.Identity),
			row("portState", "%v", state(d.State)),
			{"timestamping", timestamping(d.Timestamping)},
			{"interface", d.Interface},
		}
	case *msg.PortHWClock:
		return []Row{row("portIdentity", "%v", d.Identity), row("phcIndex", "%d", d.PHCIndex),
			row("flags", "%d", d.Flags)}
	case *msg.PortStats:
		return slices.Concat([]Row{row("portIdentity", "%v", d.Identity)}, counterRows("rx_", &d.Rx),
			counterRows("tx_", &d.Tx))
	case *msg.PortServiceStats:
		rows := []Row{row("portIdentity", "%v", d.Identity)}
		for i, name := range serviceNames {
			rows = append(rows, row(name, "%d", d.Counters[i]))
		}
		return rows
	case *msg.UnicastMasterTable:
		return masterRows(d)
	case *msg.SubscribeEvents:
		return eventRows(d)
	}
	return nil
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

func octetRows(id msg.ManagementID, v uint8) []Row {
	n, value := octetNames[id], any(v)
	switch {
	case id == msg.IDTraceability:
		return []Row{flag("timeTraceable", v, msg.FlagTimeTraceable),
			flag("frequencyTraceable", v, msg.FlagFrequencyTraceable)}
	case id == msg.IDTimescale:
		return []Row{flag("ptpTimescale", v, msg.FlagPTPTimescale)}
	case id == msg.IDVersionNumber:
		value = v & 15
	case n.signed:
		value = int8(v)
	}
	return []Row{row(n.name, n.format, value)}
}

func colons(b []byte) string { return strings.ReplaceAll(fmt.Sprintf("% x", b), " ", ":") }

func address(p *msg.PortAddress) string {
	if p.Protocol == msg.NetworkUDPv4 || p.Protocol == msg.NetworkUDPv6 {
		if a, ok := netip.AddrFromSlice(p.Address); ok {
			return a.String()
		}
	}
	return colons(p.Address)
}

// state is the port state as it is on the wire: linuxptp's own is none.
func state(s msg.PortState) msg.PortState {
	if s > msg.StateSlave {
		return 0
	}
	return s
}
