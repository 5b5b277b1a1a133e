package ctl

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// counted is a NIC with one counter and a histogram.
type counted string

func (c counted) Metrics() ([]Metric, error) {
	return []Metric{{Name: "tapir_nic_tx_packets_total", Help: "sent", Value: 7, Labels: []Label{{"nic", string(c)}}},
		{Name: "tapir_depth", Help: "depth", Labels: []Label{{"nic", string(c)}}, Histogram: &Histogram{Count: 5, Sum: 300, Buckets: map[float64]uint64{0: 1, 64: 3}}}}, nil
}

// The metrics of several NICs are served over TCP, on the loopback address
// unless another is named.
func TestListenMetrics(t *testing.T) {
	for _, addr := range []string{"0", ":0", "127.0.0.1:0"} {
		s, err := ListenMetrics(addr, nil, counted("nic0"), counted("nic1"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
			t.Errorf("%s is %s", addr, s.URL())
		}
		client := http.Client{Transport: &http.Transport{}}
		for path, status := range map[string]int{s.URL(): http.StatusOK, strings.TrimSuffix(s.URL(), metricsPath) + "/v1/stop": http.StatusNotFound} {
			resp, err := client.Get(path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != status {
				t.Errorf("%s: %v, %v", path, resp.Status, err)
			}
			for _, nic := range []string{"nic0", "nic1"} {
				if status == http.StatusOK && !strings.Contains(string(body), `tapir_nic_tx_packets_total{nic="`+nic+`"} 7`) {
					t.Errorf("%s: no metrics of %s:\n%s", path, nic, body)
				}
				for _, line := range []string{"_bucket{nic=\"%s\",le=\"0\"} 1", "_bucket{nic=\"%s\",le=\"64\"} 3", "_bucket{nic=\"%s\",le=\"+Inf\"} 5", "_sum{nic=\"%s\"} 300"} {
					if line = "tapir_depth" + fmt.Sprintf(line, nic); status == http.StatusOK && !strings.Contains(string(body), line) {
						t.Errorf("%s: no %s:\n%s", path, line, body)
					}
				}
			}
		}
		client.CloseIdleConnections()
		s.Close()
		if _, err := client.Get(s.URL()); err == nil {
			t.Error("it answers after its end")
		}
	}
	s, err := ListenMetrics("0", nil, counted("nic0"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "http://"), metricsPath)
	for _, addr := range []string{taken, "1:2:3", "none:such:0", "host"} {
		if x, err := ListenMetrics(addr, nil); err == nil {
			x.Close()
			t.Errorf("%q is accepted", addr)
		} else if !strings.HasPrefix(err.Error(), "metrics: ") {
			t.Errorf("%q: %v", addr, err)
		}
	}
}
