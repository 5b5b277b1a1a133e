package ucma

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
)

// thread is one of a program that calls librdmacm: what that writes, in its
// order.
type thread struct {
	*abitest.Program
	w    *world
	n    *node
	addr uint64 // of the answers
	mem  []byte
}

func (w *world) thread(pid int, n *node) *thread {
	t := &thread{Program: &abitest.Program{PID: pid}, w: w, n: n}
	t.addr, t.mem = t.Map(4096)
	return t
}

// channel is a struct rdma_event_channel.
type channel struct {
	abi.File
	fd int
}

func (t *thread) open() *channel {
	t.w.t.Helper()
	f, fd, err := t.n.d.OpenWith(t.n.more...)(t, unix.O_RDWR|unix.O_CLOEXEC)
	if err != nil {
		t.w.t.Fatal(err)
	}
	return &channel{f, fd}
}

// close closes the last descriptor.
func (c *channel) close() {
	unix.Close(c.fd)
	c.Close()
}

// readable is what poll(2) says.
func (c *channel) readable() bool {
	p := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(p, 0)
	return n == 1 && p[0].Revents&unix.POLLIN != 0
}

// start writes a command without waiting for its end: pending tells that it
// is to be awaited.
func (t *thread) start(c *channel, num uint32, body []byte, out int) (pending bool, err error) {
	b := order.AppendUint32(nil, num)
	b = order.AppendUint16(b, uint16(len(body)))
	b = order.AppendUint16(b, uint16(out))
	b = append(b, body...)
	err = c.Command(t, b)
	clear(b) // it was borrowed
	if errors.Is(err, abi.Later) {
		return true, nil
	}
	return false, err
}

// write is write(2) of a command.
func (t *thread) write(c *channel, num uint32, body []byte, out int) error {
	t.w.t.Helper()
	clear(t.mem)
	before := len(t.Answers)
	pending, err := t.start(c, num, body, out)
	if !pending {
		return err
	}
	if !t.w.until(func() bool { return len(t.Answers) > before }) {
		t.w.t.Fatalf("command %d is not answered", num)
	}
	return t.result(before)
}

func (t *thread) result(i int) error {
	if e := t.Answers[i]; e != 0 {
		return syscall.Errno(e)
	}
	return nil
}

// cmid is a struct rdma_cm_id.
type cmid struct {
	t      *thread
	ch     *channel
	uid    uint64
	num    uint32
	acked  uint32 // events of it that were fetched
	qp     *verbs.QP
	qpn    uint32
	noInit bool // the program has the queue pair
	ird    byte
	ord    byte
}

type body []byte

func (b body) u64(v uint64) body { return order.AppendUint64(b, v) }
func (b body) u32(v uint32) body { return order.AppendUint32(b, v) }
func (b body) u16(v uint16) body { return order.AppendUint16(b, v) }
func (b body) zero(n int) body   { return append(b, make([]byte, n)...) }
func (b body) addr(a string, size int) body {
	at := len(b)
	b = b.zero(size)
	if a != "" {
		s := sock(a).encode()
		copy(b[at:], s[:])
	}
	return b
}

// sock is an address and port, of scope 1 if it is link-local.
func sock(a string) sockaddr {
	s := fromAddrPort(netip.MustParseAddrPort(a))
	if s.addr.Is6() && s.addr.IsLinkLocalUnicast() {
		s.scope = 1
	}
	return s
}

var lastUID uint64 = 0x5000

func (t *thread) create(ch *channel) (*cmid, error) {
	lastUID += 16
	i := &cmid{t: t, ch: ch, uid: lastUID, ird: 4, ord: 5}
	err := t.write(ch, cmdCreateID, body{}.u64(i.uid).u64(t.addr).u16(portSpaceTCP).zero(6), 4)
	i.num = order.Uint32(t.mem)
	return i, err
}

func (i *cmid) bind(a string) error {
	if err := i.t.write(i.ch, cmdBindIP, body{}.u64(0).addr(a, 28).u32(i.num), 0); err != nil {
		return err
	}
	_, err := i.queryRoute()
	return err
}

