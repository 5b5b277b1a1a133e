package suite

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/tool/ptpuds"
	"tapir/ptp"
	"tapir/ptp/mgmt"
	"tapir/wire/frame"
)

// both are the answers of two ports.
func both(fields string) []string { return []string{fields, fields} }

// requests of 20-pmc that pmc 3.1 knows, with the fields of each answer: name
// and pattern of the value.
var requests = []struct {
	request string
	answers []string
}{
	{"GET USER_DESCRIPTION", []string{"userDescription "}},
	{"GET DEFAULT_DATA_SET", []string{`twoStepFlag 1,slaveOnly 0,numberPorts 2,priority1 128,clockClass 248,clockAccuracy 0xfe,
		offsetScaledLogVariance 0xffff,priority2 128,clockIdentity 123456\.fffe\.780102,domainNumber 0`}},
	{"GET CURRENT_DATA_SET", []string{`stepsRemoved 1,offsetFromMaster -?[0-9]+\.[0-9]+,meanPathDelay [0-9]+\.[0-9]+`}},
	{"GET PARENT_DATA_SET", []string{`parentPortIdentity 123456\.fffe\.780101-1,parentStats 0,
		observedParentOffsetScaledLogVariance 0xffff,observedParentClockPhaseChangeRate 0x7fffffff,grandmasterPriority1 128,
		gm\.ClockClass 248,gm\.ClockAccuracy 0xfe,gm\.OffsetScaledLogVariance 0xffff,grandmasterPriority2 128,
		grandmasterIdentity 123456\.fffe\.780101`}},
	{"GET TIME_PROPERTIES_DATA_SET", []string{`currentUtcOffset 3[567],leap61 0,leap59 0,currentUtcOffsetValid 0,ptpTimescale 1,
		timeTraceable 0,frequencyTraceable 0,timeSource 0xa0`}},
	{"GET PRIORITY1", []string{"priority1 128"}},
	{"GET PRIORITY2", []string{"priority2 128"}},
	{"GET DOMAIN", []string{"domainNumber 0"}},
	{"GET SLAVE_ONLY", []string{"slaveOnly 0"}},
	{"GET CLOCK_ACCURACY", []string{"clockAccuracy 0xfe"}},
	{"GET TRACEABILITY_PROPERTIES", []string{"timeTraceable 0,frequencyTraceable 0"}},
	{"GET TIMESCALE_PROPERTIES", []string{"ptpTimescale 1"}},
	{"GET TIME_STATUS_NP", []string{`master_offset -?[0-9]+,ingress_time 1262304[0-9]+,cumulativeScaledRateOffset \+0\.000000000,
		scaledLastGmPhaseChange 0,gmTimeBaseIndicator 0,lastGmPhaseChange 0x0000'0000000000000000\.0000,gmPresent true,
		gmIdentity 123456\.fffe\.780101`}},
	{"GET GRANDMASTER_SETTINGS_NP", []string{`clockClass 248,clockAccuracy 0xfe,offsetScaledLogVariance 0xffff,currentUtcOffset 3[567],
		leap61 0,leap59 0,currentUtcOffsetValid 0,ptpTimescale 1,timeTraceable 0,frequencyTraceable 0,timeSource 0xa0`}},
	{"GET NULL_MANAGEMENT", both("")},
	{"GET CLOCK_DESCRIPTION", []string{
		`clockType 0x4000,physicalLayerProtocol IEEE 802\.3,physicalAddress 12:34:56:78:01:02,protocolAddress 1 192\.168\.123\.2,
		manufacturerId 00:00:00,productDescription ;;,revisionData ;;,userDescription ,profileId 00:1b:19:00:01:00`,
		`clockType 0x4000,physicalLayerProtocol IEEE 802\.3,physicalAddress 12:34:56:78:02:02,protocolAddress 1 192\.168\.124\.2,
		manufacturerId 00:00:00,productDescription ;;,revisionData ;;,userDescription ,profileId 00:1b:19:00:01:00`}},
	{"GET PORT_DATA_SET", []string{portDataSet(1, "SLAVE"), portDataSet(2, "MASTER")}},
	{"GET LOG_ANNOUNCE_INTERVAL", both("logAnnounceInterval 1")},
	{"GET ANNOUNCE_RECEIPT_TIMEOUT", both("announceReceiptTimeout 3")},
	{"GET LOG_SYNC_INTERVAL", both("logSyncInterval 0")},
	{"GET VERSION_NUMBER", both("versionNumber 2")},
	{"GET DELAY_MECHANISM", both("delayMechanism 1")},
	{"GET LOG_MIN_PDELAY_REQ_INTERVAL", both("logMinPdelayReqInterval 0")},
	{"GET PORT_DATA_SET_NP", both("neighborPropDelayThresh 20000000,asCapable 1")},
	{"GET PORT_STATS_NP", []string{
		stats("1", "rx_Sync,rx_Follow_Up,rx_Delay_Resp,rx_Announce,tx_Delay_Req"), stats("2", "tx_Sync,tx_Follow_Up,tx_Announce")}},
	{"GET PORT_PROPERTIES_NP", []string{
		`portIdentity 123456\.fffe\.780102-1,portState SLAVE,timestamping HARDWARE,interface eth0`,
		`portIdentity 123456\.fffe\.780102-2,portState MASTER,timestamping HARDWARE,interface eth1`}},
	{"SET PRIORITY1 130", []string{"priority1 130"}},
	{"SET PRIORITY2 130", []string{"priority2 130"}},
	{"SET GRANDMASTER_SETTINGS_NP clockClass 6 clockAccuracy 0xfd offsetScaledLogVariance 0xfffe currentUtcOffset 50 leap61 1 leap59 0 " +
		"currentUtcOffsetValid 1 ptpTimescale 0 timeTraceable 1 frequencyTraceable 1 timeSource 0xa1",
		[]string{`clockClass 6,clockAccuracy 0xfd,offsetScaledLogVariance 0xfffe,currentUtcOffset 50,leap61 1,leap59 0,
		currentUtcOffsetValid 1,ptpTimescale 0,timeTraceable 1,frequencyTraceable 1,timeSource 0xa1`}},
	{"SET SUBSCRIBE_EVENTS_NP duration 1 NOTIFY_PORT_STATE on", []string{"duration 1,NOTIFY_PORT_STATE on"}},
	// asCapable is ignored
	{"SET PORT_DATA_SET_NP neighborPropDelayThresh 1000 asCapable 0", both("neighborPropDelayThresh 1000,asCapable 1")},
}

