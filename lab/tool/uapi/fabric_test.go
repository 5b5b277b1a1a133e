package uapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/opabed"
	"tapir/lab/check/testenv"
	"tapir/lab/conf/hficonf"
	"tapir/lab/node"
	"tapir/lab/node/emnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/trap"
	"tapir/opa/em"
)

// newFabric runs two HFIs and an Ethernet Manager, which programs find by the names
// h1, h2 and em1.
func newFabric(t *testing.T) {
	t.Helper()
	_, manage := newHFIs(t)
	manage()
}

// newHFIs runs the HFIs alone; manage begins the Ethernet Manager.
func newHFIs(t *testing.T) (b *opabed.Bed, manage func()) {
	t.Helper()
	b = opabed.New(t)
	var nodes []served
	for i := range 2 {
		c := opabed.Number(i+1, hficonf.VNIC{VESW: 2, TAP: "blue"})
		c.Name, c.LID, c.Managed = fmt.Sprint("h", i+1), 0, true
		nodes = append(nodes, b.Start(c).Node)
	}
	serve(t, nodes...)
	return b, func() { manageFabric(t, b) }
}

// served is a node with a control socket.
type served interface {
	Name() string
	Served(func()) ctl.NIC
}

// serve opens the control sockets.
func serve(t *testing.T, nodes ...served) {
	t.Helper()
	for _, n := range nodes {
		s, err := ctl.Listen(n.Name(), "test")
		testenv.Must(t, err)
		t.Cleanup(s.Close)
		s.Serve(n.Served(func() {}))
	}
}

// manageFabric begins the Ethernet Manager and waits until the ports are active.
func manageFabric(t *testing.T, b *opabed.Bed) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "em.yaml")
	testenv.Must(t, os.WriteFile(path, []byte("manager: {name: em1, fabric_tap: fabem1, guid: 0x00117501010000ff}\n"+
		"nodes: [{name: h1, guid: 0x0011750101000001, lid: 0x10}, {name: h2, guid: 0x0011750101000002, lid: 0x20}]\n"+
		"vesws:\n  - {name: blue, id: 2, pkey: 0x12, members: [h1, h2]}\n"), 0o600))
	cfg, err := hficonf.LoadEM(path)
	testenv.Must(t, err)
	cfg.Timing = em.Timing{Heartbeat: 50 * time.Millisecond, Takeover: 200 * time.Millisecond, Sweep: 100 * time.Millisecond}
	testenv.Must(t, b.Net.AddTAP(cfg.Port.TAP, false), b.Net.SetMTU(cfg.Port.TAP, 10300), b.Net.Join(cfg.Port.TAP, opabed.Bridge))
	m, err := emnode.Start(t.Context(), path, cfg, node.Env{NS: b.NS})
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, m.Close()) })
	serve(t, m)
	for _, name := range []string{"h1", "h2"} {
		c, err := ctl.Dial(name)
		testenv.Must(t, err)
		defer c.Close()
		testenv.Until(t, name+" is active", func() bool {
			p, err := c.MADPort(t.Context())
			return err == nil && p.State == 4 && len(p.PKeys) == 2
		})
	}
}

// on runs a program on a node of the fabric to its end.
func on(t *testing.T, node string, via trap.Via, argv ...string) (said string, code int) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	testenv.Must(t, err)
	defer out.Close()
	code, err = uapi.Run(t.Context(), uapi.Options{NICs: []string{node}, Argv: argv, Stdout: out, Stderr: out, Via: via})
	testenv.Must(t, err)
	b, err := os.ReadFile(out.Name())
	testenv.Must(t, err)
	return string(b), code
}

