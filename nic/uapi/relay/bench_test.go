package relay

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
)

// BenchmarkCommand is a command as a program sees it: trapped, served on a
// loop of another process, answered.
func BenchmarkCommand(b *testing.B) {
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			n := startNode(b)
			report(b, n.start(b, w, "bench", strconv.Itoa(b.N)))
		})
	}
}

// BenchmarkTrap is what it is compared with: a trapped write that the
// supervisor answers at once.
func BenchmarkTrap(b *testing.B) {
	files := trap.NewFiles()
	files.ServeWrites()
	files.Add("/dev/tapir-toy0", nothing{})
	report(b, supervise(b, way{via: trap.Seccomp}, files, "bench", strconv.Itoa(b.N)))
}

func report(b *testing.B, r *run) {
	out, code := r.end(b)
	ns, err := strconv.ParseInt(out, 10, 64)
	if err != nil || code != 0 {
		b.Fatal(out, code, err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ns)/float64(b.N), "ns/command")
}

// nothing is a device that takes what is written and does nothing.
type nothing struct{}

func (nothing) Stat() trap.Stat { return trap.Stat{Mode: unix.S_IFCHR | 0o600} }

func (nothing) Open(flags int) (trap.File, error) {
	p, err := trap.NewPipe(flags)
	return nothingFile{p}, err
}

type nothingFile struct{ *trap.Pipe }

func (nothingFile) Ioctl(*trap.Call, uint32, uint64) trap.Answer { return trap.Fail(unix.ENOTTY) }
func (nothingFile) Write(_ *trap.Call, _, octets uint64) trap.Answer {
	return trap.Return(int64(octets))
}
