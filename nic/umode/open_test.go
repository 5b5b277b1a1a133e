package umode

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic/al"
	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/runtimedir"
	"tapir/nic/verbs"
)

// Which NIC a name means, and why one cannot be had.
func TestOpen(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if _, err := Open("", Options{}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("without any: %v", err)
	}
	if err := os.Mkdir(runtimedir.Path(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("nic7", Options{}); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "tapir nic --name nic7") {
		t.Errorf("one that does not run: %v", err)
	}
	programs := nicnode.NewPrograms()
	serve := func(wire *link.WireEnd, ip string, personality verbs.Personality) {
		cfg := nicconf.Config{Name: wire.Name(), IP: []netip.Prefix{netip.MustParsePrefix(ip)}}
		if err := cfg.Set("personality", personality.String()); err != nil {
			t.Fatal(err)
		}
		n := must[*nicnode.Node](t)(nicnode.Start(t.Context(), cfg, node.Env{Wire: wire}))
		r := must[*relay.Server](t)(relay.Listen(runtimedir.Programs(wire.Name())))
		programs.Add(n)
		r.Serve(programs.Devices)
		t.Cleanup(func() {
			r.Close()
			_ = n.Close()
		})
	}
	a, b, err := link.NewWire("rdma", "plain", false)
	if err != nil {
		t.Fatal(err)
	}
	serve(a, "10.0.0.1/24", verbs.IWARP)
	var guid verbs.GUID
	for _, name := range []string{"", "rdma"} {
		c := must[*Context](t)(Open(name, Options{}))
		if guid = must[verbs.DeviceAttr](t)(c.Query()).GUID; guid.IsZero() {
			t.Errorf("%q has no GUID", name)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	serve(b, "10.0.0.2/24", verbs.Ethernet)
	if _, err := Open("plain", Options{}); !errors.Is(err, verbs.ErrUnsupported) {
		t.Errorf("one without RDMA: %v", err)
	}
	c := must[*Context](t)(OpenGUID(guid, Options{}))
	if got := must[verbs.DeviceAttr](t)(c.Query()).GUID; got != guid {
		t.Errorf("by GUID %v: %v", guid, got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenGUID(verbs.GUID{1}, Options{}); !errors.Is(err, al.ErrNoDevice) {
		t.Errorf("a GUID that no NIC has: %v", err)
	}
	if _, err := Open("", Options{}); !errors.Is(err, ErrWhich) || !strings.Contains(err.Error(), "plain, rdma") {
		t.Errorf("one of two: %v", err)
	}
}
