package mgmt

import (
	"embed"
	"reflect"
	"strings"
	"testing"

	"tapir/ptp/msg"
	"tapir/wire/wiretest"
)

//go:embed testdata
var testdata embed.FS

// What stock ptp4l has answered is printed here as stock pmc has printed it.
// Only the row of events grows with every version of linuxptp.
func TestTextOfPMC(t *testing.T) {
	text, err := testdata.ReadFile("testdata/pmc.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\t\t") {
			want[len(want)-1] += line
		} else {
			want = append(want, line)
		}
	}
	seen := map[msg.ManagementID]bool{}
	for i, b := range wiretest.Seeds(testdata, "testdata/ptp4l.hex") {
		var m msg.Message
		var r Reply
		if err := m.Parse(b); err != nil || !r.parse(&m) {
			t.Fatalf("%x: %v", b, err)
		}
		seen[r.ID] = true
		got := r.String()
		if r.ID == msg.IDSubscribeEvents {
			got, want[i] = got[:strings.Index(got, "\n")], want[i][:strings.Index(want[i], "\n")]
		}
		if got != want[i] {
			t.Errorf("printed\n%swant\n%s", got, want[i])
		}
		// And encoded again as it came.
		if again := m.Append(nil); string(again) != string(b) {
			t.Errorf("%v: encoded again %x, was %x", r.ID, again, b)
		}
		if r.Data != nil {
			if tlv := msg.AppendManagement(nil, r.ID, r.Data); string(tlv) != string(m.TLVs) {
				t.Errorf("%v: encoded again %x, was %x", r.ID, tlv, m.TLVs)
			}
		}
	}
	if len(seen) != 28 || len(want) != 32 {
		t.Errorf("%d ids in %d answers", len(seen), len(want))
	}
}

// What the version that was recorded does not know yet.
func TestTextOfOthers(t *testing.T) {
	from := msg.PortIdentity{Clock: msg.ClockIdentity{0x0a, 0x1b, 0x2c, 0xff, 0xfe, 0x3d, 0x4e, 0x5f}, Port: 1}
	events := &msg.SubscribeEvents{Duration: 60}
	events.Add(msg.EventTimeSync)
	stats := &msg.PortServiceStats{Identity: from}
	stats.Counters[msg.StatFollowUpMismatch] = 7
	for _, c := range []struct {
		reply Reply
		want  string
	}{
		{Reply{ID: msg.IDPriority1, Error: msg.ErrorNotSetable}, "\t0a1b2c.fffe.3d4e5f-1 seq 3 RESPONSE MANAGEMENT_ERROR_STATUS PRIORITY1 NOT_SETABLE\n"},
		{Reply{ID: msg.IDPriority1, Error: msg.ErrorGeneral, Text: "no room"}, "\t0a1b2c.fffe.3d4e5f-1 seq 3 RESPONSE MANAGEMENT_ERROR_STATUS PRIORITY1 GENERAL_ERROR no room\n"},
		{Reply{ID: msg.IDEnablePort, Action: msg.Acknowledge}, "\t0a1b2c.fffe.3d4e5f-1 seq 3 ACKNOWLEDGE MANAGEMENT ENABLE_PORT empty-tlv \n"},
		{Reply{ID: msg.IDSubscribeEvents, Data: events}, "\t0a1b2c.fffe.3d4e5f-1 seq 3 RESPONSE MANAGEMENT SUBSCRIBE_EVENTS_NP " +
			"\n\t\tduration               60\n\t\tNOTIFY_PORT_STATE      off\n\t\tNOTIFY_TIME_SYNC       on\n\t\tNOTIFY_PARENT_DATA_SET off\n"},
		{Reply{ID: msg.IDPortHWClock, Data: &msg.PortHWClock{Identity: from, PHCIndex: -1}}, "\t0a1b2c.fffe.3d4e5f-1 seq 3 RESPONSE MANAGEMENT PORT_HWCLOCK_NP " +
			"\n\t\tportIdentity            0a1b2c.fffe.3d4e5f-1\n\t\tphcIndex                -1\n\t\tflags                   0\n"},
		{Reply{ID: msg.IDUnicastMasterTable, Data: &msg.UnicastMasterTable{Masters: []msg.UnicastMaster{{Identity: from, Selected: true, State: 3, Priority1: 128, Priority2: 127,
			Quality: msg.ClockQuality{Class: 6, Accuracy: 0x21, Variance: 0x4e5d}, Address: msg.PortAddress{Protocol: msg.NetworkUDPv4, Address: []byte{10, 0, 0, 2}}}}}},
			"\t0a1b2c.fffe.3d4e5f-1 seq 3 RESPONSE MANAGEMENT UNICAST_MASTER_TABLE_NP \n\t\tactual_table_size 1" +
				"\n\t\tBM  identity                 address                            state     clockClass clockQuality offsetScaledLogVariance p1  p2" +
				"\n\t\tyes 0a1b2c.fffe.3d4e5f-1     10.0.0.2                           HAVE_SYDY 6          0x21         0x4e5d                  128 127\n"},
	} {
		c.reply.From, c.reply.Sequence = from, 3
		if c.reply.Action == 0 {
			c.reply.Action = msg.Response
		}
		if got := c.reply.String(); got != c.want {
			t.Errorf("printed\n%qwant\n%q", got, c.want)
		}
	}
	r := Reply{ID: msg.IDPortServiceStats, Data: stats}
	rows := r.Rows()
	if last := rows[len(rows)-1]; len(rows) != 11 || last != (Row{"followup_mismatch", "7"}) {
		t.Errorf("%v", rows)
	}
}

