package nicnode

import (
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/uapi/relay"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// offered are the devices of a program with these NICs.
func offered(t *testing.T, p *Programs, nics ...string) (names []string, found map[string]relay.Device) {
	t.Helper()
	found, err := p.Devices(relay.Ask{NICs: nics})
	must(t, err)
	return slices.Sorted(maps.Keys(found)), found
}

// openOn opens a device on its thread.
func openOn(d relay.Device, c abi.Caller) (f abi.File, err error) {
	wait(func(fn func(frame.Time)) {
		d.Thread.Do(func(now frame.Time) {
			var fd int
			if f, fd, err = d.Open(c, 0); err == nil {
				_ = syscall.Close(fd)
			}
			fn(now)
		})
	})
	return f, err
}

// A program gets the devices of its NICs, and one connection manager for them
// all, also when one of them has gone.
func TestPrograms(t *testing.T) {
	l := node.NewLayer()
	nodes := pair(t, l)
	a, _, err := link.NewWire("c", "d", false)
	must(t, err)
	plain := start(t, Config{Name: "plain", IP: prefixes("10.0.1.1/24"), NIC: nic.Config{RDMA: nic.RDMA{Personality: verbs.Ethernet}}}, node.Env{Wire: a, Layer: l})
	p := NewPrograms()
	for _, n := range []*Node{nodes[0], nodes[1], plain} {
		p.Add(n)
	}
	if names, _ := offered(t, p, "plain"); len(names) != 0 {
		t.Errorf("a plain NIC offers %q", names)
	}
	if _, err := p.Devices(relay.Ask{NICs: []string{"nic0", "nic9"}}); !errors.As(err, new(*relay.Refused)) {
		t.Errorf("a NIC of another process: %v", err)
	}
	names, found := offered(t, p, "nic1", "nic0", "plain")
	if want := []string{relay.UCMA, relay.Uverbs("nic0"), relay.Uverbs("nic1")}; !slices.Equal(names, want) {
		t.Fatalf("two NICs offer %q, want %q", names, want)
	}
	program := &abitest.Program{PID: 4711}
	var files []abi.File
	for _, name := range names {
		f, err := openOn(found[name], program)
		must(t, err)
		files = append(files, f)
	}
	nodes[1].Unplug()
	for i, f := range files {
		wait(func(fn func(frame.Time)) {
			found[names[i]].Thread.Do(func(now frame.Time) { f.Close(); fn(now) })
		})
	}
	names, found = offered(t, p, "nic1", "nic0")
	if want := []string{relay.UCMA, relay.Uverbs("nic0")}; !slices.Equal(names, want) || found[names[0]].Thread != found[names[1]].Thread {
		t.Errorf("when one of two NICs has gone they offer %q, want %q", names, want)
	}
	must(t, nodes[0].Close())
	if leaks := nodes[0].Leaks(); len(leaks) != 0 {
		t.Errorf("left %v", leaks)
	}
}

// What is handed to a NIC's thread after its end is done; a source is lost at
// once.
func TestThreadAfterTheEnd(t *testing.T) {
	n := pair(t, node.NewLayer())[0]
	must(t, n.Close())
	thread, lost := loopThread{n}, false
	wait(func(fn func(frame.Time)) {
		thread.Do(func(now frame.Time) {
			remove := thread.AddSource(0, func(frame.Time, bool) { t.Error("served") }, func() { lost = true })
			remove()
			fn(now)
		})
	})
	if !lost {
		t.Error("the source was not lost")
	}
}

// wait returns when what do was given has run.
func wait(do func(fn func(frame.Time))) {
	ran := make(chan struct{})
	do(func(frame.Time) { close(ran) })
	<-ran
}
