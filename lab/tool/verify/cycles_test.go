package verify

import (
	"testing"
	"time"

	"tapir/lab/check/testenv/cycles"
	"tapir/nic"
)

// A server that runs until it is cancelled keeps nothing of the connections
// that have ended, whatever way they went.
func TestServerStaysFlat(t *testing.T) {
	w := newWorld(t, nic.Config{})
	server := w.start(0, Job{})
	jobs := []Job{
		{Steps: []string{"write:5000", "read:5000", "send:300", "echo:400"}},
		{Steps: []string{"send:10", "abort"}},
		{Steps: []string{"wbad", "gone:1000"}},
		{Reject: true},
		{Steps: []string{"sendinv:64"}, SRQ: true, Conns: 2},
	}
	cycles.Flat(t, 210, func(i int) {
		job := jobs[i%len(jobs)]
		job.Remote = serverAddr
		c := w.start(1, job)
		w.until(func() bool { return c.done })
		w.Now = w.Now.Add(2 * time.Minute) // TIME-WAIT is over
		w.Step()
	})
	server.run.Cancel(w.Now)
	w.until(func() bool { return server.done })
}
