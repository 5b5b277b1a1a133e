package fabric

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/em"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// manager writes a vesw.yaml and runs a manager of it; its port is number i.
func (b *bed) manager(i int, priority uint8, vesws string) *EM {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "vesw.yaml")
	writeVESWs(b.t, path, i, vesws)
	cfg, err := LoadEM(path)
	must(b.t, err)
	cfg.Priority, cfg.Timing = priority, em.Timing{
		Heartbeat: 50 * time.Millisecond, Takeover: 400 * time.Millisecond, Sweep: 100 * time.Millisecond, Down: 2 * time.Second,
		Poll: 300 * time.Millisecond, Timeout: 100 * time.Millisecond, Retries: 4, Settle: 5 * time.Second,
	}
	cfg.Port.NS, cfg.Port.HostNS = b.ns, b.ns
	must(b.t, b.net.AddTAP(cfg.Port.TAP, false), b.net.SetMTU(cfg.Port.TAP, 10300), b.net.Join(cfg.Port.TAP, fabricBridge))
	m, err := StartEM(b.t.Context(), path, cfg)
	must(b.t, err)
	return m
}

func writeVESWs(t testing.TB, path string, i int, vesws string) {
	t.Helper()
	head := fmt.Sprintf("manager:\n  name: em%d\n  fabric_tap: fabem%[1]d\n  guid: %#x\n  fe: 127.0.0.1:0\n  audit: %s\n", i, 0x00117501010000f0+i, path+".log")
	must(t, os.WriteFile(path, []byte(head+vesws), 0o600))
}

func (m *EM) inSync() (ok bool) {
	_ = m.DoWait(func(frame.Time) { ok = m.mgr.InSync() })
	return ok
}

func managed(i int, vnics ...VNIC) Config {
	c := number(i, vnics...)
	c.LID, c.Managed = 0, true
	return c
}

const blue = "vesws:\n  - {name: blue, id: 2, members: [\"h1\", \"h2\"]}\n"

