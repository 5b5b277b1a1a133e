package inspect_test

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"testing"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/host/link"
	"tapir/lab/tool/inspect"
)

// patience is for slow and loaded machines; nothing waits so long otherwise.
const patience = 2 * time.Minute

// TestLivePTP4L: what two stock ptp4l say to each other breaks no rule.
func TestLivePTP4L(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]linuxptp.Options{
		"L2 E2E":    {"network_transport": "L2", "delay_mechanism": "E2E"},
		"UDPv4 P2P": {"network_transport": "UDPv4", "delay_mechanism": "P2P"},
		"UDPv4 E2E": {"network_transport": "UDPv4", "delay_mechanism": "E2E", "path_trace_enabled": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := liveCapture(t, o)
			if r.Verdict() != inspect.Clean {
				t.Errorf("%s: %v", r.Verdict(), r.Findings)
			}
		})
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// liveCapture runs a master and a slave and returns the report on what
// tcpdump saw of them.
func liveCapture(t *testing.T, o linuxptp.Options) *inspect.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var hosts [2]*linuxptp.Host
	var nets [2]*link.Net
	for k := range hosts {
		var err error
		hosts[k], err = linuxptp.NewIsolated()
		must(t, err)
		t.Cleanup(func() { hosts[k].Close() })
		nets[k], err = link.In(hosts[k].NS())
		must(t, err)
		t.Cleanup(nets[k].Close)
	}
	must(t, nets[0].AddVeth("eth0", nets[1], "eth0"))
	for k, n := range nets {
		must(t, n.AddAddr("eth0", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 7, 0, byte(k + 1)}), 24)), n.Up("eth0"))
	}
	dump := hosts[1].Path("ptp.pcap")
	p, err := hosts[1].Start(ctx, linuxptp.Command{Name: "tcpdump", Args: []string{"-i", "eth0", "-w", dump, "-U", "-Z", "root"}})
	must(t, err, p.Await(ctx, "tcpdump", func(l linuxptp.Log) bool { return l.Contains(regexp.MustCompile("listening on")) }))
	for k, role := range []linuxptp.Options{{"priority1": "1"}, {"slaveOnly": "1"}} {
		all := linuxptp.Options{"logAnnounceInterval": "-2", "logSyncInterval": "-4", "logMinDelayReqInterval": "-4", "logMinPdelayReqInterval": "-4",
			"tx_timestamp_timeout": "10000"}
		for _, more := range []linuxptp.Options{o, role} {
			for key, v := range more {
				all[key] = v
			}
		}
		_, err := hosts[k].PTP4L(ctx, linuxptp.PTP4L{Options: all, Sections: []linuxptp.Section{{Name: "eth0"}}})
		must(t, err)
	}
	answer := "Delay_Resp"
	if o["delay_mechanism"] == "P2P" {
		answer = "Pdelay_Resp_Follow_Up"
	}
	for {
		r := readLive(t, dump)
		for _, f := range r.Flows {
			if m := f.Sides[0].Messages; f.Protocol == "PTP" && m["Follow_Up"] >= 10 && m["Announce"] >= 3 && m[answer] >= 10 {
				return r
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("the two do not speak: %+v", r.Flows)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// readLive inspects a capture that is still being written: it may end inside a
// packet.
func readLive(t *testing.T, name string) *inspect.Report {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	in := inspect.New(inspect.Options{})
	if err := inspect.Read(f, in); err != nil {
		t.Log(err)
	}
	return in.Finish()
}
