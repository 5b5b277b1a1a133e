package nic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// set changes settings, and lets the NIC take them in.
func (n *node) set(settings ...string) {
	n.w.t.Helper()
	var list []Setting
	for _, s := range settings {
		name, v, _ := strings.Cut(s, "=")
		list = append(list, Setting{name, v})
	}
	if err := n.dev.Set(list...); err != nil {
		n.w.t.Fatal(err)
	}
	n.w.run(time.Millisecond)
}

// attribute is a value of a table.
func attribute(t *testing.T, rows []view.AttributeRow, name string) string {
	t.Helper()
	i := slices.IndexFunc(rows, func(r view.AttributeRow) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no attribute %s in %v", name, rows)
	}
	return rows[i].Value
}

// link and management are attributes of the NIC's tables.
func (n *node) link(name string) string { return attribute(n.w.t, n.dev.ShowLink(), name) }
func (n *node) management(name string) string {
	rows := n.dev.ShowMFW(n.w.now)
	if name == "temperature[0]" && !slices.ContainsFunc(rows, func(r view.AttributeRow) bool { return r.Name == name }) {
		return "" // the firmware does not answer
	}
	return attribute(n.w.t, rows, name)
}

func (n *node) passes() bool { return n.dev.Verbs.PortAttr().State == verbs.PortActive }

// The port has link if the wire has a carrier and the driver wants it; who is
// at the other end loses it with the driver.
func TestLinkFollowsWireAndDriver(t *testing.T) {
	w := newWorld(t)
	var light []bool
	n := &node{w: w, room: 64}
	w.attach(n, Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24")}, Env{Pool: w.pool, Wire: n, Laser: func(on bool) { light = append(light, on) }})
	n.dev.LinkUp(w.now)
	w.run(time.Second)
	if n.link("link") != "up" || n.link("speed") != "100000" || !n.passes() || len(light) != 0 {
		t.Fatalf("%v, light %v", n.dev.ShowLink(), light)
	}
	n.dev.LinkDown(w.now)
	if n.link("link") != "down" || n.passes() {
		t.Error("no carrier, and link")
	}
	n.dev.LinkUp(w.now)
	n.set("link=down")
	if n.link("link") != "down" || n.passes() || !slices.Equal(light, []bool{false}) || n.link("transmitter") != "off" {
		t.Errorf("the driver wants no link: %v, light %v", n.dev.ShowLink(), light)
	}
	n.dev.LinkDown(w.now) // what a TAP makes of it
	n.dev.LinkUp(w.now)
	if n.passes() {
		t.Error("the carrier came, and the driver wants no link")
	}
	sent := n.counter("tx_packets")
	n.set("link=up")
	if n.link("link") != "up" || !n.passes() || !slices.Equal(light, []bool{false, true}) || n.counter("tx_packets") == sent {
		t.Errorf("up again: %v, light %v, announced %d", n.dev.ShowLink(), light, n.counter("tx_packets")-sent)
	}
}

// MF-10 MF-13 MF-41 What is set shows in the link.
func TestLinkSettings(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	w.run(time.Second)
	for _, c := range []struct{ set, name, want string }{
		{"link_speed=25G", "speed", "25000"},
		{"link_speed=25G", "autoneg", "off"},
		{"link_speed=auto link_advertise=1G,40G", "speed", "40000"},
		{"partner_speeds=1G,10G", "link", "up"},
		{"partner_speeds=1G,10G", "speed", "1000"},
		{"link_advertise=all", "speed", "10000"},
		{"link_advertise=all", "partner_speeds", "1G,10G"},
		{"partner_speeds=100G partner_forced=1", "parallel_detection", "on"},
		{"partner_forced=0 partner_speeds=25G link_speed=50G", "link", "down"},
		{"link_speed=auto partner_speeds=all", "link", "up"},
		{"pause=none", "pause_rx", "off"},
		{"pause=rx", "pause_rx", "on"},
		{"pause=auto partner_pause=none", "pause_tx", "off"},
		{"pause=auto-tx partner_pause=both", "pause_tx", "on"},
		{"pause=auto partner_pause=asymmetric", "partner_pause", "asymmetric"},
		{"phy_loopback=mac", "transmitter", "off"},
		{"phy_loopback=none", "lfa_status", "LOOPBACK_MISMATCH"},
		{"bw_min=10 bw_max=40", "speed", "40000"},
		{"bw_min=10", "min_pf_rate", "10000"},
		{"bw_max=100", "line_speed", "100000"},
	} {
		a.set(strings.Fields(c.set)...)
		if got := a.link(c.name); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.set, c.name, got, c.want)
		}
	}
	if a.link("eee") != "not supported" {
		t.Errorf("EEE over fiber: %s", a.link("eee"))
	}
}

