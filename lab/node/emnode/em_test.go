package emnode

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
	"testing"
	"time"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/opa"
	"tapir/opa/em"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// manager writes a vesw.yaml and runs a manager of it; its port is number i.
func manager(b *opabed.Bed, i int, priority uint8, vesws string) *EM {
	b.T.Helper()
	path := filepath.Join(b.T.TempDir(), "vesw.yaml")
	writeVESWs(b.T, path, i, vesws)
	cfg, err := hficonf.LoadEM(path)
	must(b.T, err)
	cfg.Priority, cfg.Timing = priority, em.Timing{
		Heartbeat: 50 * time.Millisecond, Takeover: 400 * time.Millisecond, Sweep: 100 * time.Millisecond, Down: 2 * time.Second,
		Poll: 300 * time.Millisecond, Timeout: 100 * time.Millisecond, Retries: 4, Settle: 5 * time.Second,
	}
	must(b.T, b.Net.AddTAP(cfg.Port.TAP, false), b.Net.SetMTU(cfg.Port.TAP, 10300), b.Net.Join(cfg.Port.TAP, opabed.Bridge))
	m, err := Start(b.T.Context(), path, cfg, node.Env{NS: b.NS})
	must(b.T, err)
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

func managed(i int, vnics ...hficonf.VNIC) hficonf.Config {
	c := opabed.Number(i, vnics...)
	c.LID, c.Managed = 0, true
	return c
}

const blue = "vesws:\n  - {name: blue, id: 2, members: [\"h1\", \"h2\"]}\n"

// The manager dies under traffic, another takes over, vESWs are added and go:
// a vESW that stays as it is loses no frame.
func TestManagerFailsOver(t *testing.T) {
	b := opabed.New(t)
	var h [3]*opabed.Station
	for i := 1; i <= 2; i++ {
		c := managed(i, hficonf.VNIC{VESW: 2, TAP: "blue", IP: ips(fmt.Sprintf("10.0.0.%d/24", i))})
		c.Name = fmt.Sprint("h", i)
		h[i] = b.Start(c)
	}
	first := manager(b, 1, 8, blue)
	await(t, "vESW 2 is set up", first.inSync)
	second := manager(b, 2, 0, blue)
	defer func() { must(t, second.Close()) }()
	await(t, "the host TAPs are up", func() bool {
		for _, s := range h[1:] {
			if up, err := s.Net.Operstate("blue"); err != nil || up != "up" {
				return false
			}
		}
		return true
	})
	h[1].Ping(t, "10.0.0.2")

	stop := opabed.Stream(t, h[1], h[2], "10.0.0.2")
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
	await(t, "vESW 3 has a host TAP", func() bool { return h[1].Net.Exists("opa-vesw3") })
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
	await(t, "and not any more", func() bool { return !h[1].Net.Exists("opa-vesw3") })
	if sent, arrived, gaps := stop(); sent != arrived || sent < 100 {
		t.Errorf("%d frames sent, %d arrived, gaps %q\nh1: %s\nh2: %s", sent, arrived, gaps, h[1].Counted(t), h[2].Counted(t))
	}

	must(t, h[2].Node.Close()) // the agent restarts
	c := managed(2, hficonf.VNIC{VESW: 2, TAP: "blue", IP: ips("10.0.0.2/24")})
	c.Name = "h2"
	again := b.StartIn(h[2].Space, c)
	await(t, "the new agent is set up", func() bool {
		up, err := again.Net.Operstate("blue")
		return err == nil && up == "up" && second.inSync()
	})
	h[1].Ping(t, "10.0.0.2")

	log, err := os.ReadFile(second.path + ".log")
	must(t, err)
	for _, want := range []string{"discovering, was standby", "master, was discovering", "+ vESW 3 red", "- vESW 3 red"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("%q is not in the audit log\n%s", want, log)
		}
	}
}

func TestFrontEnd(t *testing.T) {
	b := opabed.New(t)
	c := managed(1)
	c.Name = "h1"
	b.Start(c)
	m := manager(b, 1, 8, "vesws:\n  - {name: blue, id: 2, members: [\"h1\"]}\n")
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
	b := opabed.New(t)
	c := managed(1)
	c.Name = "h1"
	h1 := b.Start(c)
	cfg, err := hficonf.ParseEM("v.yaml", []byte("manager: {fabric_tap: fabdry, guid: 0xf9, sweep: 100ms}\nvesws:\n  - {name: blue, id: 2, members: [h1]}\n"))
	must(t, err)
	must(t, b.Net.AddTAP("fabdry", false), b.Net.Join("fabdry", opabed.Bridge))
	lines, err := DryRun(t.Context(), cfg, node.Env{NS: b.NS})
	if text := strings.Join(lines, "\n"); err != nil || !strings.Contains(text, "~ port h1: init -> active") || !strings.Contains(text, "vport 1 in vESW 2 blue") {
		t.Errorf("%v\n%s", err, text)
	}

	m := manager(b, 1, 8, "vesws:\n  - {name: blue, id: 2, members: [h1, h9]}\n")
	defer func() { must(t, m.Close()) }()
	await(t, "vESW 2 is set up", m.inSync)
	must(t, h1.Node.DoWait(func(frame.Time) {
		for _, c := range h1.Node.HFI().Counters() {
			if c.Value == 0 && (c.Name == "sma_sets" || c.Name == "vema_sets" || c.Name == "vema_gets") {
				t.Errorf("%s is 0", c.Name)
			}
			if c.Value != 0 && (c.Name == "vema_refused" || c.Name == "vema_malformed") {
				t.Errorf("%s is %d", c.Name, c.Value)
			}
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
	metrics, err := s.(*control).Metrics()
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
	if _, err := s.(*control).Command(ctx, "fly", nil); err == nil {
		t.Error("it can fly")
	}
}