func TestParseCommand(t *testing.T) {
	events := &msg.SubscribeEvents{Duration: 65535}
	events.Add(msg.EventPortState)
	for line, want := range map[string]Request{
		"GET CURRENT_DATA_SET":          {ID: msg.IDCurrentDataSet},
		" get  port_st ":                {ID: msg.IDPortStats},
		"SET PRIORITY1 100":             {Action: msg.Set, ID: msg.IDPriority1, Data: &msg.Octet{Value: 100}},
		"set log_sync -4":               {Action: msg.Set, ID: msg.IDLogSyncInterval, Data: &msg.Octet{Value: 0xfc}},
		"SET PRIORITY2 priority2 0x7f":  {Action: msg.Set, ID: msg.IDPriority2, Data: &msg.Octet{Value: 127}},
		"cmd DISABLE_PORT":              {Action: msg.Command, ID: msg.IDDisablePort},
		"COMMAND enable":                {Action: msg.Command, ID: msg.IDEnablePort},
		"SET USER_DESCRIPTION a lab; b": {Action: msg.Set, ID: msg.IDUserDescription, Data: &msg.UserDescription{Text: "a lab; b"}},
		"SET TIMESCALE ptpTimescale 1":  {Action: msg.Set, ID: msg.IDTimescale, Data: &msg.Octet{Value: 8}},
		"SET SUBSCRIBE_EVENTS_NP duration -1 NOTIFY_PORT_STATE on NOTIFY_TIME off": {Action: msg.Set, ID: msg.IDSubscribeEvents, Data: events},
		"SET GRANDMASTER_SETTINGS_NP clockClass 6 clockAccuracy 0x21 offsetScaledLogVariance 0x4e5d currentUtcOffset -37 leap61 0 leap59 1 currentUtcOffsetValid 1 " +
			"ptpTimescale 1 timeTraceable 0 frequencyTraceable 1 timeSource 0x20": {Action: msg.Set, ID: msg.IDGrandmasterSettings,
			Data: &msg.GrandmasterSettings{Quality: msg.ClockQuality{Class: 6, Accuracy: 0x21, Variance: 0x4e5d}, UTCOffset: -37, TimeFlags: 0x2e, Source: msg.SourceGNSS}},
		"SET PORT_DATA_SET_NP neighborPropDelayThresh 900 asCapable 0": {Action: msg.Set, ID: msg.IDPortDataSetNP, Data: &msg.PortDataSetNP{NeighborPropDelayThresh: 900}},
	} {
		if got, err := ParseCommand(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for line, part := range map[string]string{
		"":                           "expected GET",
		"GET":                        "expected GET",
		"PUT PRIORITY1":              "is no action",
		"GET PRIO":                   "ambiguous: PRIORITY1, PRIORITY2",
		"GET NOTHING":                "no management id",
		"GET PRIORITY1 5":            "too much",
		"SET PRIORITY1":              "expected one value",
		"SET PRIORITY1 256":          "from 0 to 255",
		"SET LOG_SYNC_INTERVAL -129": "from -128 to 127",
		"SET PRIORITY1 x":            "not a number",
		"SET CURRENT_DATA_SET 1":     "cannot be set",
		"SET TIMESCALE_PROPERTIES 1": "no field",
		"SET TIMESCALE_PROPERTIES":   "ptpTimescale is missing",
		"SET TRACE timeTraceable":    "needs a value",
		"SET TRACE timeTraceable 2":  "from 0 to 1",
		"SET TRACE timeTraceable 1 timeTraceable 1":         "named twice",
		"SET SUBSCRIBE_EVENTS_NP 60":                        "expected duration",
		"SET SUBSCRIBE_EVENTS_NP duration -2":               "duration",
		"SET SUBSCRIBE_EVENTS_NP duration 1 NOTIFY_TIME":    "on or off",
		"SET SUBSCRIBE_EVENTS_NP duration 1 NOTIFY_X on":    "no event",
		"SET GRANDMASTER_SETTINGS_NP clockClass 6 leap61 2": "leap61",
	} {
		if r, err := ParseCommand(line); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %+v, %v", line, r, err)
		}
	}
}

// Neither a command nor an answer, whatever it is, does harm.
func FuzzText(f *testing.F) {
	f.Add("SET SUBSCRIBE_EVENTS_NP duration -1 NOTIFY_PORT_STATE on", []byte{})
	for _, b := range wiretest.Seeds(testdata, "testdata/ptp4l.hex") {
		f.Add("GET PRIORITY1", b)
	}
	f.Fuzz(func(t *testing.T, line string, b []byte) {
		c := &Client{}
		if r, err := ParseCommand(line); err == nil {
			var m msg.Message
			if err := m.Parse(c.Append(nil, r, 0)); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		var m msg.Message
		var r Reply
		if m.Parse(b) == nil && r.parse(&m) && !strings.HasSuffix(r.String(), "\n") {
			t.Errorf("%q", r.String())
		}
	})
}