func (i *cmid) queryRoute() (sockaddr, error) {
	err := i.t.write(i.ch, cmdQueryRoute, body{}.u64(i.t.addr).u32(i.num).u32(0), routeLen)
	return parseSockaddr(i.t.mem[136:]), err
}

func (i *cmid) listen(backlog int32) error {
	return i.t.write(i.ch, cmdListen, body{}.u32(i.num).u32(uint32(backlog)), 0)
}

func (i *cmid) resolve(src, dst string, ms uint32) error {
	return i.t.write(i.ch, cmdResolveIP, body{}.addr(src, 28).addr(dst, 28).u32(i.num).u32(ms), 0)
}

func (i *cmid) resolveRoute(ms uint32) error {
	return i.t.write(i.ch, cmdResolveRoute, body{}.u32(i.num).u32(ms), 0)
}

func (i *cmid) initQPAttr(state verbs.State) (mask uint32, err error) {
	err = i.t.write(i.ch, cmdInitQPAttr, body{}.u64(i.t.addr).u32(i.num).u32(uint32(state)), qpAttrLen)
	return order.Uint32(i.t.mem), err
}

// createQP is rdma_create_qp.
func (i *cmid) createQP(n *node) error {
	pd, err := n.dev.Verbs.AllocPD()
	if err != nil {
		return err
	}
	cq, err := n.dev.Verbs.CreateCQ(16, nil)
	if err != nil {
		return err
	}
	if i.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}); err != nil {
		return err
	}
	i.qpn = i.qp.QPN()
	if i.noInit {
		return nil
	}
	if _, err := i.initQPAttr(verbs.Init); err != nil {
		return err
	}
	return i.qp.Modify(verbs.Init)
}

func (i *cmid) param(private string, valid bool) body {
	b := body{}.u32(i.qpn).u32(0)
	b = append(b, private...)
	b = b.zero(264 - len(b))
	v := byte(0)
	if valid {
		v = 1
	}
	return append(b, byte(len(private)), 0, i.ird, i.ord, 0, 7, 7, v)
}

func (i *cmid) connect(private string) error {
	return i.t.write(i.ch, cmdConnect, append(i.param(private, true), body{}.u32(i.num).zero(12)...), 0)
}

func (i *cmid) accept(private string) error {
	for _, s := range []verbs.State{verbs.Init, verbs.RTR, verbs.RTS} {
		if _, err := i.move(s); err != nil {
			return err
		}
	}
	b := append(body{}.u64(i.uid), i.param(private, true)...)
	return i.t.write(i.ch, cmdAccept, b.u32(i.num).zero(12), 0)
}

// establish is rdma_establish.
func (i *cmid) establish() error {
	return i.t.write(i.ch, cmdAccept, body{}.zero(280).u32(i.num).zero(12), 0)
}

func (i *cmid) reject(private string) error {
	b := append(body{}.u32(i.num), byte(len(private)), 0, 0, 0)
	b = append(b, private...)
	return i.t.write(i.ch, cmdReject, b.zero(264-len(b)), 0)
}

// disconnect is rdma_disconnect.
func (i *cmid) disconnect() error {
	if i.qp != nil {
		if err := i.qp.Modify(verbs.SQD); err != nil {
			return err
		}
	}
	return i.t.write(i.ch, cmdDisconnect, body{}.u32(i.num), 0)
}

// destroy returns how many events the server says were fetched.
func (i *cmid) destroy() (reported uint32, err error) {
	err = i.t.write(i.ch, cmdDestroyID, body{}.u64(i.t.addr).u32(i.num).u32(0), 4)
	return order.Uint32(i.t.mem), err
}

func (i *cmid) migrate(to *channel) (reported uint32, err error) {
	if err = i.t.write(to, cmdMigrateID, body{}.u64(i.t.addr).u32(i.num).u32(uint32(i.ch.fd)), 4); err == nil {
		i.ch = to
	}
	return order.Uint32(i.t.mem), err
}