// stream sends numbered datagrams from one station to another until stop,
// which returns how many were sent, how many arrived, and the numbers of those
// after which some are missing.
func stream(t *testing.T, from, to *station, addr string) (stop func() (sent, arrived int, gaps []string)) {
	t.Helper()
	var in, out *net.UDPConn
	must(t, to.ns.Do(func() (err error) {
		in, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(addr)})
		return err
	}))
	must(t, from.ns.Do(func() (err error) {
		out, err = net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
		return err
	}))
	var sent, arrived atomic.Int64
	var gaps []string
	done, received := make(chan bool), make(chan bool)
	go func() {
		defer close(received)
		next := uint64(0)
		for b := make([]byte, 64); ; {
			if _, err := in.Read(b); err != nil {
				return
			}
			got := binary.BigEndian.Uint64(b)
			if got != next {
				gaps = append(gaps, fmt.Sprintf("%d for %d", got, next))
			}
			next = got + 1
			arrived.Add(1)
		}
	}()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		var b [8]byte
		for range tick.C {
			binary.BigEndian.PutUint64(b[:], uint64(sent.Load()))
			if _, err := out.Write(b[:]); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	return func() (int, int, []string) {
		out.Close()
		<-done
		for range 3000 {
			if arrived.Load() == sent.Load() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		in.Close()
		<-received
		return int(sent.Load()), int(arrived.Load()), gaps
	}
}

// counted is what a station counted, as JSON.
func (s *station) counted(t *testing.T) (all string) {
	for _, kind := range []string{"nic", "vport", "counters", "ethtool"} {
		v, err := s.node.Show(kind)
		must(t, err)
		b, err := json.Marshal(v)
		must(t, err)
		all += kind + string(b)
	}
	return all
}

// The manager dies under traffic, another takes over, vESWs are added and go:
// a vESW that stays as it is loses no frame.
func TestManagerFailsOver(t *testing.T) {
	b := newBed(t)
	var h [3]*station
	for i := 1; i <= 2; i++ {
		c := managed(i, VNIC{VESW: 2, TAP: "blue", IP: ips(fmt.Sprintf("10.0.0.%d/24", i))})
		c.Name = fmt.Sprint("h", i)
		h[i] = b.start(c)
	}
	first := b.manager(1, 8, blue)
	await(t, "vESW 2 is set up", first.inSync)
	second := b.manager(2, 0, blue)
	defer func() { must(t, second.Close()) }()
	await(t, "the host TAPs are up", func() bool {
		for _, s := range h[1:] {
			if up, err := s.net.Operstate("blue"); err != nil || up != "up" {
				return false
			}
		}
		return true
	})
	h[1].ping(t, "10.0.0.2")

	stop := stream(t, h[1], h[2], "10.0.0.2")
	await(t, "the second is standby", func() (standby bool) {
		must(t, second.DoWait(func(frame.Time) { standby = second.mgr.Role() == mad.SMStandby }))
		return standby
	})
	must(t, first.Close())
	await(t, "the standby is master", func() (master bool) {
		must(t, second.DoWait(func(frame.Time) { master = second.mgr.Role() == mad.SMMaster && second.mgr.InSync() }))
		return master
	})
	writeVESWs(t, second.path, 2, blue+"  - {name: red, id: 3, members: [\"h1\"]}\n")
	must(t, second.Reload())
	await(t, "vESW 3 has a host TAP", func() bool { return h[1].net.Exists("opa-vesw3") })
	second.cfg.Timing.Settle = 30 * time.Second // how long an observer reads at most, before it says what it could not
	var plan []string
	await(t, "all agents answer in time", func() bool {
		var err error
		plan, err = second.Plan(t.Context(), second.cfg.Fabric)
		must(t, err)
		return !slices.ContainsFunc(plan, func(l string) bool { return strings.Contains(l, "does not answer") })
	})
	if len(plan) != 1 || !strings.HasPrefix(plan[0], "- port h1: vport") {
		t.Errorf("to go back would be %q", plan)
	}
	writeVESWs(t, second.path, 2, blue)
	must(t, second.Reload())
	await(t, "and not any more", func() bool { return !h[1].net.Exists("opa-vesw3") })
	if sent, arrived, gaps := stop(); sent != arrived || sent < 100 {
		t.Errorf("%d frames sent, %d arrived, gaps %q\nh1: %s\nh2: %s", sent, arrived, gaps, h[1].counted(t), h[2].counted(t))
	}

	must(t, h[2].node.Close()) // the agent restarts
	c := managed(2, VNIC{VESW: 2, TAP: "blue", IP: ips("10.0.0.2/24")})
	c.Name = "h2"
	again := b.startIn(h[2].space, c)
	await(t, "the new agent is set up", func() bool {
		up, err := again.net.Operstate("blue")
		return err == nil && up == "up" && second.inSync()
	})
	h[1].ping(t, "10.0.0.2")

	log, err := os.ReadFile(second.path + ".log")
	must(t, err)
	for _, want := range []string{"discovering, was standby", "master, was discovering", "+ vESW 3 red", "- vESW 3 red"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("%q is not in the audit log\n%s", want, log)
		}
	}
}

