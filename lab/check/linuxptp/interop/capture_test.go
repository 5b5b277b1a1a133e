package interop

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"

	"tapir/lab/check/linuxptp"
	"tapir/lab/conf/nicconf"
	"tapir/lab/node"
	"tapir/lab/tool/capture"
	unit "tapir/nic/ptp"
	"tapir/nic/tap"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// The stamps of a NIC whose clock is 37 ppm fast show that against tcpdump's,
// and Wireshark's own analysis shows it in our capture.
func TestCaptureShowsTheClock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := NewBed(ctx, func(c *nicconf.Config, _ *node.Env) { c.NIC.PHC.PPB = 37000 })
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dump := b.Host.Path("tcpdump.pcap")
	p, err := b.Host.Start(ctx, linuxptp.Command{Name: "tcpdump", Args: []string{"-i", tapName, "-w", dump, "-U", "-j", "host",
		"--time-stamp-precision=nano", "-Z", "root", "ether", "proto", "0x88f7"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Await(ctx, "tcpdump", func(l linuxptp.Log) bool { return l.Contains(regexp.MustCompile("listening on")) }); err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer
	s := capture.New(&ours, capture.Info{Name: "nic0", Wire: tapName, MTU: 1500}, capture.Options{PHC: true})
	s.Live()
	if err := b.NIC.DoWait(func(frame.Time) { b.NIC.Device.SetTracer(s) }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.StartPTP(ptp.DefaultE2E, 1, func(c *unit.InstanceConfig) {
		c.Ports[0].LogAnnounceInterval, c.Ports[0].LogSyncInterval = -4, -4
		c.Ports[0].TxTimestampTimeout = time.Second
	}); err != nil {
		t.Fatal(err)
	}
	// Three seconds from the first Sync to the last, however long that takes.
	for span := time.Duration(0); span < 3*time.Second; {
		if err := ctx.Err(); err != nil {
			t.Fatalf("%v after %v of Syncs", err, span)
		}
		time.Sleep(100 * time.Millisecond)
		if list := syncsOf(t, dump); len(list) > 1 {
			span = time.Duration(list[len(list)-1].at - list[0].at)
		}
	}
	if err := b.NIC.DoWait(func(frame.Time) { b.NIC.Device.SetTracer(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	theirs := map[[34]byte]int64{}
	for _, e := range syncsOf(t, dump) {
		theirs[e.header] = e.at
	}
	compareClocks(t, ours.Bytes(), theirs)
	analyse(t, b.Host.Path("ours.pcapng"), ours.Bytes())
}

// event is an event message in a capture.
type event struct {
	header [34]byte
	at     int64
}

// syncsOf reads what tcpdump has written so far.
func syncsOf(t *testing.T, name string) (list []event) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		return nil // the head is not written yet
	}
	for {
		data, ci, err := r.ReadPacketData()
		if err != nil {
			return list
		}
		if h := tap.EventHeader(data); h != nil && msg.Type(h[0]&15) == msg.Sync {
			list = append(list, event{[34]byte(h), ci.Timestamp.UnixNano()})
		}
	}
}

// compareClocks wants nic0 to agree with tcpdump, and nic0/phc to be 37 ppm
// faster, packet by packet. The kernel begins to stamp frames for all sockets at
// once some time after the first of them wants it; until then each socket looks
// at the clock itself, and those frames do not count.
func compareClocks(t *testing.T, file []byte, theirs map[[34]byte]int64) {
	t.Helper()
	var names []string
	system, phc := map[uint64]int64{}, map[uint64]int64{}
	var clock, dump []int64
	r := pcapng.NewReader(bytes.NewReader(file))
	for {
		blk, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch blk := blk.(type) {
		case *pcapng.Interface:
			names = append(names, blk.Name)
		case *pcapng.Packet:
			if blk.Flags&pcapng.Outbound == 0 {
				continue
			}
			if blk.Interface == 0 {
				system[blk.ID] = blk.Stamp
				continue
			}
			phc[blk.ID] = blk.Stamp
			h := tap.EventHeader(blk.Data)
			if h == nil {
				continue
			}
			if len(blk.Comments) != 1 || !strings.HasPrefix(blk.Comments[0], "tx stamp ") {
				t.Errorf("packet %d: comments %q", blk.ID, blk.Comments)
			}
			if at, ok := theirs[[34]byte(h)]; ok && !strings.HasSuffix(blk.Comments[0], "lost") {
				d := system[blk.ID] - at
				if len(clock) == 0 && (d < -1000 || d > 1000) {
					continue
				}
				clock, dump = append(clock, blk.Stamp), append(dump, at)
				if d < -5000 || d > 5000 {
					t.Errorf("packet %d: nic0 and tcpdump are %d ns apart", blk.ID, d)
				}
			}
		}
	}
	if !slices.Equal(names, []string{"nic0", "nic0/phc"}) || len(system) != len(phc) || len(clock) < 20 {
		t.Fatalf("interfaces %q, %d and %d packets, %d of them tcpdump's", names, len(system), len(phc), len(clock))
	}
	last := len(clock) - 1
	ppm := (float64(clock[last]-clock[0])/float64(dump[last]-dump[0]) - 1) * 1e6
	t.Logf("%.3f ppm over %v", ppm, time.Duration(dump[last]-dump[0]))
	if math.Abs(ppm-37) > 1 {
		t.Errorf("the clock is %.3f ppm fast, want 37", ppm)
	}
}

// analyse has Wireshark compare the origin times of the Syncs with the time of
// each interface: a master's clock runs as itself, and 37 ppm fast against the
// system's.
func analyse(t *testing.T, name string, file []byte) {
	t.Helper()
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for iface, want := range map[string]float64{"nic0": 37, "nic0/phc": 0} {
		part := name + strings.ReplaceAll(iface, "/", "-")
		if out, err := exec.Command("tshark", "-r", name, "-Y", `frame.interface_name=="`+iface+`"`, "-w", part).CombinedOutput(); err != nil {
			t.Fatalf("tshark: %v: %s", err, out)
		}
		out, err := exec.Command("tshark", "-2", "-r", part, "-o", "ptp.analyze_ptp_messages:TRUE", "-Y", "ptp.v2.analysis.sync.calculatedRateRatio_ppm",
			"-T", "fields", "-e", "ptp.v2.analysis.sync.calculatedRateRatio_ppm").Output()
		if err != nil {
			t.Fatalf("tshark: %v", err)
		}
		var ratios []float64
		for w := range strings.FieldsSeq(string(out)) {
			if v, err := strconv.ParseFloat(w, 64); err == nil {
				ratios = append(ratios, v)
			}
		}
		if len(ratios) < 10 {
			t.Fatalf("%s: %d rate ratios: %s", iface, len(ratios), out)
		}
		slices.Sort(ratios)
		if median := ratios[len(ratios)/2]; math.Abs(math.Abs(median)-want) > 1 {
			t.Errorf("%s: Wireshark sees a rate ratio of %v ppm, want %v", iface, median, want)
		} else {
			t.Logf("%s: Wireshark sees %v ppm", iface, median)
		}
	}
}
