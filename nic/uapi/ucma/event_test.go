package ucma

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/verbs"
)

// resolvedOnce makes an id of which an event waits.
func (p *pair) resolvedOnce(ch *channel) *cmid {
	p.w.t.Helper()
	i, err := p.c.create(ch)
	must(p.w.t, err, i.resolve("", "10.0.0.2:7471", 2000))
	p.w.run(1e6)
	return i
}

func TestNonblocking(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	p.c.NonBlock = true
	if _, err := p.c.event(ch); err != syscall.EAGAIN || ch.readable() {
		t.Errorf("without an event: %v, readable %v", err, ch.readable())
	}
	i := p.resolvedOnce(ch)
	if !ch.readable() {
		t.Error("an event, and not readable")
	}
	i.expect(AddrResolved)
	if _, err := p.c.event(ch); err != syscall.EAGAIN || ch.readable() {
		t.Errorf("behind the event: %v, readable %v", err, ch.readable())
	}
	i.end()
	p.checkEmpty(t, ch)
}

// An event goes to a thread that still waits, the one that has waited longest;
// one that does not is cancelled and loses none.
func TestThreadsWait(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	var waiting [3]*thread
	for n := range waiting {
		waiting[n] = p.w.thread(100, p.client)
		if pending, err := waiting[n].start(ch, cmdGetEvent, body{}.u64(waiting[n].addr), eventLen); !pending {
			t.Fatal(err)
		}
	}
	waiting[0].Gone = true
	i := p.resolvedOnce(ch)
	if len(waiting[0].Answers) != 0 || len(waiting[1].Answers) != 1 || len(waiting[2].Answers) != 0 {
		t.Fatalf("answers %v %v %v", waiting[0].Answers, waiting[1].Answers, waiting[2].Answers)
	}
	if ev := parseEvent(waiting[1].mem); ev.typ != AddrResolved || ev.uid != i.uid {
		t.Errorf("%+v", ev)
	}
	if i.acked++; !ch.Cancel(waiting[0]) || ch.Cancel(waiting[0]) || ch.Cancel(waiting[1]) || !ch.Cancel(waiting[2]) {
		t.Error("what was cancelled")
	}
	must(t, i.resolveRoute(1))
	if len(waiting[0].Answers)+len(waiting[2].Answers) > 0 || !ch.readable() {
		t.Error("an event for a thread that was cancelled")
	}
	i.expect(RouteResolved)
	i.end()
	p.checkEmpty(t, ch)
}

// A program that closes the channel with a thread inside hears nothing of it.
func TestCloseWhileWaiting(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	if pending, err := p.c.start(ch, cmdGetEvent, body{}.u64(p.c.addr), eventLen); !pending {
		t.Fatal(err)
	}
	p.checkEmpty(t, ch)
	if len(p.c.Answers) > 0 || ch.Cancel(p.c) {
		t.Errorf("answers %v", p.c.Answers)
	}
}

// What cannot be written is not lost.
func TestFaults(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	i := p.resolvedOnce(ch)
	const nowhere = 0x1000
	for _, c := range []struct {
		cmd  uint32
		body body
		out  int
	}{
		{cmdGetEvent, body{}.u64(nowhere), eventLen},
		{cmdCreateID, body{}.u64(1).u64(nowhere).u16(portSpaceTCP).zero(6), 4},
		{cmdQueryRoute, body{}.u64(nowhere).u32(i.num).u32(0), routeLen},
		{cmdQuery, body{}.u64(nowhere).u32(i.num).u32(queryGID), addrLen},
		{cmdInitQPAttr, body{}.u64(nowhere).u32(i.num).u32(uint32(verbs.Init)), qpAttrLen},
		{cmdSetOption, body{}.u64(nowhere).u32(i.num).u32(levelID).u32(optionTOS).u32(1), 0},
	} {
		if err := p.c.write(ch, c.cmd, c.body, c.out); err != syscall.EFAULT {
			t.Errorf("command %d: %v", c.cmd, err)
		}
	}
	i.expect(AddrResolved)
	i.end()
	p.checkEmpty(t, ch)
}

