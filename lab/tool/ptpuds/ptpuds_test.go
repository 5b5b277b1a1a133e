package ptpuds

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/host/link"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// quiet is a port that nobody listens to.
type quiet struct{}

func (quiet) Send(int, ptp.Outgoing) {}

// serve runs a clock of two ports, at a time that stands still, behind a
// socket.
func serve(t *testing.T) (*Socket, *ptp.Instance) {
	t.Helper()
	s, err := Listen(filepath.Join(t.TempDir(), "ptp"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	phc, err := clock.New(clock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := ptp.New(ptp.NewConfig(ptp.DefaultE2E, msg.IdentityOf([6]byte{2, 0, 0, 0, 0, 1}), 2), phc, quiet{})
	if err != nil {
		t.Fatal(err)
	}
	info := mgmt.PortInfo{Interface: "nic0", MAC: [6]byte{2, 0, 0, 0, 0, 1}, PHCIndex: 0}
	srv := mgmt.New(mgmt.Config{Ports: []mgmt.PortInfo{info, info}, Product: "Tapir;NIC;nic0"}, inst)
	srv.SetLocal(s)
	inst.Manage(srv)
	inst.Observe(srv)
	var mu sync.Mutex
	now := frame.Time(time.Second)
	inst.Poll(now)
	s.Serve(func(fn func(now frame.Time)) bool {
		mu.Lock()
		defer mu.Unlock()
		fn(now)
		inst.Poll(now)
		return true
	}, srv)
	return s, inst
}

// isolated is a host for stock programs.
func isolated(t *testing.T) *linuxptp.Host {
	t.Helper()
	host, err := linuxptp.NewIsolated()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	return host
}

// Stock pmc reads every id that it knows, and sets.
func TestStockPMC(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host := isolated(t)
	s, _ := serve(t)
	// pmc waits for a tenth of a second only, which a busy machine may need.
	pmc := func(answers int, requests ...string) []linuxptp.Reply {
		t.Helper()
		for {
			replies, err := host.PMC(ctx, []string{"-u", "-b", "0", "-s", s.Path()}, requests...)
			if err != nil {
				t.Fatalf("%d answers, not %d: %v", len(replies), answers, err)
			}
			if len(replies) == answers {
				return replies
			}
		}
	}
	var requests []string
	want := 0
	for _, id := range msg.ManagementIDs() {
		switch id {
		case msg.IDEnablePort, msg.IDDisablePort: // pmc 3.1 has no commands
			continue
		case msg.IDPortServiceStats, msg.IDUnicastMasterTable, msg.IDPortHWClock: // since 4.0
			continue
		}
		requests = append(requests, "GET "+id.String())
		want++
		if id.OfPort() {
			want++
		}
	}
	for _, r := range pmc(want, requests...) {
		if r.Action != "RESPONSE" || r.Kind != "MANAGEMENT" || (len(r.Fields) == 0) != (r.ID == "") {
			t.Errorf("%+v", r)
		}
	}
	for line, value := range map[string][2]string{
		"SET PRIORITY1 100": {"priority1", "100"},
		"SET PRIORITY2 7":   {"priority2", "7"},
		"SET GRANDMASTER_SETTINGS_NP clockClass 6 clockAccuracy 0x21 offsetScaledLogVariance 0x4e5d currentUtcOffset 37 leap61 0 leap59 0 " +
			"currentUtcOffsetValid 1 ptpTimescale 1 timeTraceable 1 frequencyTraceable 1 timeSource 0x20": {"clockAccuracy", "0x21"},
	} {
		if got := pmc(1, line)[0]; got.Kind != "MANAGEMENT" || got.Get(value[0]) != value[1] {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if d := pmc(1, "GET DEFAULT_DATA_SET")[0]; d.Get("priority1") != "100" || d.Get("clockClass") != "6" || d.Get("clockIdentity") != "020000.fffe.000001" {
		t.Errorf("%+v", d)
	}
}

// The client of package mgmt over the same socket.
func TestClient(t *testing.T) {
	s, inst := serve(t)
	path := filepath.Join(t.TempDir(), "client")
	conn, err := net.DialUnix("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}, &net.UnixAddr{Name: s.Path(), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &mgmt.Client{Identity: msg.PortIdentity{Port: 1}}
	if _, err := conn.Write(c.Append(nil, mgmt.Request{ID: msg.IDPortDataSet}, 0)); err != nil {
		t.Fatal(err)
	}
	for port := range 2 {
		b := make([]byte, 2048)
		if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := c.Receive(b[:n])
		d, isDS := r.Data.(*msg.PortDataSet)
		if !ok || !isDS || int(d.Identity.Port) != port+1 || d.State != inst.State(port) {
			t.Errorf("%+v, %v", r, ok)
		}
	}
}

// Answers to nobody, or to a client that has gone, are counted and wait for
// nothing.
func TestLost(t *testing.T) {
	s, _ := serve(t)
	s.Send(filepath.Join(t.TempDir(), "gone"), []byte{1})
	await(t, s, 1)
	slow := filepath.Join(t.TempDir(), "slow")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: slow, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 * maxAnswers { // more than it and the queue hold
		s.Send(slow, make([]byte, 1000))
	}
	await(t, s, 2)
}

// await waits until n messages are lost.
func await(t *testing.T, s *Socket, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); s.Lost() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d lost, not %d", s.Lost(), n)
		}
	}
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ptp")
	s, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server: %v", err)
	}
	if err := s.conn.Close(); err != nil { // dies without its Close
		t.Fatal(err)
	}
	if s, err = Listen(path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "file of that name") {
		t.Errorf("over a file: %v", err)
	}
	if _, err := Listen(filepath.Join(dir, "none", strconv.Itoa(1))); err == nil {
		t.Error("in a directory that does not exist")
	}
}

// The client asks this house's server, has its notifications, and finds out
// that nobody is there.
func TestAsk(t *testing.T) {
	s, _ := serve(t)
	c, err := Dial(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = 30 * time.Second
	var got []mgmt.Reply
	ask := func(line string, want int) {
		t.Helper()
		r, err := mgmt.ParseCommand(line)
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		if n, err := c.Ask(t.Context(), r, func(r mgmt.Reply) { got = append(got, r) }); n != want || err != nil {
			t.Fatalf("%s: %d answers, %v", line, n, err)
		}
	}
	ask("GET PORT_DATA_SET", 2)
	ask("SET SUBSCRIBE_EVENTS_NP duration 60 NOTIFY_PORT_STATE on", 1)
	ask("COMMAND DISABLE_PORT", 2)
	events := len(slices.DeleteFunc(got, func(r mgmt.Reply) bool { return !r.Notification }))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for events < 2 && ctx.Err() == nil {
		if err := c.Listen(ctx, 10*time.Millisecond, func(mgmt.Reply) { events++ }); err != nil {
			t.Error(err)
		}
	}
	if events != 2 {
		t.Errorf("%d notifications", events)
	}
	cancel()
	if err := c.Listen(ctx, time.Hour, func(mgmt.Reply) {}); err != context.Canceled {
		t.Errorf("a canceled Listen: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Dial(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "no PTP instance listens") {
		t.Error(err)
	}
}

// It asks stock ptp4l too.
func TestAskPTP4L(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host := isolated(t)
	nets, err := link.In(host.NS())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nets.Close)
	if err := nets.AddVeth("eth0", nets, "eth1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"eth0", "eth1"} {
		if err := nets.Up(name); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "ptp4l")
	if _, err := host.PTP4L(ctx, linuxptp.PTP4L{Options: linuxptp.Options{"uds_address": path}, Sections: []linuxptp.Section{{Name: "eth0"}, {Name: "eth1"}}}); err != nil {
		t.Fatal(err)
	}
	var c *Client
	for c == nil {
		if c, err = Dial(path); err != nil {
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	defer c.Close()
	c.Timeout = 30 * time.Second
	for line, want := range map[string]int{"GET PORT_PROPERTIES_NP": 2, "SET PRIORITY1 7": 1, "GET DEFAULT_DATA_SET": 1, "GET PORT_STATS_NP": 2} {
		r, err := mgmt.ParseCommand(line)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.Ask(ctx, r, func(r mgmt.Reply) {
			if r.Error != 0 || r.Data == nil {
				t.Errorf("%s: %v", line, r.String())
			}
		})
		if n != want || err != nil {
			t.Errorf("%s: %d answers, %v", line, n, err)
		}
	}
}
