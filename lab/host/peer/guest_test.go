package peer_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
)

var must = testenv.Must

// bridge makes a namespace with a bridge.
func bridge(t *testing.T) (*netns.NS, *link.Net) {
	t.Helper()
	s := testenv.Space(t, link.Quiet)
	must(t, s.Net.AddBridge("br0"))
	return s.NS, s.Net
}

// image is what guests boot; a machine that cannot is a listed skip. On a new
// one it fetches a kernel and a userland first, beside all other tests.
func image(t *testing.T) peer.Image {
	t.Helper()
	if err := peer.Available(); err != nil {
		t.Skip(err)
	}
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces and TAPs here")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	image, err := peer.Build(ctx, peer.CacheDir(), os.Stderr)
	must(t, err)
	return image
}

// start brings a guest up.
func start(t *testing.T, ctx context.Context, image peer.Image, cfg peer.Config) *peer.Guest {
	t.Helper()
	g, err := peer.Start(ctx, image, cfg)
	must(t, err)
	t.Cleanup(g.Stop)
	return g
}

// TestGuest boots one guest and runs commands in it, well-behaved and not.
func TestGuest(t *testing.T) {
	boots := image(t)
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	ns, links := bridge(t)
	dir := filepath.Join(t.TempDir(), "guest")
	g := start(t, ctx, boots, peer.Config{
		NS: ns, Bridge: "br0", IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}, Life: 4 * time.Minute, Dir: dir,
	})
	t.Run("commands", func(t *testing.T) { commands(t, ctx, g) })
	t.Run("killed commands", func(t *testing.T) { killed(t, ctx, g) })
	t.Run("another process finds it", func(t *testing.T) {
		h, err := peer.Open(dir)
		must(t, err)
		if code, err := h.Run(ctx, 5*time.Second, "exit 3", os.Stderr); code != 3 || err != nil {
			t.Error(code, err)
		}
	})
	t.Run("siw with parameters", func(t *testing.T) {
		must(t, g.LoadSiw(ctx, "peer_to_peer=1", "rtr_type=64"))
		says(t, ctx, g, "cat /sys/module/siw/parameters/rtr_type", "64\n")
		if err := g.LoadSiw(ctx, "no_such_parameter=1", "mpa_version=x"); err == nil {
			t.Error("siw took nonsense")
		}
		must(t, g.LoadSiw(ctx))
		says(t, ctx, g, "rdma link | grep -c siw0; test ! -e /sys/module/siw/parameters && echo stock", "1\nstock\n")
	})
	t.Run("the end", func(t *testing.T) {
		g.Stop()
		all, err := links.All()
		must(t, err)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || len(all) != 2 { // lo and the bridge
			t.Errorf("left behind: %v, %v", err, all)
		}
		if _, err := g.Run(ctx, time.Second, "true", os.Stderr); err == nil {
			t.Error("a dead guest runs commands")
		}
	})
}

func says(t *testing.T, ctx context.Context, g *peer.Guest, command, want string) {
	t.Helper()
	var out bytes.Buffer
	if code, err := g.Run(ctx, time.Minute, command, &out); code != 0 || err != nil || out.String() != want {
		t.Errorf("%s: exit code %d, %v, says %q, want %q", command, code, err, out.String(), want)
	}
}

func commands(t *testing.T, ctx context.Context, g *peer.Guest) {
	says(t, ctx, g, "echo to; echo both >&2; echo streams", "to\nboth\nstreams\n")
	says(t, ctx, g, "dd if=/dev/zero bs=1000 count=1000 2>/dev/null", strings.Repeat("\x00", 1000_000))
	for command, want := range map[string]int{"exit 42": 42, "kill -9 $$": 128 + 9, "no-such-command": 127} {
		if code, err := g.Run(ctx, 10*time.Second, command, &bytes.Buffer{}); code != want || err != nil {
			t.Errorf("%s: exit code %d, %v, want %d", command, code, err, want)
		}
	}
	must(t, g.Put(ctx, "/tmp/script", 0o755, []byte("#!/bin/sh\necho \"$1 arrived\"\n")))
	says(t, ctx, g, "/tmp/script it", "it arrived\n")
	if err := g.Put(ctx, "/no/such/directory/x", 0o644, nil); err == nil {
		t.Error("a file in no directory was written")
	}
}

func killed(t *testing.T, ctx context.Context, g *peer.Guest) {
	if code, err := g.Run(ctx, time.Second, "sleep 100 & sleep 100", &bytes.Buffer{}); code != peer.OutOfTime || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := g.Run(short, time.Minute, "sleep 200", &bytes.Buffer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	says(t, ctx, g, "while ps | grep -q '[s]leep [12]00'; do sleep 0.2; done", "")
}
