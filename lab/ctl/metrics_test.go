package ctl

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

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
	th.ended = true
	if status, body = scrape(t, s); status != http.StatusInternalServerError {
		t.Errorf("of a NIC that has ended: %d\n%s", status, body)
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