// MF-13 A looped port hears itself and nobody else, and nobody hears it.
func TestPHYLoopback(t *testing.T) {
	for _, mode := range []string{"int_phy", "mac", "pcs", "ext"} {
		w, a, b := twoNICs(t, Config{})
		w.run(time.Second)
		a.set("phy_loopback=" + mode)
		rx, peer := a.counter("rx_packets"), b.counter("rx_packets")
		w.send(b, magic(a.dev.Config().MAC), frame.Offload{})
		w.run(time.Millisecond)
		if a.counter("rx_packets") != rx || a.counter("rx_drop_port_down") != 1 {
			t.Errorf("%s: it hears the wire", mode)
		}
		tx := a.counter("tx_packets")
		if err := a.dev.AddAddr(prefixes("10.0.0.77/24")[0], w.now); err != nil { // announces it
			t.Fatal(err)
		}
		w.run(time.Second)
		sent := a.counter("tx_packets") - tx
		if sent == 0 || a.counter("rx_packets")-rx != sent || b.counter("rx_packets") != peer {
			t.Errorf("%s: %d sent, %d heard, the peer heard %d", mode, sent, a.counter("rx_packets")-rx, b.counter("rx_packets")-peer)
		}
		a.set("phy_loopback=none")
		w.run(time.Second)
		if x, _ := dial(w, a, b, peer4, 4096); !x.saw(cm.ActiveComplete) {
			t.Errorf("%s is over, and there is no connection", mode)
		}
	}
}

// MF-15 MF-17 MF-18 EEE, as far as the user sees it.
func TestEEESettings(t *testing.T) {
	w, a, _ := twoNICs(t, Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaBaseT}}})
	w.run(time.Second)
	for _, c := range []struct{ set, name, want string }{
		{"link_speed=auto", "eee", "enabled, inactive"},
		{"partner_eee=all partner_speeds=10G", "eee", "enabled, active"},
		{"eee_advertise=1G", "eee", "enabled, inactive"},
		{"partner_speeds=1G", "eee", "enabled, active"},
		{"partner_eee=10G", "eee_partner", "10G"},
		{"eee_tx_timer=256 eee_tx_lpi=0", "eee_tx_lpi", "off, 256 us"},
		{"eee=off", "eee", "disabled, inactive"},
		{"eee=on eee_tx_lpi=1", "eee_tx_lpi", "on, 256 us"},
	} {
		a.set(strings.Fields(c.set)...)
		if got := a.link(c.name); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.set, c.name, got, c.want)
		}
	}
}

// What makes no sense is refused with one line, and nothing changes.
func TestLinkSettingsRefused(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	w.run(time.Second)
	before, table := *a.dev.under.Config(), a.dev.ShowLink()
	for set, word := range map[string]string{
		"link_speed=2500": "expected auto, 10M", "link_advertise=none": "expected a list", "eee=on": "twisted pairs",
		"eee_tx_timer=0": "from 1 to", "bw_min=50 bw_max=40": "more than", "bw_max=101": "from 1 to 100", "temperature=200": "from 1 to 125",
		"partner_forced=1": "has one speed", "media=kr": "cannot change while the NIC runs", "wol=u": "expected d or g",
	} {
		var list []Setting
		for _, s := range strings.Fields(set) {
			name, v, _ := strings.Cut(s, "=")
			list = append(list, Setting{name, v})
		}
		err := a.dev.Set(list...)
		if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", set, err)
		}
		w.run(time.Millisecond)
	}
	if after := a.dev.under.Config(); after.Link != before.Link || after.Board != before.Board || !slices.Equal(a.dev.ShowLink(), table) {
		t.Errorf("something changed: %+v", after)
	}
	if _, err := newNIC(Config{Name: "x", Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaKR}, Board: fastlinq.Board{Unplugged: true}}}, Env{}); err == nil || !strings.Contains(err.Error(), "soldered") {
		t.Errorf("%v", err)
	}
}

