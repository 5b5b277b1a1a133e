package script

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// guest is a live Linux machine, whose application is the program wireapp
// (lab/host/peer/guest/wireapp.c, which documents what is said).
type guest struct {
	v      *live
	ear    guestEar
	lines  <-chan string // nil when it has ended
	all    <-chan string // the same, never nil
	answer []string      // to commands, not taken
	pds    map[string]int
	posted map[[2]uint64]verbs.WCOpcode // by queue pair and id
}

// guestEar takes what the application tells of, in the numbers of wireapp.c.
type guestEar interface {
	event(n []int64, private string)
	completion(n []int64)
	async(n []int64)
}

func newGuest(v *live) *guest {
	lines := make(chan string, 64)
	g := &guest{v: v, lines: lines, all: lines, pds: map[string]int{}, posted: map[[2]uint64]verbs.WCOpcode{}}
	go func() {
		defer close(lines)
		for in := bufio.NewReaderSize(v.cable.Agent, 1<<20); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			lines <- strings.TrimSpace(line)
		}
	}()
	return g
}

// close ends the program, with all that it has made in the guest.
func (g *guest) close() {
	g.v.cable.Agent.Close()
	for range g.all { // the reader ends with the connection
	}
}

// greet waits for the program's first words.
func (g *guest) greet() error {
	_, err := g.take("its application")
	return err
}

// call gives the program a command and waits for the answer. The peer goes on
// to answer the machine.
func (g *guest) call(format string, args ...any) (string, error) {
	command := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(g.v.cable.Agent, command); err != nil {
		g.v.fail(fmt.Errorf("%w: %v", errSilent, err))
		return "", g.v.dead
	}
	return g.take(command)
}

// do is call without what the answer says.
func (g *guest) do(format string, args ...any) error {
	_, err := g.call(format, args...)
	return err
}

func (g *guest) take(command string) (string, error) {
	for end := time.Now().Add(answersIn); len(g.answer) == 0 && g.v.dead == nil; {
		if time.Now().After(end) {
			g.v.fail(fmt.Errorf("%w: no answer within %v to: %.60s", errSilent, answersIn, command))
			break
		}
		g.v.wait(50 * time.Millisecond)
		g.v.poll()
	}
	if g.v.dead != nil {
		return "", g.v.dead
	}
	answer := g.answer[0]
	g.answer = g.answer[1:]
	if text, ok := strings.CutPrefix(answer, "ok"); ok {
		return strings.TrimSpace(text), nil
	}
	return "", errors.New(strings.TrimPrefix(answer, "err "))
}

// told takes a line of the program.
func (g *guest) told(line string, ok bool) {
	f := strings.Fields(line)
	switch {
	case !ok:
		g.lines = nil
		g.v.fail(fmt.Errorf("%w: its application has ended", errSilent))
	case len(f) == 0:
	case f[0] == "ok" || f[0] == "err":
		g.answer = append(g.answer, line)
	case f[0] == "ev" && len(f) == 8:
		g.ear.event(numbers64(f[1:7]), f[7])
	case f[0] == "wc" && len(f) == 8:
		g.ear.completion(numbers64(f[1:]))
	case f[0] == "as" && len(f) == 3:
		g.ear.async(numbers64(f[1:]))
	default:
		g.v.fail(fmt.Errorf("its application says %q", line))
	}
}

func numbers64(words []string) (list []int64) {
	for _, w := range words {
		n, _ := strconv.ParseInt(w, 10, 64)
		list = append(list, n)
	}
	return list
}

// eventTypes are the events of rdma_cm.
var eventTypes = map[int64]cm.EventType{
	1: cm.Unreachable, 3: cm.Unreachable, 4: cm.ConnectRequest, 6: cm.Failed, 7: cm.Unreachable, 8: cm.Rejected,
	9: cm.ActiveComplete, 10: cm.Disconnected,
}

// Errors of Linux in an event.
const (
	errorReset   = -104
	errorTimeout = -110
	errorRefused = -111
)

// event: identifier, event, status, port, IRD, ORD and private data.
func (g *guest) event(n []int64, private string) {
	w := g.v.r.world
	typ, known := eventTypes[n[1]]
	if !known {
		return // a device that goes, a state that lasts
	}
	ev := cm.Event{Type: typ, IRD: uint16(n[4]), ORD: uint16(n[5])}
	ev.PrivateData, _ = hex.DecodeString(strings.TrimPrefix(private, "-"))
	switch {
	case typ == cm.ActiveComplete && g.v.cable.machine() == Linux: // told as the peer sees it
		ev.IRD, ev.ORD = ev.ORD, ev.IRD
	case typ == cm.Unreachable && n[2] == errorTimeout:
		ev.Type = cm.TimedOut
	case typ == cm.Rejected && n[2] == errorRefused && len(private) < 2:
		ev.Type = cm.Refused
	case typ == cm.Rejected && n[2] == errorReset && len(private) < 2:
		ev.Type = cm.Failed
	}
	e := g.endpoint(int(n[0]))
	if ev.Type == cm.Refused && g.v.cable.machine() == NIC && e != nil && e.theirs != nil {
		ev.Type = cm.Rejected // the peer has answered
	}
	if typ == cm.ConnectRequest {
		if e = w.endpointAt(netip.AddrPortFrom(g.v.cable.Remote, uint16(n[3]))); e != nil {
			e.id = &guestID{g, e, int(n[0])}
		}
	}
	text := eventText(&ev)
	depthless := ev.Type == cm.ActiveComplete && n[4] == 0 && n[5] == 0
	w.note(e, happening{text: text, ev: &ev, depthless: depthless})
}

