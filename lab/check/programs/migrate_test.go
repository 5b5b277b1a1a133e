package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/host/process"
)

// monitor is a connection to QEMU's monitor.
type monitor struct {
	c   net.Conn
	dec *json.Decoder
}

// dialMonitor connects to a monitor when it is there.
func dialMonitor(ctx context.Context, socket string) (m *monitor, err error) {
	m = &monitor{}
	if err := process.Until(ctx, func() (bool, error) {
		m.c, err = net.Dial("unix", socket)
		return err == nil, nil
	}); err != nil {
		return nil, err
	}
	m.dec = json.NewDecoder(m.c)
	return m, m.do("qmp_capabilities", nil, nil)
}

// do executes a command of the monitor and reads what it returns.
func (m *monitor) do(command string, arguments map[string]any, result any) error {
	ask := map[string]any{"execute": command}
	if arguments != nil {
		ask["arguments"] = arguments
	}
	if err := json.NewEncoder(m.c).Encode(ask); err != nil {
		return err
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := m.dec.Decode(&answer); err != nil {
			return err
		}
		switch {
		case answer.Error != nil:
			return errors.New(command + ": " + answer.Error.Desc)
		case answer.Return != nil && result != nil:
			return json.Unmarshal(answer.Return, result)
		case answer.Return != nil:
			return nil
		} // else it is an event
	}
}

// TestMigration: QEMU moves a stopped machine over RDMA; both memories are equal then, and
// have what was in the first.
func TestMigration(t *testing.T) {
	needs(t, "qemu-system-x86_64")
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	megabytes := 24
	if *interop {
		megabytes = 512
	}
	fill := pattern(megabytes / 2 << 20)
	if err := os.WriteFile(filepath.Join(l.dir, "fill"), fill, 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(nic, more string) *monitor {
		socket := filepath.Join(l.dir, nic+".qmp")
		argv := fmt.Sprintf("qemu-system-x86_64 -accel tcg -S -nodefaults -display none -m %d -qmp unix:%s,server=on,wait=off %s", megabytes, socket, more)
		p, err := process.Start(ctx, l.side(nic).NS, process.Options{Dir: l.dir, Argv: l.under(nic, Auto, strings.Fields(argv))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		m, err := dialMonitor(ctx, socket)
		if err != nil {
			t.Fatalf("%v: %s", err, p.Tail())
		}
		t.Cleanup(func() { m.c.Close() })
		return m
	}
	const uri = "rdma:" + IPv4 + ":4444"
	to := start(server, "-incoming "+uri)
	from := start(client, "-device loader,file=fill,addr=0x400000,force-raw=on")
	memory := func(m *monitor, name string) []byte {
		file := filepath.Join(l.dir, name)
		if err := m.do("pmemsave", map[string]any{"val": 0, "size": megabytes << 20, "filename": file}, nil); err != nil {
			t.Fatal(err)
		}
		return []byte(content(t, file))
	}
	before := memory(from, "before")
	if !bytes.Equal(before[4<<20:][:len(fill)], fill) {
		t.Fatal("the first machine has not the pattern")
	}
	if err := from.do("migrate", map[string]any{"uri": uri}, nil); err != nil {
		t.Fatal(err)
	}
	var info struct {
		Status string
		RAM    struct{ Transferred uint64 }
	}
	if err := process.Until(ctx, func() (bool, error) {
		err := from.do("query-migrate", nil, &info)
		if info.Status == "failed" {
			err = errors.New("the migration has failed")
		}
		return info.Status == "completed", err
	}); err != nil {
		t.Fatalf("%v %+v%s", err, info, l.state())
	}
	if sha256.Sum256(memory(to, "after")) != sha256.Sum256(before) {
		t.Error("the memories differ")
	}
	t.Logf("%d octets of %d MiB", info.RAM.Transferred, megabytes)
}
