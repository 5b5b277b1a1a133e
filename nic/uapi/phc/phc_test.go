package phc

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"tapir/lab/linuxptp"
	"tapir/nic/ptp"
)

func TestPHCCtl(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 37_000, time.Millisecond)
	out := w.output(t, "phc_ctl", dutNetdev, "caps", "get", "freq", "12000.5", "freq", "adj", "-3600", "cmp")
	t.Log(out)
	out = w.output(t, "phc_ctl", "/dev/ptp7", "set", "1000.25", "get")
	t.Log(out)
	out = w.output(t, "hwstamp_ctl", "-i", dutNetdev, "-t", "1", "-r", "13")
	t.Log(out)
	out = w.output(t, "hwstamp_ctl", "-i", dutNetdev)
	t.Log(out)
	out = w.output(t, "hwstamp_ctl", "-i", dutNetdev, "-t", "2", "-r", "0")
	t.Log(out)
}

func TestPTP4L(t *testing.T) {
	w := newWorld(t, 37_000, 1230*time.Microsecond)
	h, err := linuxptp.NewHost(w.sys)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, err = h.PTP4L(t.Context(), linuxptp.PTP4L{Options: linuxptp.Options{"network_transport": "L2", "logSyncInterval": "-4", "logMinDelayReqInterval": "-4", "logAnnounceInterval": "-2"},
		Sections: []linuxptp.Section{{Name: "sys0"}}})
	if err != nil {
		t.Fatal(err)
	}
	p := w.run(t, "ptp4l", "-H", "-2", "-i", dutNetdev, "-s", "-m", "-q", "--uds_address", t.TempDir()+"/uds", "--summary_interval", "-4", "--logAnnounceInterval", "-2", "--logMinDelayReqInterval", "-4")
	lines := p.await(t, "lock", func(l linuxptp.Log) bool {
		n := 0
		for _, s := range l.Samples() {
			if s.Servo == "s2" {
				n++
			}
		}
		return n > 100
	})
	t.Log(strings.Join(lines, "\n"))
	t.Log(w.clock.offset(), w.stamps.Stats(), ptp.TxOn, regexp.MustCompile("x"))
}
