package ibcm

import (
	"fmt"
	"slices"
	"testing"

	"tapir/nic/cm"
	"tapir/wire/frame"
)

// TestWords: the logs of both sides tell of messages and rejections in InfiniBand's words.
func TestWords(t *testing.T) {
	refuse := func(w *world) func(cm.Event, frame.Time) {
		return func(ev cm.Event, now frame.Time) {
			if ev.Type == cm.ConnectRequest {
				w.must(ev.ID.Reject(nil, now))
			}
		}
	}
	for _, c := range []struct {
		name    string
		run     func(w *world)
		active  []string
		passive []string
	}{
		{"a connection", func(w *world) {
			id := w.dial(cm.Params{ManualEstablish: true}, w.accept(cm.Params{}))
			w.until("reply", func() bool { return w.ends[0].saw(cm.ConnectResponse) })
			w.must(id.Establish(w.now))
			w.until("connection", func() bool { return w.ends[1].saw(cm.PassiveComplete) })
			w.must(id.Disconnect(false, w.now))
		}, []string{"REP_RECEIVED  0", "ACTIVE_COMPLETE  0", "DISCONNECT  0", "CLOSE  0"},
			[]string{"REQ_RECEIVED  0", "PASSIVE_COMPLETE  0", "DISCONNECT DREQ_RECEIVED 0", "CLOSE DREQ_RECEIVED 0"}},
		{"a refusal", func(w *world) { w.dial(cm.Params{}, refuse(w)) },
			[]string{"ACTIVE_COMPLETE REJ_CONSUMER_REJECT ECONNREFUSED", "CLOSE REJ_CONSUMER_REJECT ECONNREFUSED"},
			[]string{"REQ_RECEIVED  0", "PASSIVE_COMPLETE REJ_CONSUMER_REJECT ECONNREFUSED", "CLOSE  0"}},
		{"no listener", func(w *world) {
			w.dial(cm.Params{}, nil)
			w.ends[1].e.listeners = nil
		}, []string{"ACTIVE_COMPLETE REJ_INVALID_SERVICE_ID ECONNREFUSED",
			"CLOSE REJ_INVALID_SERVICE_ID ECONNREFUSED"}, nil},
		{"no answer", func(w *world) {
			w.lose = func(int, []byte) (bool, int) { return true, 0 }
			w.dial(cm.Params{}, nil)
		}, []string{"ACTIVE_COMPLETE NO_ANSWER ETIMEDOUT", "CLOSE NO_ANSWER ETIMEDOUT"}, nil},
		{"no datagram service", func(w *world) {
			w.dial(cm.Params{Space: cm.PortSpaceUDP}, nil)
			w.ends[1].e.listeners = nil
		}, []string{"ACTIVE_COMPLETE SIDR_REFUSED ECONNREFUSED", "CLOSE SIDR_REFUSED ECONNREFUSED"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{Retries: 2})
			c.run(w)
			w.until("end", func() bool { return w.ends[0].saw(cm.ClosedEvent) })
			w.until("forgetting", func() bool { return len(w.ends[1].e.conns) == 0 })
			for i, want := range [][]string{c.active, c.passive} {
				var got []string
				for _, e := range w.ends[i].m.Log().Since(0) {
					got = append(got, fmt.Sprint(e.Event, " ", e.Reason, " ", e.Reason.Status()))
					if !slices.Contains(w.ends[i].m.Events(), e.Event) {
						t.Errorf("%s is none of the transport's events", e.Event)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("NIC %d: %q, want %q", i, got, want)
				}
			}
		})
	}
}