func TestFrontEnd(t *testing.T) {
	b := newBed(t)
	c := managed(1)
	c.Name = "h1"
	b.start(c)
	m := b.manager(1, 8, "vesws:\n  - {name: blue, id: 2, members: [\"h1\"]}\n")
	defer func() { must(t, m.Close()) }()
	await(t, "vESW 2 is set up", m.inSync)
	conn, err := net.Dial("tcp", m.fe.addr())
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	ask := func(method mad.Method, lid opa.LID) (h mad.Header, data []byte) {
		t.Helper()
		var req [mad.MaxLen]byte
		mad.PutVEMA(req[:], method, 77, mad.AttrVESWPortInfo, 1)
		binary.BigEndian.PutUint16(req[6:], uint16(lid))
		_, err := conn.Write(opa.AppendFE(nil, req[:]))
		must(t, err)
		var buf []byte
		for {
			part := make([]byte, 4096)
			n, err := conn.Read(part)
			must(t, err)
			buf = append(buf, part[:n]...)
			b, used, err := opa.ParseFE(buf)
			must(t, err)
			if used == 0 {
				continue
			}
			h, data, err := mad.ParseVEMA(b)
			must(t, err)
			if buf = buf[used:]; h.Method != mad.MethodTrap {
				return h, data
			}
		}
	}
	var of opa.LID
	must(t, m.DoWait(func(frame.Time) { of = m.mgr.Ports()[0].LID }))
	h, data := ask(mad.MethodGet, of)
	if info := mad.ParseVESWPortInfo(data); h.TID != 77 || h.Status != 0 || info.VESW != 2 || info.ConfigState != mad.Forwarding {
		t.Errorf("%+v %+v", h, info)
	}
	if h, _ := ask(mad.MethodSet, of); h.Status != mad.StatusBadAttribute {
		t.Errorf("a client changed something: %+v", h)
	}
	conn.Write([]byte("GET / HTTP/1.0\r\n\r\n        "))
	// Traps may still come before the end.
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("what is no MAD does not end the connection")
	}
}

func TestDryRunAndShow(t *testing.T) {
	b := newBed(t)
	c := managed(1)
	c.Name = "h1"
	h1 := b.start(c)
	cfg, err := ParseEM("v.yaml", []byte("manager: {fabric_tap: fabdry, guid: 0xf9, sweep: 100ms}\nvesws:\n  - {name: blue, id: 2, members: [h1]}\n"))
	must(t, err)
	cfg.Port.NS = b.ns
	must(t, b.net.AddTAP("fabdry", false), b.net.Join("fabdry", fabricBridge))
	lines, err := DryRun(t.Context(), cfg)
	if text := strings.Join(lines, "\n"); err != nil || !strings.Contains(text, "~ port h1: init -> active") || !strings.Contains(text, "vport 1 in vESW 2 blue") {
		t.Errorf("%v\n%s", err, text)
	}

	m := b.manager(1, 8, "vesws:\n  - {name: blue, id: 2, members: [h1, h9]}\n")
	defer func() { must(t, m.Close()) }()
	await(t, "vESW 2 is set up", m.inSync)
	must(t, h1.node.DoWait(func(frame.Time) {
		for _, c := range h1.node.counters() {
			if c.Value == 0 && (c.Name == "sma_sets" || c.Name == "vema_sets" || c.Name == "vema_gets") {
				t.Errorf("%s is 0", c.Name)
			}
		}
		if v := h1.node.engine.vema.Counters(); v.Refused != 0 || v.Malformed != 0 {
			t.Errorf("%+v", v)
		}
	}))
	s := m.Served(func() {})
	await(t, "counters are read", func() (read bool) {
		_ = m.DoWait(func(frame.Time) { read = len(m.mgr.Traffic()) > 0 })
		return read
	})
	for kind, want := range map[string]string{
		"nic": `"role":"master"`, "vesw": `"name":"blue"`, "port": `"name":"h1"`, "member": `"status":"not there"`, "mac": `"kind":"base"`,
		"audit": "the fabric is known", "traffic": `"tx_dlid_zero":0`, "counters": `"name":"sets"`,
	} {
		v, err := s.Show(kind)
		must(t, err)
		if text, err := json.Marshal(v); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", kind, err, text)
		}
	}
	if _, err := s.Show("qp"); err == nil {
		t.Error("an Ethernet Manager has queue pairs")
	}
	metrics, err := s.(*servedEM).Metrics()
	must(t, err)
	found := false
	for _, x := range metrics {
		found = found || x.Name == "tapir_em_members_in_sync" && x.Value == 1
	}
	if !found {
		t.Error("the metrics do not tell of the member")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.(*servedEM).Command(ctx, "fly", nil); err == nil {
		t.Error("it can fly")
	}
}
