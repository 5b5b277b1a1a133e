package ctl

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// MetricsServer serves the metrics of NICs over TCP, for those who cannot reach
// their control sockets.
type MetricsServer struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{}
}

// MetricsAddr is the address that addr stands for: a port, or a host and a
// port. Without a host it is of the loopback interface.
func MetricsAddr(addr string) (string, error) {
	at := addr
	if !strings.Contains(at, ":") {
		at = ":" + at
	}
	host, port, err := net.SplitHostPort(at)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("metrics: %q: expected PORT or HOST:PORT", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// ListenMetrics serves GET /metrics of all nics at addr, as MetricsAddr has it;
// port 0 is any free one. The metrics tell NICs apart by their labels.
// log is told what the user should know.
func ListenMetrics(addr string, log io.Writer, nics ...Metered) (*MetricsServer, error) {
	at, err := MetricsAddr(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, metricsOf(nics...))
	s := &MetricsServer{listener: l, http: newHTTP(mux), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(bounded(l, "the metrics", log)) // ends with ErrServerClosed
	}()
	return s, nil
}

// URL is where the metrics are.
func (s *MetricsServer) URL() string { return "http://" + s.listener.Addr().String() + metricsPath }

// Close ends the server and its connections.
func (s *MetricsServer) Close() {
	s.http.Close()
	<-s.done
}