func portDataSet(port int, state string) string {
	return `portIdentity 123456\.fffe\.780102-` + string(rune('0'+port)) + `,portState ` + state + `,logMinDelayReqInterval 0,
	peerMeanPathDelay 0,logAnnounceInterval 1,announceReceiptTimeout 3,logSyncInterval 0,delayMechanism 1,
	logMinPdelayReqInterval 0,versionNumber 2`
}

// stats are the counters of a port, some of which have counted tens.
func stats(port, counted string) string {
	rows := `portIdentity 123456\.fffe\.780102-` + port
	for _, dir := range []string{"rx_", "tx_"} {
		for _, m := range []string{"Sync", "Delay_Req", "Pdelay_Req", "Pdelay_Resp", "Follow_Up", "Delay_Resp", "Pdelay_Resp_Follow_Up",
			"Announce", "Signaling", "Management"} {
			value := " 0"
			if strings.Contains(","+counted+",", ","+dir+m+",") {
				value = " [1-4][0-9]"
			}
			rows += "," + dir + m + value
		}
	}
	return rows
}

// TestPMC stops the time at 50 s, and lets stock pmc ask the boundary clock.
func TestPMC(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets, s.limits.End, s.jitter = [][]int{{1, 2}, {2}}, 50*time.Second, 0
	s.each = map[int]func(*ptp.Config){2: func(c *ptp.Config) {
		for i := range c.Ports { // ptp4l's default
			c.Ports[i].NeighborPropDelayThresh = 20 * time.Millisecond
		}
	}}
	w := run(t, s)
	n := w.nodes[2]
	socket, err := ptpuds.Listen(filepath.Join(t.TempDir(), "ptp"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	cfg := mgmt.Config{Product: ";;", Revision: ";;", Profile: [6]byte{0, 0x1b, 0x19, 0, 1, 0}}
	for port, subnet := range n.subnets {
		cfg.Ports = append(cfg.Ports, mgmt.PortInfo{Interface: "eth" + string(rune('0'+port)), MAC: n.mac(subnet), Address: n.addr(subnet),
			Timestamping: 1, PHCIndex: 1})
	}
	server := mgmt.New(cfg, n.instance)
	server.SetLocal(socket)
	n.instance.Manage(server)
	var mu sync.Mutex
	socket.Serve(func(fn func(now frame.Time)) bool {
		mu.Lock()
		defer mu.Unlock()
		fn(w.now)
		return true
	}, server)
	host, err := linuxptp.NewIsolated()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, r := range requests {
		var replies []linuxptp.Reply
		// pmc waits for a tenth of a second only, which a busy machine may need.
		for try := 0; len(replies) < len(r.answers) && try < 10; try++ {
			if replies, err = host.PMC(ctx, []string{"-u", "-b", "0", "-s", socket.Path()}, r.request); err != nil {
				t.Fatal(err)
			}
		}
		if len(replies) != len(r.answers) {
			t.Errorf("%s: %d answers, want %d: %+v", r.request, len(replies), len(r.answers), replies)
			continue
		}
		for i, want := range r.answers {
			checkReply(t, r.request, replies[i], want)
		}
	}
}

// checkReply holds the rows of an answer against their patterns.
func checkReply(t *testing.T, request string, got linuxptp.Reply, want string) {
	t.Helper()
	if got.Kind != "MANAGEMENT" || !strings.HasPrefix(got.From, "123456.fffe.780102-") {
		t.Errorf("%s: %+v", request, got)
		return
	}
	var rows []string
	if want != "" {
		rows = strings.Split(want, ",")
	}
	if len(got.Fields) < len(rows) {
		t.Errorf("%s: %d rows, want %d", request, len(got.Fields), len(rows))
		return
	}
	for i, row := range rows {
		name, pattern, _ := strings.Cut(strings.TrimSpace(row), " ")
		if f := got.Fields[i]; f.Name != strings.ReplaceAll(name, `\`, "") || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(f.Value) {
			t.Errorf("%s: %s is %q, want %s %s", request, f.Name, f.Value, name, pattern)
		}
	}
}
