package ctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"tapir/lab/conf/perfconf"
	"tapir/mpa"
	"tapir/nic"
	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/hardware"
	"tapir/nic/ideal"
	"tapir/nic/view"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// sink is a link that sends into the void.
type sink struct{}

func (sink) Transmit(f *frame.Frame) { f.Release() }
func (sink) Room() int               { return 64 }

// inline is a Thread that runs everything at once, one call at a time.
type inline struct {
	mu    sync.Mutex
	now   frame.Time
	ended bool
}

func (l *inline) DoWait(fn func(now frame.Time)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return errors.New("the loop has ended")
	}
	l.now++
	fn(l.now)
	return nil
}

func (l *inline) Do(fn func(now frame.Time)) bool { return l.DoWait(fn) == nil }

// The system's clock is a million nanoseconds ahead.
func (l *inline) Now() frame.Time                  { l.now++; return l.now }
func (l *inline) Realtime(at frame.Time) int64     { return int64(at) + 1_000_000 }
func (l *inline) FromRealtime(ns int64) frame.Time { return frame.Time(ns - 1_000_000) }

// device is a NIC that is not connected to anything, behind a server.
func device(t *testing.T) (*Device, *inline, frame.Pool) {
	t.Helper()
	return deviceOf(t, &fastlinq.Config{})
}

// deviceOf is one of a kind of hardware.
func deviceOf(t testing.TB, kind hardware.Config) (*Device, *inline, frame.Pool) {
	t.Helper()
	pool := buf.NewPool(64, 2048)
	dev, err := nic.New(nic.Config{Name: "nic0", Hardware: kind, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}, nic.Env{Pool: pool, Wire: sink{}})
	if err != nil {
		t.Fatal(err)
	}
	th := &inline{}
	return &Device{Device: dev, Thread: th, Version: "v1", TAP: func() string { return "tap0" }, Clients: func() any { return []int{} }, OnStop: func() {}}, th, pool
}

// deviceClient is a client of such a NIC.
func deviceClient(t *testing.T) (*Client, *Device, *inline, frame.Pool) {
	t.Helper()
	d, th, pool := device(t)
	return clientOf(t, d), d, th, pool
}

