package phc

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/nic/ptp"
	"tapir/nic/uapi/trap"
)

// fast are options of ptp4l that make its states change quickly.
var fast = []string{"--logAnnounceInterval", "-2", "--logMinDelayReqInterval", "-4", "--summary_interval", "-4", "--tx_timestamp_timeout", "100"}

// master runs a stock ptp4l that keeps the system's time.
func (w *world) master(t testing.TB, transport string) {
	t.Helper()
	h, err := linuxptp.NewHost(w.sys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	d, err := h.PTP4L(t.Context(), linuxptp.PTP4L{
		Options:  linuxptp.Options{"network_transport": transport, "logSyncInterval": "-4", "logMinDelayReqInterval": "-4", "logAnnounceInterval": "-2", "priority1": "1"},
		Sections: []linuxptp.Section{{Name: "sys0"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the master (ended: %t) said:\n%s", d.HasEnded(), d.Said())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	isMaster := func(l linuxptp.Log) bool { return l.Contains(regexp.MustCompile("assuming the grand master role")) }
	if err := d.Await(ctx, "a master", isMaster); err != nil {
		t.Fatal(err)
	}
}

// slave runs ptp4l -H with the served clock.
func (w *world) slave(t testing.TB, args ...string) *program {
	t.Helper()
	args = append([]string{"ptp4l", "-H", "-i", dutNetdev, "-s", "-m", "-q", "--uds_address", t.TempDir() + "/uds"}, args...)
	return w.run(t, append(args, fast...)...)
}

// locked are the samples of a servo that follows.
func locked(l linuxptp.Log) (list []linuxptp.Sample) {
	for _, s := range l.Samples() {
		if s.Servo == "s2" {
			list = append(list, s)
		}
	}
	return list
}

// follow waits until the slave follows for n samples and returns how far the
// clock truly is from the system's at the last of them.
func (w *world) follow(t testing.TB, p *program, n int) (truth []int64) {
	t.Helper()
	for len(truth) < n {
		p.await(t, "lock", func(l linuxptp.Log) bool { return len(locked(l)) > len(truth)+2*n })
		truth = append(truth, w.clock.offset())
	}
	return truth
}

// TestPTP4LHardware: ptp4l -H locks a clock that is far off to the system's.
// The bounds are wide because machines are busy; `make bench-ptp` prints what is
// reached.
func TestPTP4LHardware(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		transport, flag string
		ppb             float64
		offset          time.Duration
		via             trap.Via
	}{{"L2", "-2", 37_000, 1230 * time.Microsecond, trap.Seccomp}, {"UDPv4", "-4", -91_000, -5 * time.Millisecond, trap.Seccomp},
		{"UDPv6", "-6", 12_000, 0, trap.Seccomp}, {"L2", "-2", 37_000, 1230 * time.Microsecond, trap.Preload}} {
		t.Run(fmt.Sprint(c.transport, " ", c.via), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.ppb, c.offset)
			w.via = c.via
			w.master(t, c.transport)
			p := w.slave(t, c.flag)
			truth := w.follow(t, p, 10)
			slices.Sort(truth)
			if median := truth[len(truth)/2]; median < -500_000 || median > 500_000 {
				t.Errorf("true offset %d ns", median)
			}
			p.await(t, fmt.Sprintf("a correction of %.0f ppm", -c.ppb/1000), func(linuxptp.Log) bool {
				f, _ := w.clock.Frequency()
				return math.Abs(float64(f)/(1<<16)+c.ppb/1000) <= 10
			})
			if s := w.stamps.Stats(); s.TxStamps == 0 || s.RxStamps == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestLostStamp: what ptp4l does when a Tx stamp never comes.
func TestLostStamp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, 0)
	w.serve(ptp.Faults{LoseEvery: 8})
	w.master(t, "L2")
	p := w.slave(t, "-2")
	log := p.await(t, "a fault", func(l linuxptp.Log) bool { return l.Contains(regexp.MustCompile(` to FAULTY on FAULT_DETECTED`)) })
	matches(t, strings.Join(log, "\n"), "timed out while polling for tx timestamp", "send delay request failed", "to FAULTY")
}

func TestPHC2Sys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200_000, time.Second)
	phc2sys, err := linuxptp.Find("phc2sys")
	if err != nil {
		t.Fatal(err)
	}
	p := w.run(t, "unshare", "--ipc", phc2sys, "-s", "/dev/ptp7", "-E", "ntpshm", "-O", "0", "-R", "10", "-m", "-q")
	log := p.await(t, "samples", func(l linuxptp.Log) bool { return len(l.Samples()) >= 6 })
	for i, s := range log.Samples() {
		if before := log.Samples()[max(i-1, 0)].Offset; i > 0 && s.Offset >= before {
			t.Errorf("offset %d after %d: the clock is fast, and so the system's ever slower", s.Offset, before)
		}
	}
}

func TestTS2PHC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 37_000, 300*time.Microsecond)
	p := w.run(t, "ts2phc", "-c", "/dev/ptp7", "-s", "generic", "-m", "-q", "-l", "7")
	// Where the machine delays a sample, the next ones make up for it.
	p.await(t, "lock at 37 ppm", func(l linuxptp.Log) bool {
		s := locked(l)
		return len(s) >= 2 && math.Abs(float64(s[len(s)-1].Freq)-37_000) <= 200 && math.Abs(float64(s[len(s)-1].Offset)) <= 1000
	})
}

func TestChrony(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 23_000, 0)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil { // chronyd wants its socket's directory to be private
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "conf")
	control := filepath.Join(dir, "c")
	text := fmt.Sprintf("bindcmdaddress %s\ncmdport 0\nport 0\npidfile %s/pid\nrefclock PHC /dev/ptp7:nocrossts poll -3 dpoll -4\n", control, dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.run(t, "chronyd", "-x", "-d", "-u", "root", "-f", conf)
	chronyc, err := linuxptp.Find("chronyc")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		out, _ := exec.Command(chronyc, "-c", "-h", control, "tracking").Output()
		// The reference's name, and how far chronyd finds the system's clock off.
		if row := strings.Split(strings.TrimSpace(string(out)), ","); len(row) > 7 && row[1] == "PHC0" {
			if ppm, _ := strconv.ParseFloat(row[7], 64); math.Abs(math.Abs(ppm)-23) < 1 {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("chronyc tracking: %s\n%s", out, strings.Join(p.text(), "\n"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestHWStampCtl(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, 0)
	matches(t, w.output(t, "hwstamp_ctl", "-i", dutNetdev, "-t", "1", "-r", "13"), "current settings:\ntx_type 0\nrx_filter 0\nnew settings:\ntx_type 1\nrx_filter 12")
	matches(t, w.output(t, "hwstamp_ctl", "-i", dutNetdev), "current settings:\ntx_type 1\nrx_filter 12")
	matches(t, w.output(t, "hwstamp_ctl", "-i", "lo"), regexp.QuoteMeta("Device driver does not have support for non-destructive SIOCGHWTSTAMP"))
}