// More events than the pipe holds: none is lost, and it is readable as long as
// there are some.
func TestManyEvents(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	size, err := unix.FcntlInt(uintptr(ch.fd), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	var ids []*cmid
	for range size + 100 {
		i, err := p.c.create(ch)
		must(t, err, i.resolve("", "10.0.0.1:7471", 2000)) // the NIC itself
		ids = append(ids, i)
	}
	p.w.run(1e6)
	for _, i := range ids {
		if !ch.readable() {
			t.Fatal("not readable")
		}
		i.expect(AddrResolved)
	}
	if ch.readable() {
		t.Error("readable without an event")
	}
	p.checkEmpty(t, ch)
}

// A migrated id takes its events along, and the count of those fetched.
func TestMigrate(t *testing.T) {
	p := newPair(t, nil)
	first, second := p.c.open(), p.c.open()
	i := p.resolvedOnce(first)
	i.expect(AddrResolved)
	must(t, i.resolveRoute(1))
	if !first.readable() || second.readable() {
		t.Error("before")
	}
	if n, err := i.migrate(second); err != nil || n != 1 {
		t.Errorf("%d events fetched, %v", n, err)
	}
	if first.readable() || !second.readable() {
		t.Error("after")
	}
	i.expect(RouteResolved)
	i.ch = first
	if _, err := i.destroy(); err != syscall.EINVAL {
		t.Errorf("destroy through the channel that it has left: %v", err)
	}
	stranger := p.w.thread(101, p.client)
	i.t, i.ch = stranger, second
	theirs := stranger.open()
	if _, err := i.migrate(theirs); err != syscall.EINVAL {
		t.Errorf("an id of another program: %v", err)
	}
	forked := p.w.thread(os.Getpid(), p.client) // this process has all descriptors
	i.t = forked
	if n, err := i.migrate(theirs); err != nil || n != 2 {
		t.Errorf("an id of a channel that was inherited: %d events fetched, %v", n, err)
	}
	i.end()
	p.checkEmpty(t, first, second, theirs)
}

// A synchronous listener moves each request to a channel of its own.
func TestMigrateRequest(t *testing.T) {
	p := newPair(t, nil)
	l, c := p.listener("0.0.0.0:7471"), p.resolved("10.0.0.2:7471")
	must(t, c.connect(""))
	p.w.run(1e7)
	moved, first := p.s.open(), l.ch
	if _, err := l.migrate(moved); err != nil { // with the request in its queue
		t.Fatal(err)
	}
	first.close()
	s, _ := l.request()
	own := p.s.open()
	if n, err := s.migrate(own); err != nil || n != 0 {
		t.Errorf("%d events fetched, %v", n, err)
	}
	must(t, s.createQP(p.server), s.accept(""))
	c.expect(Established)
	s.expect(Established)
	own.close() // the same as destroying all
	c.expect(Disconnected)
	c.end()
	l.end()
	p.checkEmpty(t, moved, c.ch)
}

// A program that reads the tokens itself still learns of the next event.
func TestTokensStolen(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	i := p.resolvedOnce(ch)
	var buf [8]byte
	if n, err := unix.Read(ch.fd, buf[:]); n != 1 {
		t.Fatalf("%d tokens, %v", n, err)
	}
	i.expect(AddrResolved)
	if must(t, i.resolveRoute(1)); !ch.readable() {
		t.Error("not readable")
	}
	i.expect(RouteResolved)
	if ch.readable() {
		t.Error("readable without an event")
	}
	i.end()
	p.checkEmpty(t, ch)
}

// There are so many ids and no more; numbers are used again.
func TestManyIDs(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	for range maxIDs {
		if _, err := p.c.create(ch); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.c.create(ch); err != syscall.ENOMEM {
		t.Errorf("one too many: %v", err)
	}
	i := &cmid{t: p.c, ch: ch, num: 4711}
	for range 3 {
		i.end()
		again, err := p.c.create(ch)
		if err != nil || again.num != i.num {
			t.Fatalf("number %d, %v", again.num, err)
		}
	}
	p.checkEmpty(t, ch)
}

// A program that asks for addresses and fetches nothing does not fill the NIC's
// memory.
func TestEventsAreBounded(t *testing.T) {
	p := newPair(t, nil)
	ch := p.c.open()
	i, err := p.c.create(ch)
	must(t, err)
	f := ch.File.(*File)
	f.events = make([]*event, maxEvents)
	if err := i.resolve("", "10.0.0.77:1", 1); err != syscall.ENOMEM {
		t.Errorf("with %d events unread: %v", maxEvents, err)
	}
	f.events = nil
	must(t, i.resolve("", "10.0.0.77:1", 1))
	i.expect(AddrError)
	i.end()
	p.checkEmpty(t, ch)
}