// clientOf is a client of a NIC.
func clientOf(t *testing.T, d *Device) *Client {
	t.Helper()
	runtimeDir(t)
	s, err := Listen("nic0", "v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.Serve(d.Served())
	return dial(t, "nic0")
}

// What only FastLinQ hardware has is refused by a NIC of ideal hardware, by name.
func TestIdealHardwareLacksParts(t *testing.T) {
	d, _, _ := deviceOf(t, &ideal.Config{})
	c, ctx := clientOf(t, d), t.Context()
	var raw json.RawMessage
	for kind := range tables {
		err := c.Show(ctx, kind, &raw)
		if slices.Contains([]string{"irq", "vport", "queue", "link", "mfw", "nvm", "tlv", "ll2", "vf", "lldp", "dcb"}, kind) {
			wantError(t, err, "hardware ideal has no "+kind+" table")
		} else if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	wantError(t, c.Set(ctx, []Setting{{Name: "rx_usecs", Value: "5"}}, &raw), "hardware ideal has no setting rx_usecs")
	wantError(t, c.Set(ctx, []Setting{{Name: "colour", Value: "5"}}, &raw), "unknown setting")
	_, eeprom := c.EEPROM(ctx, EEPROMRange{})
	_, module := c.Module(ctx)
	_, registers := c.Registers(ctx)
	_, tests := c.Selftest(ctx, true)
	_, devlink := c.Devlink(ctx)
	_, dump := c.HealthDump(ctx)
	for part, err := range map[string]error{"flash": eeprom, "module": module, "registers": registers, "selftests": tests,
		"devlink instance": devlink, "health reporter": dump, "LED": c.Identify(ctx, 1)} {
		wantError(t, err, "hardware ideal has no "+part)
	}
	wantError(t, c.Recover(ctx), "hardware ideal has no health reporter")
	wantError(t, c.ClearHealthDump(ctx), "hardware ideal has no health reporter")
	wantError(t, c.Flash(ctx, 0, []byte{1}), "hardware ideal has no flash")
	if all, err := (*served)(d).Metrics(); err != nil || len(all) == 0 {
		t.Errorf("metrics: %v, %v", all, err)
	}
	var row struct{ Hardware string }
	if err := c.Show(ctx, "nic", &row); err != nil || row.Hardware != "ideal" {
		t.Errorf("%+v, %v", row, err)
	}
}

func TestDeviceShowsItself(t *testing.T) {
	c, _, th, _ := deviceClient(t)
	for kind := range tables {
		var raw json.RawMessage
		if err := c.Show(t.Context(), kind, &raw); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if b := bytes.TrimSpace(raw); kind != "nic" && kind != "ethtool" && b[0] != '[' {
			t.Errorf("%s: no array: %s", kind, raw)
		}
	}
	var row struct {
		Name, TAP, Version string
		MTU                int
	}
	if err := c.Show(t.Context(), "nic", &row); err != nil || row.Name != "nic0" || row.TAP != "tap0" || row.MTU != 1500 || row.Version != "v1" {
		t.Errorf("%+v, %v", row, err)
	}
	var e view.EthtoolInfo
	if err := c.Show(t.Context(), "ethtool", &e); err != nil || e.Netdev != "nic0" || e.BusInfo != "tap0" || e.Version != "v1" {
		t.Errorf("%+v, %v", e, err)
	}
	th.mu.Lock()
	th.ended = true
	th.mu.Unlock()
	wantError(t, c.Show(t.Context(), "qp", &row), "NIC nic0 is ending")
}

func TestDeviceRefusesBadJobs(t *testing.T) {
	d, _, _ := device(t)
	for _, c := range []struct{ job, want string }{
		{`{"op":"write-bw","colour":1}`, "colour"},
		{`{"op":"warp"}`, "warp"},
	} {
		if _, err := d.Served().Perf(json.RawMessage(c.job), nil, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.job, err)
		}
	}
}

func TestDeviceIsCaptured(t *testing.T) {
	c, d, th, pool := deviceClient(t)
	done := make(chan error, 2)
	files := make([]bytes.Buffer, 2)
	for i := range files {
		go func() {
			_, err := c.Capture(t.Context(), CaptureOptions{Count: 3}, &files[i])
			done <- err
		}()
	}
	// Frames for another station come in until both captures have three.
	for range files {
		for err, ended := error(nil), false; !ended; {
			if derr := th.DoWait(func(now frame.Time) { d.Device.Receive(frame.Wire, []*frame.Frame{strange(pool)}, now) }); derr != nil {
				t.Fatal(derr)
			}
			select {
			case err = <-done:
				ended = true
			default:
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range files {
		if n, _ := countPackets(t, files[i].Bytes()); n != 3 || !bytes.Contains(files[i].Bytes(), []byte("dropped: not our MAC")) {
			t.Errorf("capture %d: %d packets", i, n)
		}
	}
}

// strange is a frame for a station that is not ours.
func strange(pool frame.Pool) *frame.Frame {
	f := pool.Get(64)
	f.Append([]byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x08, 0x00})
	f.Append(make([]byte, 46))
	return f
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		op   perfconf.Op
		err  error
		want string
	}{
		{perfconf.WriteBW, cm.ErrRefused, "tapir perf write-bw"},
		{perfconf.Rping, cm.ErrRefused, "tapir rping -s"},
		{perfconf.Rping, cm.ErrUnreachable, "check the address"},
		{perfconf.Rping, &mpa.Error{Code: mpa.Startup}, "speaks no iWARP"},
		{perfconf.Rping, &rdmap.Error{Layer: rdmap.LayerLLP, Code: 2}, "tapir capture"},
	} {
		err := explain(c.op, fmt.Errorf("%s: connect: %w", c.op, c.err), 0)
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %q, want %q in one line", c.err, err, c.want)
		}
	}
	if err := explain(perfconf.Rping, cm.ErrUnreachable, 1); !strings.Contains(err.Error(), "--mac") {
		t.Errorf("a conflict: %v", err)
	}
	if err := explain(perfconf.Rping, nil, 0); err != nil {
		t.Errorf("nothing wrong: %v", err)
	}
}
