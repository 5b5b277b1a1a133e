package storage

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/targetconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/iscsi"
	"tapir/nic/fastlinq"
	"tapir/wire/frame"
)

const (
	shared   = "10.80.0.1" // of the NIC and its operating system
	opposite = "10.80.0.3" // of the operating system of the other side
	disk0    = "iqn.2026-11.tapir:far"
	length   = 512 << 10 // octets that a job moves
)

// TestFromKernel: a socket of the host logs in to a target, and the NIC takes the connection out of the
// kernel: its TCP, or its iSCSI function, goes on with reads and writes. The targets are tgt on the kernel's
// TCP and the project's own. The capture of the wire has no RST, no malformed PDU, and every octet of both
// streams in its place.
//
// IS-09
func TestFromKernel(t *testing.T) {
	needs(t, "tcpdump", "tshark", "tgtd", "tgtadm")
	p := testenv.Pair(t, 1500, false)
	cfg := nicconf.Config{Name: "nic0", TAP: link.PairTAP, HostTAP: "host0", IPFromHost: true}
	must(t, cfg.Set("personality", "iscsi"))
	n, err := nicnode.Start(t.Context(), cfg, node.Env{NS: p.A.NS})
	must(t, err)
	t.Cleanup(func() { n.Close() })
	far, err := nicnode.Start(t.Context(), nicconf.Config{Name: "far", TAP: link.PairTAP,
		IP: testenv.Prefixes("10.80.0.2/24")}, node.Env{NS: p.B.NS})
	must(t, err)
	t.Cleanup(func() { far.Close() })
	must(t, p.A.Net.AddAddr("host0", netip.MustParsePrefix(shared+"/24")),
		p.B.Net.AddAddr("br0", netip.MustParsePrefix(opposite+"/24")))
	testenv.Until(t, "the NIC to have its address", func() (ok bool) {
		must(t, n.DoWait(func(frame.Time) { ok = len(n.Device.Config().Addrs) == 1 }))
		return ok
	})
	serveTgt(t, p.B)
	offer(t, &iscsi.NIC{Device: far.Device, Thread: far}, iscsi.Node{Name: disk0, LUNs: []disk.LUN{lun(t, targetconf.Mem)}})
	storage := &iscsi.NIC{Device: n.Device, Thread: n, Host: p.A.NS}
	tgt := iscsi.Task{Portal: netip.MustParseAddrPort(opposite + ":3260"), Target: "iqn.2026-11.tgt:disk", LUN: 1}
	own := iscsi.Task{Portal: netip.MustParseAddrPort("10.80.0.2:3260"), Target: disk0}
	for _, c := range []struct {
		name    string
		task    iscsi.Task
		offload bool
	}{{"tgt to TCP", tgt, false}, {"tgt to function", tgt, true}, {"own to function", own, true}} {
		t.Run(c.name, func(t *testing.T) {
			c.task.Op, c.task.FromKernel, c.task.Offload, c.task.Digests = iscsi.InitiatorOp, true, c.offload, c.offload
			moves(t, n, storage, p.A, c.task)
		})
	}
	for want, task := range map[string]iscsi.Task{
		"no target of that name": {Portal: own.Portal, Target: "iqn.2026-11.tapir:none"},
		"refused":                {Portal: netip.MustParseAddrPort("10.80.0.2:3261"), Target: disk0},
	} {
		task.Op, task.FromKernel, task.Work = iscsi.InitiatorOp, true, disk.DefaultWork(disk.Verify)
		if _, err := attempt(t, storage, task); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q: %v", want, err)
		}
	}
	own.Op, own.FromKernel, own.Work = iscsi.InitiatorOp, true, disk.DefaultWork(disk.Verify)
	storage.Host = nil
	if _, err := attempt(t, storage, own); err == nil || !strings.Contains(err.Error(), "--host-tap") {
		t.Errorf("without a host TAP: %v", err)
	}
}

