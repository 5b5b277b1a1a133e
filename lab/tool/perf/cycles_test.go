package perf

import (
	"testing"
	"time"

	"tapir/lab/check/testenv/cycles"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/link"
	"tapir/nic"
)

// NICs on which one test follows another keep nothing of those that are over:
// servers and clients of every kind, those that are turned down or cancelled
// among them.
func TestRunsStayFlat(t *testing.T) {
	w := newWorld(t, nic.Wire, link.Impairment{})
	jobs := []perfconf.Job{
		{Op: perfconf.WriteBW, Size: 3000, Iters: 20, QPs: 2},
		{Op: perfconf.ReadBW, Size: 3000, Iters: 20},
		{Op: perfconf.SendBW, Size: 100, Iters: 50},
		{Op: perfconf.WriteLat, Iters: 10},
		{Op: perfconf.SendLat, Iters: 10},
		{Op: perfconf.Verify, Sizes: []int{1, 5000}},
		{Op: perfconf.Rping, Iters: 3},
	}
	cycles.Flat(t, 300, func(i int) {
		job := jobs[i%len(jobs)]
		w.run(job)
		job.Remote = serverAddr
		late := w.start(1, job) // nobody serves by now
		w.until(func() bool { return late.done })
		server := &outcome{}
		s, err := Start(w.NICs[0], perfconf.Job{Op: job.Op}, w.Now, func(_ Report, err error) { server.err, server.done = err, true }, nil)
		if err != nil {
			t.Fatal(err)
		}
		cut := w.start(1, job)
		end := w.Now.Add(100 * time.Microsecond)
		w.until(func() bool { return w.Now >= end })
		s.Cancel(w.Now)
		w.until(func() bool { return server.done && cut.done })
		w.Now = w.Now.Add(2 * time.Minute) // TIME-WAIT is over
		w.Step()
	})
}
