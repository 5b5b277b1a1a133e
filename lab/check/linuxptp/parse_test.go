package linuxptp

import (
	"reflect"
	"strings"
	"testing"
)

// As ptp4l 3.1.1 and, in the last three lines, ptp4l 4 and phc2sys print it.
const log = `ptp4l[23267.028]: port 1: INITIALIZING to LISTENING on INIT_COMPLETE
ptp4l[23267.028]: port 0: INITIALIZING to LISTENING on INIT_COMPLETE
ptp4l[23267.861]: port 1: new foreign master 8657cc.fffe.b40b2d-1
ptp4l[23268.361]: port 1: LISTENING to UNCALIBRATED on RS_SLAVE
ptp4l[23269.428]: master offset        -33 s2 freq     +12 path delay      1492
ptp4l[23269.428]: rms  381 max 1100 freq     +0 +/-   0 delay  1028 +/-  84
ptp4l[5.1]: port 2 (eth0): UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED
ptp4l[5.2]: master offset 7 s0 freq -36999 path delay -5
phc2sys[5.3]: CLOCK_REALTIME phc offset       -52 s2 freq    +100 delay    90`

func TestLog(t *testing.T) {
	l := Log(strings.Split(log, "\n"))
	want := []Transition{
		{1, "INITIALIZING", "LISTENING", "INIT_COMPLETE"},
		{0, "INITIALIZING", "LISTENING", "INIT_COMPLETE"},
		{1, "LISTENING", "UNCALIBRATED", "RS_SLAVE"},
		{2, "UNCALIBRATED", "SLAVE", "MASTER_CLOCK_SELECTED"},
	}
	if got := l.Transitions(); !reflect.DeepEqual(got, want) {
		t.Errorf("transitions %v, want %v", got, want)
	}
	if a, b, c := l.State(1), l.State(2), l.State(3); a != "UNCALIBRATED" || b != "SLAVE" || c != "" {
		t.Errorf("states %q, %q, %q", a, b, c)
	}
	samples := []Sample{{-33, "s2", 12, 1492}, {7, "s0", -36999, -5}, {-52, "s2", 100, 90}}
	if got := l.Samples(); !reflect.DeepEqual(got, samples) {
		t.Errorf("samples %v, want %v", got, samples)
	}
}

func TestReplies(t *testing.T) {
	got := ParseReplies(strings.Split("sending: GET PORT_DATA_SET\n"+
		"\t2205b5.fffe.483f13-1 seq 1 RESPONSE MANAGMENT PORT_DATA_SET \n\t\tportState               UNCALIBRATED\n\t\tlogMinDelayReqInterval  -4\n"+
		"\t2205b5.fffe.483f13-0 seq 5 RESPONSE MANAGEMENT \n"+
		"\t2205b5.fffe.483f13-1 seq 6 RESPONSE MANAGEMENT_ERROR_STATUS USER_DESCRIPTION NOT_SUPPORTED", "\n"))
	want := []Reply{
		{"2205b5.fffe.483f13-1", 1, "RESPONSE", "MANAGEMENT", "PORT_DATA_SET", []Field{{"portState", "UNCALIBRATED"}, {"logMinDelayReqInterval", "-4"}}},
		{"2205b5.fffe.483f13-0", 5, "RESPONSE", "MANAGEMENT", "", nil},
		{"2205b5.fffe.483f13-1", 6, "RESPONSE", "MANAGEMENT_ERROR_STATUS", "USER_DESCRIPTION NOT_SUPPORTED", nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if v := got[0].Get("portState"); v != "UNCALIBRATED" || got[0].Get("none") != "" {
		t.Errorf("portState %q", v)
	}
}

func TestSourceStats(t *testing.T) {
	got, err := parseSourceStats([]string{"NIC0,17,9,16,-12.003,0.005,0.000000001,0.000000002"})
	want := []SourceStats{{"NIC0", 17, -12.003, 0.005, 2e-9, 1e-9}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	for _, bad := range []string{"NIC0,17", "NIC0,x,9,16,1,2,3,4", "NIC0,1,9,16,1,2,3,four"} {
		if _, err := parseSourceStats([]string{bad}); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
