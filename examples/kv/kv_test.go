package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/nic/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func exerciseWorld(t *testing.T, taps bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, &out, taps, 4, 300); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text := out.String()
	if strings.Count(text, serverNIC+" taken away") != 2 || strings.Count(text, clientNIC+" taken away") != 2 ||
		!strings.Contains(text, " 5 connections, ") || !strings.Contains(text, "64 keys verified") || strings.Contains(text, " 0 work requests flushed") {
		t.Errorf("said\n%s", text)
	}
}

// Both NICs are taken away twice while puts and gets are under way.
func TestHotRemovalOnAWire(t *testing.T) { exerciseWorld(t, false) }

// The same on TAPs, which are deleted and made anew.
func TestHotRemovalOnTAPs(t *testing.T) { exerciseWorld(t, true) }

// The checks see what they are there for.
func TestChecks(t *testing.T) {
	s, c := NewServer(serverNIC, storePort, keys, depth), NewClient(clientNIC, storePort, keys, depth, 1)
	if err := verify(s, c); err != nil {
		t.Errorf("an empty store: %v", err)
	}
	c.keys[3].sent, c.keys[3].acked = 5, 4
	for version, good := range map[uint64]bool{3: false, 4: true, 5: true, 6: false} {
		putSlot(s.table[3*slotLen:], 3, version)
		if err := verify(s, c); (err == nil) != good {
			t.Errorf("version %d: %v", version, err)
		}
	}
	putSlot(s.table[3*slotLen:], 3, 5)
	s.table[3*slotLen+100] ^= 1
	if err := verify(s, c); err == nil {
		t.Error("a damaged value was not seen")
	}
	n := &conn{port: &port{fault: s.fail}}
	n.complete(&verbs.WC{ID: 1}, 0)
	if _, err := s.Puts(); err == nil || !strings.Contains(err.Error(), "completed twice") {
		t.Errorf("a second completion: %v", err)
	}
}