// endpoint is the connection whose identifier in the guest is n.
func (g *guest) endpoint(n int) *endpoint {
	for _, p := range g.v.r.peers {
		if id, ok := p.end.id.(*guestID); ok && id.n == n {
			return p.end
		}
	}
	return nil
}

// owner is the connection of that number, nil if there is none.
func (g *guest) owner(n int64) *endpoint {
	if p := g.v.r.peers[int(n)]; p != nil {
		return p.end
	}
	return nil
}

// Numbers of the verbs library.
const (
	wcReceived    = 128
	wcWritten     = 129
	wcImmediate   = 1 << 1
	wcInvalidates = 1 << 3
)

var wcOpcodes = map[int64]verbs.WCOpcode{0: verbs.WCSend, 1: verbs.WCWrite, 2: verbs.WCRead, 3: verbs.WCCompSwap,
	4: verbs.WCFetchAdd, wcReceived: verbs.WCRecv, wcWritten: verbs.WCRecvWrite}

// completion: queue pair, id, status, opcode, length, flags, invalidated STag.
func (g *guest) completion(n []int64) {
	wc := verbs.WC{ID: uint64(n[1]), Status: verbs.Status(n[2]), Opcode: wcOpcodes[n[3]]}
	if wc.Status != verbs.StatusSuccess { // the other fields mean nothing
		wc.Opcode = g.posted[[2]uint64{uint64(n[0]), wc.ID}]
	} else if wc.Opcode >= verbs.WCRecv {
		wc.ByteLen = uint32(n[4])
		if wc.WithImm = n[5]&wcImmediate != 0; wc.WithImm {
			wc.Imm = immediate(n[6])
		}
		if wc.WithInv = n[5]&wcInvalidates != 0; wc.WithInv {
			wc.Invalidated = uint32(n[6])
		}
	}
	w := g.v.r.world
	w.note(g.owner(n[0]), happening{text: w.completionText(&wc), wc: &wc})
}

// immediate is immediate data as a program finds it, in network byte order.
func immediate(n int64) uint64 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(n))
	return uint64(binary.BigEndian.Uint32(b[:]))
}

var asyncTypes = map[int64]verbs.EventType{
	0: verbs.EventCQError, 1: verbs.EventQPFatal, 2: verbs.EventQPRequestError, 3: verbs.EventQPAccessError,
	4: verbs.EventCommEstablished, 5: verbs.EventSQDrained, 15: verbs.EventSRQLimit, 16: verbs.EventLastWQE,
}

// async: event and queue pair.
func (g *guest) async(n []int64) {
	typ, known := asyncTypes[n[0]]
	if !known {
		return // of the port
	}
	ev := verbs.AsyncEvent{Type: typ}
	g.v.r.world.note(g.owner(n[1]), happening{text: asyncText(&ev), as: &ev})
}

// sync asks for all that has happened, and looks at the memory.
func (g *guest) sync() {
	if g.do("sync") != nil {
		return
	}
	if err := g.v.bench.look(); err != nil {
		g.v.fail(err)
	}
}

func (g *guest) receive(frames []*frame.Frame) { g.v.send(frames) }

func (g *guest) poll() frame.Time {
	g.v.poll()
	return frame.Never
}

func (g *guest) counter(name string) (n uint64, ok bool) {
	g.v.inside(func(dev *nic.Device) { n, ok = counter(dev, name) })
	return n, ok
}

// Rights of a region in the verbs library.
const (
	ibvLocalWrite = 1 << iota
	ibvRemoteWrite
	ibvRemoteRead
	ibvRemoteAtomic
)

func rights(a verbs.Access) (n int) {
	for bit, ibv := range map[verbs.Access]int{verbs.LocalWrite: ibvLocalWrite, verbs.RemoteWrite: ibvRemoteWrite,
		verbs.RemoteRead: ibvRemoteRead, verbs.RemoteAtomic: ibvRemoteAtomic} {
		if a&bit != 0 {
			n |= ibv
		}
	}
	return n
}

// pd is the number of the protection domain with that name.
func (g *guest) pd(name string) int {
	if _, ok := g.pds[name]; !ok {
		g.pds[name] = len(g.pds)
	}
	return g.pds[name]
}

func (g *guest) register(r *region, access verbs.Access, pd string, _ uint64) (memory, error) {
	text, err := g.call("mr %d %d %d %d", g.pd(pd), len(r.mem()), guard, rights(access))
	if err != nil {
		return nil, err
	}
	m := &guestMR{g: g, n: uint64(len(r.mem()))}
	if _, err := fmt.Sscan(text, &m.addr, &m.key); err != nil {
		return nil, err
	}
	return m, g.put(m.addr-guard, r.all)
}

// put fills memory of the application.
func (g *guest) put(addr uint64, b []byte) error {
	if _, err := fmt.Fprintf(g.v.cable.Agent, "put %d %d\n%s", addr, len(b), b); err != nil {
		return err
	}
	_, err := g.take("put")
	return err
}

// guestMR is a region in the guest.
type guestMR struct {
	g       *guest
	addr, n uint64
	key     uint32
	gone    bool
}

func (m *guestMR) RKey() uint32      { return m.key }
func (m *guestMR) Addr() uint64      { return m.addr }
func (m *guestMR) Len() uint64       { return m.n }
func (m *guestMR) Valid() bool       { return !m.gone }
func (m *guestMR) Invalidate() error { return errors.ErrUnsupported }
func (m *guestMR) Dereg() error {
	m.gone = true
	return m.g.do("dereg %d", m.key)
}