// MF-42 XX-05 XX-06 Temperature, module and fan.
func TestBoardSettings(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	w.run(time.Second)
	a.set("temperature=60")
	if !strings.HasPrefix(a.management("temperature[0]"), "60 C") {
		t.Errorf("%v", a.dev.ShowMFW(w.now))
	}
	a.set("temperature=106")
	if a.management("hw_error FAN_FAIL") != "1" {
		t.Errorf("%v", a.dev.ShowMFW(w.now))
	}
	a.set("module=unplugged")
	if a.passes() || a.link("media") != "NOT_PRESENT" || a.link("transceiver") != "unplugged" || a.management("transceiver_events") != "1" {
		t.Errorf("%v", a.dev.ShowLink())
	}
	a.set("module=present")
	if !a.passes() || a.link("media") != "MODULE_FIBER" {
		t.Errorf("%v", a.dev.ShowLink())
	}
	a.set("fan=failed")
	if a.passes() || a.management("hw_error FAN_FAIL") != "2" {
		t.Errorf("%v", a.dev.ShowMFW(w.now))
	}
	a.set("fan=ok")
	if !a.passes() {
		t.Errorf("%v", a.dev.ShowLink())
	}
}

// MF-04 A stuck firmware blocks the mailbox after 5 s; data pass all the same,
// and when it runs again the driver loads anew and does what was missed.
func TestStuckFirmware(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	w.run(time.Minute) // longer than the time-out: it counts from the command
	a.set("mfw=stuck", "wol=g", "link_speed=10G")
	w.run(4 * time.Second)
	if got := a.management("mailbox"); !strings.HasSuffix(got, "pending") {
		t.Errorf("after 4 s: %s", got)
	}
	w.run(2 * time.Second)
	if a.management("mailbox") != "blocked" || a.management("hw_error MFW_RESP_FAIL") != "1" || !a.passes() || a.link("speed") != "100000" ||
		!strings.Contains(a.management("last_error"), "ABORTED") {
		t.Errorf("%v", a.dev.ShowMFW(w.now))
	}
	a.set("mfw=running")
	if a.management("mailbox") != "ready" || a.management("mcp_resets") != "1" || a.link("speed") != "10000" {
		t.Errorf("%v %v", a.dev.ShowMFW(w.now), a.dev.ShowLink())
	}
}

// magic is a magic packet for a NIC.
func magic(to ether.Addr) []byte {
	b := slices.Concat([]byte{255, 255, 255, 255, 255, 255}, make([]byte, 6), []byte{0x08, 0x42}, []byte{255, 255, 255, 255, 255, 255})
	return append(b, slices.Repeat(to[:], 16)...)
}

// MF-12 MF-32 MF-40 An unloaded function passes nothing. With wol=g its
// transmitter stays on, and a magic packet loads the driver.
func TestWakeOnLAN(t *testing.T) {
	for _, wol := range []string{"d", "g"} {
		w, a, b := twoNICs(t, Config{})
		w.run(time.Second)
		a.set("wol=" + wol)
		a.set("driver=unloaded")
		if a.passes() || a.management("driver_role") != "NONE" || a.management("driver_state") != "NOT_LOADED" || a.link("transmitter") != map[string]string{"d": "off", "g": "on"}[wol] {
			t.Errorf("wol=%s: %v %v", wol, a.dev.ShowMFW(w.now), a.dev.ShowLink())
		}
		w.send(b, magic(b.dev.Config().MAC), frame.Offload{})
		w.run(time.Second)
		if a.passes() {
			t.Errorf("wol=%s: woken by a packet for another", wol)
		}
		w.send(b, magic(a.dev.Config().MAC), frame.Offload{})
		w.run(time.Second)
		woken := wol == "g"
		if a.passes() != woken || (a.management("driver_role") == "OS") != woken || (a.management("wakes") == "1") != woken || a.dev.under.Config().Board.Unloaded == woken {
			t.Errorf("wol=%s: %v", wol, a.dev.ShowMFW(w.now))
		}
		a.set("driver=loaded")
		if !a.passes() || a.management("driver_state") != "ACTIVE" {
			t.Errorf("wol=%s: %v", wol, a.dev.ShowMFW(w.now))
		}
	}
}

