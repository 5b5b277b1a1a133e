package nicnode

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"

	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/al"
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

// The server of programs is a client of the access layer, for the NICs' own kind
// of hardware: what programs open are contexts of the client, under whose handle
// the connection manager works. A NIC that leaves waits for the client, which has
// told its programs and taken what they had; clients for other hardware hear of
// nothing.
func TestProgramsAreOfAClient(t *testing.T) {
	l := node.NewLayer()
	n := pair(t, l)[0]
	same, other := newClient(), newClient()
	id := al.ID{VendorID: verbs.VendorID, PartID: n.ca.Attr().VendorPartID}
	l.RegisterClient(same, id)
	l.RegisterClient(other, al.ID{VendorID: verbs.VendorID, PartID: id.PartID + 1})
	if all := same.take(); len(all) != 2 {
		t.Errorf("a client for this hardware heard %q", all)
	}
	p := NewPrograms()
	p.Add(n)
	_, found := offered(t, p, "nic0")
	program := &abitest.Program{PID: 4711}
	uverbs := found[relay.Uverbs("nic0")]
	f, err := openOn(uverbs, program)
	must(t, err)
	at, answer := program.Map(8)
	command := func(number uint32) (err error) {
		b := binary.NativeEndian.AppendUint32(nil, number)
		b = binary.NativeEndian.AppendUint32(b, 4|2<<16) // words of the request and of its answer
		b = binary.NativeEndian.AppendUint64(b, at)
		wait(func(fn func(frame.Time)) {
			uverbs.Thread.Do(func(now frame.Time) { err = f.Command(program, b); fn(now) })
		})
		return err
	}
	must(t, command(abi.CmdGetContext))
	events := program.Files[int(binary.NativeEndian.Uint32(answer))]
	wait(func(fn func(frame.Time)) {
		n.ca.Do(func(now frame.Time) {
			client, contexts := p.nics["nic0"].verbs.Client(), n.ca.Contexts()
			if i := slices.IndexFunc(contexts, func(c *al.Context) bool { return c.Value == f }); client == nil || i < 0 || contexts[i].Client() != client {
				t.Errorf("the program's context is none of the client %v", client)
			}
			if cm := p.nics["nic0"].cm; cm.CM != client.CM() {
				t.Error("the connection manager works under another handle")
			}
			fn(now)
		})
	})
	n.Withdraw()
	var ev [16]byte
	if k, err := syscall.Read(events, ev[:]); k != len(ev) || err != nil || ev[8] != uint8(al.DeviceFatal) {
		t.Errorf("the program read %d octets, %x: %v", k, ev, err)
	}
	if err := command(abi.CmdQueryDevice); err != syscall.EIO {
		t.Errorf("a command when the NIC has gone: %v", err)
	}
	if left := n.ca.Contexts(); len(left) != 0 {
		t.Errorf("%d contexts are left", len(left))
	}
	if log := other.take(); len(log) != 0 {
		t.Errorf("a client for other hardware heard %q", log)
	}
	program.CloseFiles()
	wait(func(fn func(frame.Time)) { uverbs.Thread.Do(func(now frame.Time) { f.Close(); fn(now) }) })
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
