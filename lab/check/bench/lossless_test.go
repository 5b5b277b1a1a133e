package main

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
	"tapir/wire/pause"
	"tapir/wire/pcapng"
)

// The labs of the set are right, for both of what is compared and for the captured link.
func TestLosslessLabs(t *testing.T) {
	for _, text := range []string{sharesLab, incastLab} {
		text = string(bytes.ReplaceAll([]byte(text), []byte("SENDER"), []byte("ecn: ask")))
		text = string(bytes.ReplaceAll([]byte(text), []byte("SWITCH"), []byte(marking)))
		l, err := topo.Parse("lab.yaml", []byte(text))
		if err != nil || len(l.Steps[0].Pairs) != 3 {
			t.Error(err)
		}
	}
}

// The shares are those of one second in the middle, whatever moved before and after.
func TestSharesOf(t *testing.T) {
	flow := func(early, middle int64) result.Flow {
		return result.Flow{Progress: []perf.Progress{{Elapsed: 250 * time.Millisecond, Bytes: early},
			{Elapsed: 500 * time.Millisecond, Bytes: early + middle/4}, {Elapsed: time.Second, Bytes: early + middle*3/4},
			{Elapsed: 1500 * time.Millisecond, Bytes: early + middle*5/4}}}
	}
	r := &result.Result{Steps: []*result.Step{{Perf: &result.PerfReport{Flows: []result.Flow{
		flow(900, 5200), flow(10, 2800), flow(0, 2000)}}}}}
	if s, err := sharesOf(r, ""); err != nil || math.Abs(s.points-2) > 0.001 {
		t.Errorf("%.3f points: %v", s.points, err)
	}
}

// A reaction lasts from the frame that begins a pause to the last data frame before its end: by
// time, by a frame with timer 0, or by another pause.
func TestReactions(t *testing.T) {
	var b bytes.Buffer
	w := (&pcapng.Section{}).AppendTo(nil)
	for _, name := range []string{"b-s:b", "a-s:a"} {
		w = (&pcapng.Interface{LinkType: 1, Name: name}).AppendTo(w)
	}
	add := func(at int64, out bool, iface uint32, data []byte) {
		flags := pcapng.Inbound
		if out {
			flags = pcapng.Outbound
		}
		w = (&pcapng.Packet{Interface: iface, Stamp: at, Data: data, OrigLen: uint32(len(data)), Has: pcapng.HasFlags, Flags: flags}).AppendTo(w)
	}
	pfc := func(at int64, quanta uint16) {
		c := pause.Frame{PFC: true, Enabled: 1}
		c.Timers[0] = quanta
		data := make([]byte, pause.Len)
		c.Put(data)
		add(at, false, 1, data)
	}
	frame := func(at int64, n int) { add(at, true, 1, make([]byte, n)) }
	frame(1000, 1000)
	pfc(2000, 0xffff)
	frame(2500, 1000)
	frame(2600, 100) // an acknowledgement
	add(2700, true, 0, make([]byte, 1000))
	pfc(3000, 0xffff) // the same pause
	frame(3100, 1000)
	pfc(9000, 0)
	frame(9100, 1000)
	pfc(10_000, 0xffff)
	pfc(11_000, 0)
	pfc(20_000, 100) // 5.12 µs
	frame(21_000, 1000)
	frame(26_000, 1000)
	b.Write(w)
	got, err := reactions(&b, "a-s:a")
	if err != nil || !slices.Equal(got, []int64{1100, 0, 1000}) {
		t.Errorf("%v: %v", got, err)
	}
}
