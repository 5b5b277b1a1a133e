package ctl

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"tapir/nic/fastlinq"
)

// FuzzRequest sends a request to a NIC, whose client is gone at once. The NIC
// lives as long as the process: what a request did is there for the next.
func FuzzRequest(f *testing.F) {
	for path, body := range map[string]string{
		"/v1/set":         `[{"name": "rx_usecs", "value": "5"}, {"name": "ird", "value": "16"}]`,
		"/v1/show/params": ``, "/v1/follow/log": ``, "/v1/nothing": ``,
		perfPath:                  `{"Op": "write-bw", "Peer": "10.0.0.2:1"}`,
		"/v1/do/phc.settime":      `{"Seconds": 1}`,
		"/v1/do/phc.adjfine":      `{"PPB": 7}`,
		"/v1/do/hwtstamp.set":     `{"TxType": 1, "RxFilter": 1}`,
		"/v1/do/hwtstamp.rx":      `{"Type": 1, "Sequence": 7}`,
		"/v1/do/" + eepromCommand: `{"Offset": 1, "Length": 2}`,
		"/v1/do/" + flashCommand:  `{"Offset": 1, "Data": "AAA="}`, "/v1/do/" + selftestCommand: `true`,
		"/v1/do/" + devlinkCommand: `{}`, "/v1/do/" + ll2Command: `{"Count": 1}`, "/v1/do/" + registersCommand: ``, "/v1/do/" + dumpCommand: ``,
	} {
		f.Add(path, []byte(body))
	}
	d, _, _ := deviceOf(f, &fastlinq.Config{})
	s := &Server{name: "nic0", version: "v1", nic: d.Served(), quit: make(chan struct{})}
	handler := s.guard(s.routes())
	ctx, gone := context.WithCancel(context.WithValue(context.Background(), connKey{}, &conn{allowed: true, greeted: true}))
	gone()
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Body: io.NopCloser(bytes.NewReader(body))}
		if len(body) > 0 {
			r.Method = http.MethodPost
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(ctx))
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s %q: %s", path, body, w.Body)
		}
	})
}