// moves writes and verifies by connections that move, and judges the capture.
func moves(t *testing.T, n *nicnode.Node, storage *iscsi.NIC, s *link.Space, task iscsi.Task) {
	file := filepath.Join(t.TempDir(), "wire.pcap")
	dump := exec.Command("tcpdump", "-i", link.PairTAP, "-U", "-w", file, "-B", "32768", "tcp port 3260")
	must(t, s.NS.Start(dump))
	testenv.Until(t, "tcpdump to begin", func() bool { st, err := os.Stat(file); return err == nil && st.Size() > 0 })
	before := fastlinq.ISCSI(fastlinq.Of(n.Device.Hardware)).Totals().RxPDUs
	for _, v := range []disk.Verb{disk.Write, disk.Verify} {
		task.Work = disk.Work{Verb: v, Size: 32 << 10, Depth: 8, Seed: 3, Length: length}
		if out := perform(t, storage, task); out.Octets != task.Length {
			t.Errorf("%+v", out)
		}
	}
	testenv.Until(t, "the connections to end", func() (ok bool) {
		must(t, n.DoWait(func(frame.Time) {
			ok = n.Device.TCP().Stats().Open == n.Device.TCP().Stats().TimeWait
			if st := n.Device.TCP().Stats(); st.ActiveOpens != 0 {
				t.Errorf("the NIC has opened %d connections itself", st.ActiveOpens)
			}
		}))
		return ok
	})
	if got := fastlinq.ISCSI(fastlinq.Of(n.Device.Hardware)).Totals().RxPDUs > before; got != task.Offload {
		t.Errorf("the iSCSI function has had PDUs: %v", got)
	}
	testenv.Until(t, "tcpdump to see the ends", func() bool {
		out, _ := exec.Command("tcpdump", "-r", file, "tcp[tcpflags] & tcp-fin != 0").Output() // it is being written
		return strings.Count(string(out), "\n") >= 4
	})
	must(t, dump.Process.Signal(os.Interrupt))
	_ = dump.Wait() // tcpdump's end is not what is tested
	judge(t, file, 2*length)
}

// judge reads a capture of whole connections.
func judge(t *testing.T, file string, octets int32) {
	argv := []string{"-r", file, "-T", "fields", "-E", "occurrence=f", "-E", "separator=,"}
	for _, f := range []string{"tcp.stream", "ip.src", "tcp.seq_raw", "tcp.len", "tcp.flags.syn", "tcp.flags.fin",
		"tcp.flags.reset", "_ws.malformed", "iscsi.opcode"} {
		argv = append(argv, "-e", f)
	}
	out, err := exec.Command("tshark", argv...).Output()
	must(t, err)
	type segment struct{ from, to int32 } // from the SYN on
	first, streams, pdus := map[string]uint32{}, map[string][]segment{}, 0
	for r := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(r), ",")
		var seq uint32
		var n, syn, fin int32
		if _, err := fmt.Sscan(strings.Join(f[2:6], " "), &seq, &n, &syn, &fin); err != nil {
			t.Fatalf("%q: %v", r, err)
		}
		if f[6] != "0" || f[7] != "" {
			t.Errorf("RST or malformed: %s", r)
		}
		if f[8] != "" {
			pdus++
		}
		key := f[0] + " from " + f[1]
		if syn == 1 {
			first[key] = seq
		}
		at := int32(seq - first[key])
		streams[key] = append(streams[key], segment{at, at + n + syn + fin})
	}
	if len(streams) != 4 || pdus < 40 {
		t.Errorf("%d streams of octets, %d frames with PDUs", len(streams), pdus)
	}
	total := int32(0)
	for key, list := range streams {
		slices.SortFunc(list, func(a, b segment) int { return int(a.from - b.from) })
		end := int32(0)
		for _, s := range list {
			if s.from > end {
				t.Errorf("stream %s: octets %d to %d are missing", key, end, s.from)
			}
			end = max(end, s.to)
		}
		t.Logf("stream %s: %d octets in %d segments", key, end, len(list))
		total += end
	}
	if total < octets {
		t.Errorf("%d octets, expected %d of data alone", total, octets)
	}
}
