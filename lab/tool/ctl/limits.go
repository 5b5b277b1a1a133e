package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"tapir/nic/uapi/listen"
)

// What a connection may take, by the control socket and by TCP.
const (
	headerTimeout  = 5 * time.Second  // for the header of a request, the first one too
	requestTimeout = 10 * time.Second // for all of it
	idleTimeout    = 30 * time.Second // between two requests
	answerTimeout  = 30 * time.Second // for the client to read an answer; streams have no bound
	maxHeader      = 16 << 10         // octets
)

// newHTTP returns a server whose connections are those of bounded.
func newHTTP(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ConnState: func(c net.Conn, state http.ConnState) {
			c.(*listen.Conn).SetBusy(state == http.StateActive)
		}}
}

// bounded is a listener with a bounded number of connections, of which one peer
// has at most half.
func bounded(l net.Listener, name string, log io.Writer) net.Listener {
	total := listen.Share()
	return listen.New(l, listen.Options{Name: name, Total: total, PerPeer: total / 2, Refuse: refuse,
		Logf: func(format string, args ...any) {
			if log != nil {
				fmt.Fprintf(log, format+"\n", args...)
			}
		}})
}

// refuse answers the request that a client is about to make.
func refuse(c net.Conn, why *listen.Refusal) {
	b, _ := json.Marshal(&Error{What: why.What, Remedy: why.Remedy}) // two strings
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))              // there is room for it
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Connection: close\r\nRetry-After: 1\r\n\r\n%s", http.StatusServiceUnavailable,
		http.StatusText(http.StatusServiceUnavailable), len(b), b)
}

// boundWrite bounds how long the client takes to read the answer.
func boundWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
}
