package mgmt

import (
	"fmt"

	"tapir/ptp/msg"
)

var eventNames = [...]string{msg.EventPortState: "NOTIFY_PORT_STATE", msg.EventTimeSync: "NOTIFY_TIME_SYNC",
	msg.EventParentDataSet: "NOTIFY_PARENT_DATA_SET"}

func eventRows(d *msg.SubscribeEvents) []Row {
	rows := []Row{row("duration", "%d", d.Duration)}
	for e, name := range eventNames {
		rows = append(rows, Row{name, map[bool]string{true: "on", false: "off"}[d.Has(msg.Event(e))]})
	}
	return rows
}

func timestamping(t msg.Timestamping) string {
	names := [...]string{"SOFTWARE", "HARDWARE", "LEGACY_HW", "ONE_STEP", "P2P1STEP"}
	if int(t) < len(names) {
		return names[t]
	}
	return "?"
}

func counterRows(prefix string, c *[16]uint64) (rows []Row) {
	for t := range msg.Type(16) {
		if t.Len() > 0 {
			rows = append(rows, row(prefix+t.String(), "%d", c[t]))
		}
	}
	return rows
}

var serviceNames = [msg.NumServiceStats]string{
	msg.StatAnnounceTimeout: "announce_timeout", msg.StatSyncTimeout: "sync_timeout",
	msg.StatDelayTimeout:          "delay_timeout",
	msg.StatUnicastServiceTimeout: "unicast_service_timeout", msg.StatUnicastRequestTimeout: "unicast_request_timeout",
	msg.StatMasterAnnounceTimeout: "master_announce_timeout", msg.StatMasterSyncTimeout: "master_sync_timeout",
	msg.StatQualificationTimeout: "qualification_timeout", msg.StatSyncMismatch: "sync_mismatch",
	msg.StatFollowUpMismatch: "followup_mismatch",
}

// masterRows lists a table as pmc does, each row in one line.
func masterRows(u *msg.UnicastMasterTable) []Row {
	rows := []Row{row("actual_table_size", " %d", len(u.Masters)),
		{Name: fmt.Sprintf("%s  %-24s %-34s %-9s %s %s %s %s  %s", "BM", "identity", "address", "state",
			"clockClass", "clockQuality", "offsetScaledLogVariance", "p1", "p2")}}
	states := [...]string{"WAIT", "HAVE_ANN", "NEED_SYDY", "HAVE_SYDY"}
	for i := range u.Masters {
		m, st := &u.Masters[i], "?"
		if int(m.State) < len(states) {
			st = states[m.State]
		}
		rows = append(rows, Row{Name: fmt.Sprintf(
			"%s %-24s %-34s %-9s %-10d 0x%02x         0x%04x                  %-3d %-3d",
			map[bool]string{true: "yes", false: "no "}[m.Selected], m.Identity, address(&m.Address), st,
			m.Quality.Class, m.Quality.Accuracy, m.Quality.Variance, m.Priority1, m.Priority2)})
	}
	return rows
}
