package mgmt

import (
	"fmt"

	"tapir/ptp/msg"
)

// linuxptp lists the data of ids that linuxptp has added and that come by
// ports or events.
func (l *lister) linuxptp(data any) {
	switch d := data.(type) {
	case *msg.SubscribeEvents:
		l.add("duration", "%d", d.Duration)
		for e, name := range eventNames {
			l.add(name, "%s", map[bool]string{true: "on", false: "off"}[d.Has(msg.Event(e))])
		}
	case *msg.PortProperties:
		l.add("portIdentity", "%v", d.Identity)
		l.add("portState", "%v", state(d.State))
		l.add("timestamping", "%s", timestamping(d.Timestamping))
		l.add("interface", "%s", d.Interface)
	case *msg.PortHWClock:
		l.add("portIdentity", "%v", d.Identity)
		l.add("phcIndex", "%d", d.PHCIndex)
		l.add("flags", "%d", d.Flags)
	case *msg.PortStats:
		l.add("portIdentity", "%v", d.Identity)
		l.counters("rx_", &d.Rx)
		l.counters("tx_", &d.Tx)
	case *msg.PortServiceStats:
		l.add("portIdentity", "%v", d.Identity)
		for i, name := range serviceNames {
			l.add(name, "%d", d.Counters[i])
		}
	case *msg.UnicastMasterTable:
		l.masters(d)
	}
}

var eventNames = [...]string{msg.EventPortState: "NOTIFY_PORT_STATE", msg.EventTimeSync: "NOTIFY_TIME_SYNC",
	msg.EventParentDataSet: "NOTIFY_PARENT_DATA_SET"}

func timestamping(t msg.Timestamping) string {
	names := [...]string{"SOFTWARE", "HARDWARE", "LEGACY_HW", "ONE_STEP", "P2P1STEP"}
	if int(t) < len(names) {
		return names[t]
	}
	return "?"
}

func (l *lister) counters(prefix string, c *[16]uint64) {
	for t := range msg.Type(16) {
		if t.Len() > 0 {
			l.add(prefix+t.String(), "%d", c[t])
		}
	}
}

var serviceNames = [msg.NumServiceStats]string{
	msg.StatAnnounceTimeout: "announce_timeout", msg.StatSyncTimeout: "sync_timeout",
	msg.StatDelayTimeout:          "delay_timeout",
	msg.StatUnicastServiceTimeout: "unicast_service_timeout", msg.StatUnicastRequestTimeout: "unicast_request_timeout",
	msg.StatMasterAnnounceTimeout: "master_announce_timeout", msg.StatMasterSyncTimeout: "master_sync_timeout",
	msg.StatQualificationTimeout: "qualification_timeout", msg.StatSyncMismatch: "sync_mismatch",
	msg.StatFollowUpMismatch: "followup_mismatch",
}

// masters lists a table as pmc does, each row in one line.
func (l *lister) masters(u *msg.UnicastMasterTable) {
	l.add("actual_table_size", " %d", len(u.Masters))
	l.add(fmt.Sprintf("%s  %-24s %-34s %-9s %s %s %s %s  %s", "BM", "identity", "address", "state",
		"clockClass", "clockQuality", "offsetScaledLogVariance", "p1", "p2"), "%s", "")
	states := [...]string{"WAIT", "HAVE_ANN", "NEED_SYDY", "HAVE_SYDY"}
	for i := range u.Masters {
		m, best, st := &u.Masters[i], "no ", "?"
		if m.Selected {
			best = "yes"
		}
		if int(m.State) < len(states) {
			st = states[m.State]
		}
		l.add(fmt.Sprintf("%s %-24s %-34s %-9s %-10d 0x%02x         0x%04x                  %-3d %-3d", best,
			m.Identity, address(&m.Address), st, m.Quality.Class, m.Quality.Accuracy, m.Quality.Variance, m.Priority1,
			m.Priority2), "%s", "")
	}
}
