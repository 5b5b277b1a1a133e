package peer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAvailableNamesTheRemedy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	err := Available()
	if err == nil || !strings.Contains(err.Error(), "apt-get is missing") {
		t.Errorf("on a machine without packages: %v", err)
	}
	for _, n := range needs[1:] {
		if err := os.WriteFile(filepath.Join(dir, n[0]), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err = Available()
	if err == nil || !strings.HasSuffix(err.Error(), "apt-get install -y qemu-system-x86") {
		t.Errorf("without QEMU: %v", err)
	}
}

func TestBadConfigs(t *testing.T) {
	good := Config{Bridge: "br0", IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}
	for want, change := range map[string]func(*Config){
		"bridge":  func(c *Config) { c.Bridge = "" },
		"address": func(c *Config) { c.IP = nil },
		"MTU 100": func(c *Config) { c.MTU = 100 },
		"life":    func(c *Config) { c.Life = time.Millisecond },
		`"p2p"`:   func(c *Config) { c.Siw = []string{"p2p"} },
		`"a=$b"`:  func(c *Config) { c.Siw = []string{"a=$b"} },
	} {
		c := good
		change(&c)
		if g, err := Start(context.Background(), Image{}, c); g != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Start awaits the life line: the channels must be there by then, which QEMU
// makes in the order of its arguments.
func TestLifeLineComesLast(t *testing.T) {
	g := &Guest{cfg: Config{Dir: "d", IP: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}}
	var sockets []string
	for _, a := range g.arguments() {
		if _, path, ok := strings.Cut(a, "path=d/"); ok && strings.HasPrefix(a, "socket,") {
			name, _, _ := strings.Cut(path, ",")
			sockets = append(sockets, name)
		}
	}
	if len(sockets) != channels+1 || sockets[channels] != "life.sock" {
		t.Errorf("sockets in this order: %v", sockets)
	}
}

func TestNoGuest(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no guest runs") {
		t.Error(err)
	}
}

// A guest takes one connection of a channel at a time: while it is slow to,
// further ones are refused for the moment. It runs all the same, and who has
// something for it waits.
func TestBusyGuest(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "0.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: name}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		var waiting net.Conn
		if waiting, err = net.Dial("unix", name); err == nil {
			defer waiting.Close()
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := h.take(t.Context(), name); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
}

// A stage runs when what it is made from has changed, or its result has.
func TestStagesRunWhenTheirInputsChange(t *testing.T) {
	dir, in := t.TempDir(), t.TempDir()
	script := func(text string) {
		if err := os.WriteFile(filepath.Join(in, "image.sh"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := stage{name: "image"}
	build := func(key string) (ran bool) {
		t.Helper()
		var log bytes.Buffer
		if err := s.build(context.Background(), dir, in, key, &log); err != nil {
			t.Fatal(err)
		}
		return log.Len() > 0
	}
	script("echo kernel >vmlinuz; echo ramdisk >initrd")
	if !build("one") || build("one") || !build("two") || build("two") {
		t.Error("the key does not decide")
	}
	if err := os.WriteFile(filepath.Join(dir, "image", "initrd"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !build("two") || build("two") {
		t.Error("a changed result stays")
	}
	script("echo one; echo why; exit 1")
	err := s.build(context.Background(), dir, in, "three", &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "one | why") {
		t.Errorf("a failure says: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "image.stamp")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a failed stage counts as built")
	}
}

func TestKeysDependOnEarlierStages(t *testing.T) {
	seen := map[string]bool{}
	for _, earlier := range []string{"", "x"} {
		for _, s := range stages {
			k, err := s.key(earlier)
			if err != nil || seen[k] {
				t.Errorf("%s after %q: %s, %v", s.name, earlier, k, err)
			}
			seen[k] = true
		}
	}
}

// In a user namespace of its own, a process still finds what its user has built.
func TestCacheOfUser(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TAPIR_USER_NAMESPACE", "1234")
	if d := CacheDir(); d != "/var/tmp/tapir-peer-1234" {
		t.Error(d)
	}
}