func (i *cmid) option(name uint32, val ...byte) error {
	at, mem := i.t.Map(8)
	copy(mem, val)
	return i.t.write(i.ch, cmdSetOption, body{}.u64(at).u32(i.num).u32(levelID).u32(name).u32(uint32(len(val))), 0)
}

// fetched is an event as librdmacm reads it.
type fetched struct {
	uid     uint64
	num     uint32
	typ     EventType
	status  int32
	private string
	ird     byte
	ord     byte
}

func parseEvent(b []byte) fetched {
	p := b[20:]
	return fetched{
		uid: order.Uint64(b), num: order.Uint32(b[8:]), typ: EventType(order.Uint32(b[12:])),
		status:  int32(order.Uint32(b[16:])),
		private: string(p[8 : 8+int(p[264])]), ird: p[266], ord: p[267],
	}
}

// event is rdma_get_cm_event.
func (t *thread) event(c *channel) (fetched, error) {
	t.w.t.Helper()
	err := t.write(c, cmdGetEvent, body{}.u64(t.addr), eventLen)
	return parseEvent(t.mem), err
}

// move asks for the attributes of a move; the queue pair of RoCE is moved with them, that of
// iWARP is the NIC's.
func (i *cmid) move(to verbs.State) (mask uint32, err error) {
	mask, err = i.initQPAttr(to)
	if err != nil || !i.t.w.roce || to == verbs.Init || i.qp == nil {
		return mask, err
	}
	a := abi.Get[abi.CMQPAttr](i.t.mem)
	attr := qpattr.Attr{Path: abi.AHPath(a.AH[:]), PathMTU: qpattr.MTUOctets(uint8(a.PathMTU)), DestQPN: a.DestQPN,
		RQPSN: a.RQPSN, SQPSN: a.SQPSN, PKeyIndex: a.PKeyIndex, MaxRdAtomic: a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, Timeout: a.Timeout, RetryCount: a.Retry,
		RNRRetry: a.RNRRetry}
	return mask, i.qp.ModifyAttr(to, &attr, qpattr.Mask(mask))
}

// respond is what librdmacm does with CONNECT_RESPONSE.
func (i *cmid) respond() (mask uint32, err error) {
	_, mask, err = i.answer()
	return mask, err
}

func (i *cmid) answer() (ev fetched, mask uint32, err error) {
	ev = i.expect(ConnectResponse)
	for _, s := range []verbs.State{verbs.Init, verbs.RTR, verbs.RTS} {
		if mask, err = i.move(s); err != nil {
			return ev, 0, err
		}
	}
	return ev, mask, i.establish()
}

// established is what tells librdmacm that its request was accepted.
func (i *cmid) established() fetched {
	i.t.w.t.Helper()
	if !i.t.w.roce {
		return i.expect(Established)
	}
	ev, _, err := i.answer()
	must(i.t.w.t, err)
	return ev
}

// said is the private data, without the zeros that fill messages of RoCE.
func (f *fetched) said() string { return strings.TrimRight(f.private, "\x00") }

// expect fetches an event of i that must be of this type.
func (i *cmid) expect(typ EventType) fetched {
	i.t.w.t.Helper()
	ev, err := i.t.event(i.ch)
	if err != nil || ev.typ != typ || ev.uid != i.uid {
		i.t.w.t.Fatalf("event %+v, %v; want %d of %#x", ev, err, typ, i.uid)
	}
	i.acked++
	return ev
}

// request fetches a CONNECT_REQUEST of listener i.
func (i *cmid) request() (*cmid, fetched) {
	i.t.w.t.Helper()
	ev := i.expect(ConnectRequest)
	lastUID += 16
	return &cmid{t: i.t, ch: i.ch, uid: lastUID, num: ev.num, ird: 4, ord: 5}, ev
}

// end destroys i and checks the count of its events.
func (i *cmid) end() {
	i.t.w.t.Helper()
	if got, err := i.destroy(); err != nil || got != i.acked {
		i.t.w.t.Errorf("destroy id %d: %d events, fetched were %d: %v", i.num, got, i.acked, err)
	}
}
