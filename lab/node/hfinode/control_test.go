package hfinode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/check/opabed"
	"tapir/lab/conf/hficonf"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
)

// What a control server asks an HFI for: captures, metrics, tables.
func TestServed(t *testing.T) {
	b := opabed.New(t)
	a := b.Start(opabed.Number(1, hficonf.VNIC{VESW: 2, IP: ips("10.0.0.1/24")}))
	b.Start(opabed.Number(2, hficonf.VNIC{VESW: 2, IP: ips("10.0.0.2/24")}))
	stopped := false
	s := a.Node.Served(func() { stopped = true })
	file, err := os.Create(filepath.Join(t.TempDir(), "hfi.pcapng"))
	must(t, err)
	defer file.Close()
	session := capture.New(file, s.CaptureInfo(), capture.Options{})
	detach, err := s.Attach(session, true)
	must(t, err)
	a.Ping(t, "10.0.0.2")
	detach()
	must(t, session.Close())
	<-session.Done()
	judge(t, file.Name())

	metrics, err := s.(ctl.Metered).Metrics()
	must(t, err)
	values := map[string]float64{}
	for _, m := range metrics {
		if m.Labels[0].Value != "1" {
			t.Errorf("%+v", m)
		}
		values[m.Name] = m.Value
	}
	if values["tapir_vnic_up"] != 1 || values["tapir_vnic_tx_unicast_total"] < 3 || values["tapir_hfi_tx_packets_total"] < 3 {
		t.Errorf("%v", values)
	}
	for kind, want := range map[string]string{"nic": "hfi", "vport": "FORWARDING", "ethtool": "opa_vnic", "counters": "rx_packets"} {
		if v, err := s.Show(kind); err != nil || !strings.Contains(fmt.Sprintf("%+v", v), want) {
			t.Errorf("%s: %v %v", kind, v, err)
		}
	}
	_, err = s.Show("qp")
	_, _, followErr := s.Follow("events", 0)
	_, perfErr := s.Perf(nil, nil, nil)
	for _, err := range []error{err, followErr, perfErr} {
		if err == nil || !strings.Contains(err.Error(), "Omni-Path HFI") {
			t.Error(err)
		}
	}
	if s.Stop(); !stopped {
		t.Error("not stopped")
	}
}
