package ctl

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"tapir/nic/view"
)

// The queues of a host function are told apart by a label, and so are vectors
// that several status blocks share.
func TestQueueMetrics(t *testing.T) {
	s := samples{nic: "nic0"}
	s.queues([]view.QueueInfo{{Queue: 0, RxPackets: 3}, {Queue: 1, TxWaiting: 2}})
	s.interrupts([]view.IRQInfo{{SB: "sp", Vector: 0, Interrupts: 5}, {SB: "0", Vector: 0, Interrupts: 5, RxUsecs: 64}, {SB: "1", Vector: -1}})
	want := map[string]float64{"queue_rx_packets_total 0": 3, "queue_tx_waiting 1": 2, "sb_rx_coalesce_seconds 0": 64e-6}
	vectors := 0
	for _, m := range s.list {
		key := strings.TrimPrefix(m.Name, "tapir_nic_") + " " + m.Labels[1].Value
		if v, ok := want[key]; ok {
			if m.Value != v {
				t.Errorf("%s: %v", key, m.Value)
			}
			delete(want, key)
		}
		if m.Name == "tapir_nic_vector_interrupts_total" {
			vectors++
		}
	}
	if len(want) > 0 || vectors != 1 {
		t.Errorf("not there: %v; %d vectors", want, vectors)
	}
}

// scrape asks a server for its metrics as Prometheus does.
func scrape(t *testing.T, s *Server) (status int, body string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", s.Path())
	}}}
	defer c.CloseIdleConnections()
	resp, err := c.Get("http://nic/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestMetrics(t *testing.T) {
	runtimeDir(t)
	d, th, _ := device(t)
	s, err := Listen("nic0", "test")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(d.Served())
	defer s.Close()
	status, body := scrape(t, s)
	if status != http.StatusOK || !regexp.MustCompile(`(?m)^tapir_nic_rx_packets_total\{nic="nic0"\} 0$`).MatchString(body) ||
		!strings.Contains(body, "# TYPE tapir_nic_rx_packets_total counter") {
		t.Errorf("%d\n%s", status, body)
	}
	for _, want := range []string{
		`tapir_nic_link_up\{nic="nic0"\} [01]`, `tapir_nic_link_speed_bytes\{nic="nic0"\} \d`, `tapir_nic_eee_active\{nic="nic0"\} 0`,
		`tapir_nic_temperature_celsius\{nic="nic0"\} 52`, `tapir_nic_healthy\{nic="nic0"\} 1`, `tapir_nic_hw_errors_total\{kind="FAN_FAIL",nic="nic0"\} 0`,
		`tapir_nic_recoveries_total\{nic="nic0"\} 0`, `tapir_nic_resource_used\{nic="nic0",resource="cid_eth"\} [1-9]`,
		`tapir_nic_vector_interrupts_total\{nic="nic0",vector="0"\} \d`, `tapir_nic_sb_events_total\{nic="nic0",sb="0",user=".+"\} \d`,
		`tapir_nic_mfw_commands_total\{nic="nic0"\} [1-9]`,
	} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(body) {
			t.Errorf("no sample %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	th.ended = true
	if status, body = scrape(t, s); status != http.StatusInternalServerError {
		t.Errorf("of a NIC that has ended: %d\n%s", status, body)
	}
}

// TestExposition compares the text with that of Prometheus' own library.
func TestExposition(t *testing.T) {
	all := []Metric{
		{Name: "tapir_b", Help: "Gauge with a \\ and\na line.", Gauge: true, Value: -1.5, Labels: []Label{{"z", "b\"b\\c\nd"}, {"a", "µ"}}},
		{Name: "tapir_a-b_total", Help: "Counter.", Value: 12345678},
		{Name: "tapir_b", Help: "Gauge with a \\ and\na line.", Gauge: true, Value: math.Inf(1), Labels: []Label{{"z", "c"}, {"a", "µ"}}},
		{Name: "tapir_h", Help: "Histogram.", Labels: []Label{{"nic", "nic0"}},
			Histogram: &Histogram{Count: 7, Sum: 0.25, Buckets: map[float64]uint64{0.5: 6, 1e-9: 2, 64: 6}}},
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(library(all))
	theirs, ours := httptest.NewRecorder(), httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(theirs, httptest.NewRequest("GET", "/metrics", nil))
	metricsOf(fixed(all)).ServeHTTP(ours, httptest.NewRequest("GET", "/metrics", nil))
	if want, have := theirs.Body.String(), ours.Body.String(); want != have || len(want) < 300 {
		t.Errorf("Prometheus writes\n%s\nand we\n%s", want, have)
	}
	if want, have := theirs.Header().Get("Content-Type"), ours.Header().Get("Content-Type"); !strings.HasPrefix(want, have) {
		t.Errorf("content type %q, Prometheus' is %q", have, want)
	}
}

// fixed is a NIC with these samples; library gives them to Prometheus' own library.
type (
	fixed   []Metric
	library []Metric
)

func (f fixed) Metrics() ([]Metric, error) { return slices.Clone(f), nil }

func (library) Describe(chan<- *prometheus.Desc) {}

func (l library) Collect(out chan<- prometheus.Metric) {
	for _, m := range l {
		var names, values []string
		for _, label := range m.Labels {
			names, values = append(names, label.Name), append(values, label.Value)
		}
		desc := prometheus.NewDesc(m.Name, m.Help, names, nil)
		switch h := m.Histogram; {
		case h != nil:
			out <- prometheus.MustNewConstHistogram(desc, h.Count, h.Sum, h.Buckets, values...)
		case m.Gauge:
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, m.Value, values...)
		default:
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, m.Value, values...)
		}
	}
}

// able is a NIC with a command and no metrics.
type able struct{ *fakeNIC }

func (able) Command(_ context.Context, name string, args json.RawMessage) (any, error) {
	if name != "reload" {
		return nil, &Error{Status: http.StatusNotFound, What: "there is no command " + name}
	}
	return map[string]string{"did": string(args)}, nil
}

func TestCommand(t *testing.T) {
	runtimeDir(t)
	s, err := Listen("em0", "test")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(able{newFake()})
	defer s.Close()
	c := dial(t, "em0")
	var answer struct{ Did string }
	if err := c.Command(t.Context(), "reload", 7, &answer); err != nil || answer.Did != "7" {
		t.Errorf("%+v %v", answer, err)
	}
	wantError(t, c.Command(t.Context(), "fly", nil, &answer), "there is no command fly")
	if status, body := scrape(t, s); status != http.StatusNotFound || !strings.Contains(body, "has no metrics") {
		t.Errorf("%d %s", status, body)
	}
	serve(t, "nic0", newFake())
	wantError(t, dial(t, "nic0").Command(t.Context(), "reload", nil, &answer), "nic0 has no command reload")
}