// XX-02 A process kill loads the driver again, and the link keeps its settings.
func TestProcessKill(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	a.set("link_speed=25G", "wol=g")
	a.dev.MFW().ProcessKill(0)
	a.dev.Manage(w.now)
	if !a.passes() || a.link("speed") != "25000" || a.management("process_kills") != "1" || a.management("mailbox") != "ready" ||
		a.management("driver_state") != "ACTIVE" || a.management("wol") != "enabled" {
		t.Errorf("%v %v", a.dev.ShowMFW(w.now), a.dev.ShowLink())
	}
}

// MF-29 MF-30 MF-31 MF-33 What the operating system's user changes is pushed.
func TestPushed(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	if a.management("mac") != a.dev.Config().MAC.String() || a.management("mtu") != "1500" || a.management("driver_state") != "ACTIVE" ||
		a.management("eswitch") != "none" || a.management("wol") != "disabled" {
		t.Errorf("%v", a.dev.ShowMFW(w.now))
	}
	mac := ether.Addr{2, 9, 9, 9, 9, 9}
	if err := a.dev.SetMAC(mac, w.now); err != nil {
		t.Fatal(err)
	}
	if err := a.dev.SetMTU(1400, w.now); err != nil {
		t.Fatal(err)
	}
	if p := a.dev.MFW().Pushed(0); a.management("mac") != mac.String() || p.MTU != 1400 || p.Client != mfw.ClientOS || p.Driver != "tapir" {
		t.Errorf("%+v", p)
	}
}

// MF-37 MF-43 What the firmware pulls: TLVs and statistics.
func TestPulled(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	w.run(time.Second)
	rows := a.dev.ShowTLV(w.now)
	value := func(tlv string) string {
		for _, r := range rows {
			if r.TLV == tlv {
				return r.Value
			}
		}
		return ""
	}
	info := a.dev.ShowNIC()
	if value("LOCAL_ADMIN_ADDR") != info.MAC.String() || value("RX_FRAMES_RECEIVED") == "" || value("NUM_OF_NET_QUEUE_VMQ_CFG") != "1" || value("HEADER_DIGEST_FLAG_ENABLED") != "" {
		t.Errorf("%v", rows)
	}
	a.dev.MFW().AskStats(0, mfw.StatsLAN)
	a.dev.Manage(w.now)
	if s := a.dev.MFW().ProtocolStats(0, mfw.StatsLAN); s.Rx != info.RxPackets || s.Tx != info.TxPackets || s.Tx == 0 {
		t.Errorf("%+v", s)
	}
}

// A damaged flash is told in one line.
func TestShowNVM(t *testing.T) {
	_, a, _ := twoNICs(t, Config{})
	rows := a.dev.ShowNVM()
	if len(rows) != 7 || rows[6].Image != "INIT_HW" || rows[0].Image != "MFW" || rows[0].State != "good" {
		t.Fatalf("%+v", rows)
	}
	a.dev.MFW().DamageNVM(int(rows[0].Offset))
	if rows = a.dev.ShowNVM(); rows[0].State != "damaged" || rows[1].State != "good" {
		t.Errorf("%+v", rows)
	}
	a.dev.MFW().DamageNVM(0)
	if rows = a.dev.ShowNVM(); len(rows) != 1 || !strings.Contains(rows[0].State, "NVM image, offset 0x0: signature") {
		t.Errorf("%+v", rows)
	}
	if got := a.dev.MCP().Stats(); got.Timeouts != 0 || got == (mcp.Stats{}) {
		t.Errorf("%+v", got)
	}
}