// Stock tools of InfiniBand on the ports of a fabric: each says what is there. A
// table of several datagrams comes by RMPP, and nobody answers at a LID that no
// port has.
func TestFabricTools(t *testing.T) {
	newFabric(t)
	for _, c := range []struct {
		node, argv string
		want       []string
	}{
		{"h1", "ibstat", []string{"CA 'hfi1_0'", "Node GUID: 0x0011750101000001", "State: Active", "Rate: 100", "Base lid: 16",
			"Link layer: InfiniBand"}},
		{"em1", "ibstat -p", []string{"0x00117501010000ff"}},
		{"h1", "ibaddr", []string{"GID fe80::11:7501:100:1 LID start 0x10 end 0x10"}},
		{"h1", "smpquery nodeinfo 0x20", []string{"Lid 32", "Guid:............................0x0011750101000002", "PartCap:.........................256"}},
		{"h1", "smpquery -D nodeinfo 0", []string{"Guid:............................0x0011750101000001"}},
		{"h2", "smpquery portinfo 0x10 1", []string{"Lid:.............................16", "LinkState:.......................Active", "25.78125 Gbps"}},
		{"h2", "smpquery nodedesc 0x10", []string{"tapir h1"}},
		{"em1", "smpquery pkeys 0x10", []string{"0: 0x7fff 0x8012 0x0000", "256 pkeys capacity"}},
		{"h1", "perfquery -x", []string{"PortXmitPkts:", "Lid 16 port 1"}},
		{"h1", "perfquery 0x20 1", []string{"Lid 32 port 1", "PortRcvErrors:"}},
		{"h2", "saquery", []string{"tapir h1", "tapir h2", "tapir em1"}},
		{"h1", "saquery --src-to-dst 16:32", []string{"dlid....................32", "pkey....................0x8012"}},
		{"h1", "saquery PIR 0x20", []string{"PortInfoRecord"}},
		{"h1", "opainfo", []string{"PortGID:0xfe80000000000000:0011750101000001", "PortState:     Active",
			"LinkSpeed      Act: 25Gb", "LinkWidth      Act: 4 ", "LID: 0x00000010-0x00000010", "Link Quality: 5 (Excellent)"}},
		{"h2", "opainfo -o stats", []string{"Xmit Pkts", "Link Downed                              0"}},
		{"h1", "opasmaquery -o portinfo", []string{"SMLID:            0x00000001", "10240 bytes"}},
		{"h1", "opapmaquery -o getportstatus", []string{"VL Select Mask      0x00000000"}},
		{"h1", "ibv_devinfo", []string{"hfi1_0", "PORT_ACTIVE", "port_lid:\t\t16", "link_layer:\t\tInfiniBand"}},
		{"h1", "opasaquery", []string{"h1", "h2", "em1", "0x0011750101000002"}},
		{"h1", "opasaquery -o lid -d h2", []string{"0x00000020"}},
		{"h1", "opasaquery -o classportinfo", []string{"BaseVersion"}},
		{"h1", "opasaquery -o path -l 0x20", []string{"PKey: 0x8012"}},
		{"h1", "opasaquery -o vfinfo", []string{"Name: blue", "PKey: 0x12"}},
		{"h1", "opafabricinfo", []string{"Master SM: em1", "Number of HFIs: 3"}},
		{"h1", "opagetvf -i 0", []string{"blue:0:0x12:"}},
		{"em1", "opainfo", []string{"PortGID:0xfe80000000000000:00117501010000ff", "PortState:     Active"}},
		{"em1", "opainfo -o stats", []string{"Xmit Pkts"}},
		{"em1", "opasmaquery -o portinfo", []string{"SMLID:            0x00000001"}},
		{"em1", "opapmaquery -o getportstatus", []string{"VL Select Mask      0x00000000"}},
		{"em1", "opasaquery -o lid -d h2", []string{"0x00000020"}},
		{"em1", "opafabricinfo", []string{"Master SM: em1", "Number of HFIs: 3"}},
		{"em1", "ibv_devinfo", []string{"hfi1_0", "PORT_ACTIVE", "port_lid:\t\t1"}},
		{"h1", "sminfo", []string{"sm guid 0x117501010000ff", "SMINFO_MASTER"}},
	} {
		for _, via := range []trap.Via{trap.Seccomp, trap.Preload}[:1+len(c.argv)%2] {
			said, code := on(t, c.node, via, strings.Fields(c.argv)...)
			for _, w := range c.want {
				if code != 0 || !strings.Contains(said, w) {
					t.Errorf("%s: %s by %v: exit code %d, no %q in\n%s", c.node, c.argv, via, code, w, said)
				}
			}
		}
	}
	if said, code := on(t, "h1", trap.Seccomp, "smpquery", "-t", "50", "nodedesc", "0x33"); code == 0 || !strings.Contains(said, "timed out") {
		t.Errorf("a LID that no port has: exit code %d\n%s", code, said)
	}
}

// ibping's server answers on either end of the fabric.
func TestFabricPing(t *testing.T) {
	newFabric(t)
	for _, c := range []struct {
		server, client string
		lid            string
	}{{"h2", "h1", "0x20"}, {"h1", "h2", "0x10"}} {
		out, err := os.CreateTemp(t.TempDir(), "out")
		testenv.Must(t, err)
		defer out.Close()
		in, stop, err := os.Pipe()
		testenv.Must(t, err)
		defer in.Close()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = uapi.Run(t.Context(), uapi.Options{NICs: []string{c.server}, Argv: []string{"sh", "-c", "ibping -S & cat; kill $!"},
				Stdin: in, Stdout: out, Stderr: out})
		}()
		testenv.Until(t, c.client+" has an answer", func() bool {
			said, code := on(t, c.client, trap.Seccomp, "ibping", "-c", "1", "-t", "200", c.lid)
			return code == 0 && strings.Contains(said, "Pong from") && strings.Contains(said, "1 received")
		})
		stop.Close()
		testenv.Await(t, ended, "the end of the server")
	}
}

// ibv_asyncwatch shows what the fabric manager sets, and the link.
func TestFabricEvents(t *testing.T) {
	b, manage := newHFIs(t)
	out, err := os.CreateTemp(t.TempDir(), "out")
	testenv.Must(t, err)
	defer out.Close()
	in, stop, err := os.Pipe()
	testenv.Must(t, err)
	defer in.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = uapi.Run(t.Context(), uapi.Options{NICs: []string{"h1"}, Stdin: in, Stdout: out, Stderr: out,
			Argv: []string{"sh", "-c", "stdbuf -oL ibv_asyncwatch -d hfi1_0 & cat; kill $!"}})
	}()
	says := func(what string) {
		testenv.Until(t, "ibv_asyncwatch shows "+what, func() bool {
			said, err := os.ReadFile(out.Name())
			testenv.Must(t, err)
			return strings.Contains(string(said), what)
		})
	}
	says("async event FD")
	manage()
	for _, event := range []string{"IBV_EVENT_LID_CHANGE", "IBV_EVENT_SM_CHANGE", "IBV_EVENT_PKEY_CHANGE", "IBV_EVENT_CLIENT_REREGISTER",
		"IBV_EVENT_PORT_ACTIVE (9), port 1"} {
		says(event)
	}
	testenv.Must(t, b.Net.Down("fabh1"))
	says("IBV_EVENT_PORT_ERR")
	stop.Close()
	testenv.Await(t, ended, "the end of the program")
}
