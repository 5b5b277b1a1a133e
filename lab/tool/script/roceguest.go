package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"tapir/nic"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// roceGuest is a live Linux machine with rxe, and the application on it.
type roceGuest struct {
	*roceBench
	v      *live
	g      *guest
	posted map[uint64]verbs.WCOpcode // of requests that are not complete, by id
	id     int                       // of the connection in the guest, 0: none
	active bool                      // the application has connected
}

// The queue pair and the connection that the application makes have this number.
const roceQP = 1

func newRoCEGuest(v *live) *roceGuest {
	r := v.r
	b := newRoCEBench(r)
	b.mac, b.station, b.salt = v.cable.MAC, v.cable.Station, uint32(r.first)<<8
	h := &roceGuest{roceBench: b, v: v, g: v.guest, posted: map[uint64]verbs.WCOpcode{}}
	b.host, v.guest.ear, r.bench = h, h, b
	return h
}

// begin implements liveBench.
func (h *roceGuest) begin() error {
	set := &h.r.script.set.roce
	text, err := h.g.call("mr 0 %d 0 %d", roceMem, 1|int(verbsRights))
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(text, &h.addr, &h.key); err != nil {
		return err
	}
	if err := h.g.put(h.addr, h.mem); err != nil {
		return err
	}
	service := map[qpattr.Type]int{qpattr.RC: 2, qpattr.UC: 3, qpattr.UD: 4}[set.service]
	if text, err = h.g.call("qp %d 0 64 64 1 0 0 %d", roceQP, service); err != nil {
		return err
	}
	if _, err := fmt.Sscan(text, &h.qpn); err != nil || set.managed {
		return err
	}
	a, timeout := set.attr, set.attr.Timeout
	if !slices.Contains(h.r.script.given, "timeout") {
		timeout = patientTimeout
	}
	return h.g.do("ready %d %v %v %d %d %d %d %d %d %d %d %d %d %d %d", roceQP, h.r.local, h.r.remote, a.Access, a.QKey,
		a.PathMTU, a.DestQPN, a.RQPSN, a.MaxDestRdAtomic, a.MinRNRTimer, a.SQPSN, timeout, a.RetryCount, a.RNRRetry,
		a.MaxRdAtomic)
}

// verbsRights are those of the memory: Write, Read and atomics of the peer.
const verbsRights = 2 | 4 | 8

// patientTimeout is the ACK timeout, a second, of scripts that are not about it: this
// machine may be late with its acknowledgements.
const patientTimeout = 18

// ours implements liveBench.
func (h *roceGuest) ours(b []byte) bool {
	eh, n, err := ether.Parse(b)
	if err != nil {
		return false
	}
	if eh.Type == ether.TypeARP {
		q, err := arp.Parse(b[n:])
		return err == nil && q.TargetIP == h.r.remote
	}
	v, rest, err := ip.Parse(b[n:])
	if err != nil || v.Proto != ip.ProtoUDP || eh.Dst != h.station || v.Src != h.r.local || v.Dst != h.r.remote ||
		len(rest) < udp.HeaderLen+ib.BTHLen {
		return false
	}
	return !h.stale(rest[udp.HeaderLen:v.PayloadLen])
}

// stale tells whether a packet is communication management of an earlier script, which is
// still ended by the guest.
func (h *roceGuest) stale(b []byte) bool {
	var p ib.Packet
	if len(b) < ib.ICRCLen || p.Parse(b[:len(b)-ib.ICRCLen]) != nil || p.DestQP != ib.QP1 {
		return false
	}
	m, data, err := ib.ParseMAD(p.Payload)
	if err != nil {
		return false
	}
	switch m.Attr {
	case ib.AttrREP, ib.AttrRTU, ib.AttrREJ, ib.AttrMRA, ib.AttrDREQ, ib.AttrDREP:
		id := ib.ParseIDs(data).RemoteID
		return id-h.salt > 0xff && id>>8 >= 10000 // ids that no script gives are another run's
	}
	return false
}

// answer implements liveBench.
func (h *roceGuest) answer() bool {
	frames := h.inbox
	h.inbox = nil
	h.v.send(frames)
	return len(frames) > 0
}

// acked implements liveBench: a packet that must be acknowledged is a line of the script.
func (h *roceGuest) acked() bool { return true }

// look implements liveBench: memory is looked at when a line asks for it.
func (h *roceGuest) look() error { return nil }

// hangUp implements liveBench: the application's end is enough.
func (h *roceGuest) hangUp() {}

// decided implements liveBench: the next happening of its kind is another.
func (h *roceGuest) decided(e *expectation, _ *peer) bool {
	kind := e.about()
	return !e.waits || (kind == "completion" || kind == "event") && len(h.told) > 0 &&
		h.told[h.first(kind)].is(kind)
}

// skip implements liveBench.
func (h *roceGuest) skip(e *expectation, _ *peer) {
	if kind := e.about(); len(h.told) > 0 {
		if i := h.first(kind); h.told[i].is(kind) {
			h.told = slices.Delete(h.told, i, i+1)
		}
	}
}

// poll implements roceHost.
func (h *roceGuest) poll() frame.Time {
	h.v.poll()
	return frame.Never
}

func (h *roceGuest) recv(id, off, n uint64) error {
	h.posted[id] = verbs.WCRecv
	return h.g.do("recv %d %d 1 %d %d %d", roceQP, id, h.addr+off, n, h.key)
}

func (h *roceGuest) post(wr verbs.SendWR) error {
	op := ibvOpcodes[wr.Opcode]
	h.posted[wr.ID] = op.wc
	wr.SGEs[0].Addr += h.addr
	wr.SGEs[0].LKey = h.key
	return h.g.post(roceQP, op.ibv, &wr, pieces(wr.SGEs))
}

func (h *roceGuest) move(to verbs.State) error {
	return h.g.do("modify %d %d", roceQP, to-verbs.Reset)
}

func (h *roceGuest) state() verbs.State { return h.g.state(roceQP) }

func (h *roceGuest) memory(off, n uint64) []byte {
	if n == 0 {
		return nil
	}
	text, err := h.g.call("get %d %d", h.addr+off, n)
	b, err2 := hex.DecodeString(text)
	if err = errors.Join(err, err2); err != nil || uint64(len(b)) != n {
		h.v.fail(fmt.Errorf("its memory: %d octets, %w", len(b), err))
		return make([]byte, n)
	}
	return b
}

func (h *roceGuest) dereg() error { return h.g.do("dereg %d", h.key) }

func (h *roceGuest) listen() error { return h.g.do("listen %v %d 4", h.r.local, h.r.port) }

func (h *roceGuest) connect() error {
	h.id, h.active = roceQP, true
	return h.g.do("connect %d %d %v 0 %v %d 4 4 -", roceQP, roceQP, h.r.local, h.r.remote, rocePort)
}

func (h *roceGuest) accept() error { return h.onID("accept %d 1 4 4 -") }

// onID is a command about the connection.
func (h *roceGuest) onID(command string) error {
	if h.id == 0 {
		return errors.New("there is no connection")
	}
	return h.g.do(command, h.id)
}

func (h *roceGuest) reject() error     { return h.onID("reject %d -") }
func (h *roceGuest) disconnect() error { return h.onID("disconnect %d") }

// counters implements roceHost: what rxe counts is not what scripts ask for.
func (h *roceGuest) counters() (drops, all map[string]uint64) {
	if h.v.cable.machine() == NIC {
		h.v.inside(func(dev *nic.Device) { drops, all = roceCounters(dev) })
	}
	return drops, all
}

// event implements guestEar.
func (h *roceGuest) event(n []int64, _ string) {
	typ, known := eventTypes[n[1]]
	switch {
	case !known:
		return
	case typ == cm.ConnectRequest:
		h.id = int(n[0])
	case typ == cm.ActiveComplete && !h.active:
		typ = cm.PassiveComplete
	case typ == cm.Rejected && n[2] == int64(ib.RejectInvalidServiceID):
		typ = cm.Refused
	case typ == cm.Unreachable && n[2] == errorTimeout:
		typ = cm.TimedOut
	}
	h.tell("event " + hyphens(typ.String()))
}

// completion implements guestEar.
func (h *roceGuest) completion(n []int64) {
	const withImm = 2
	wc := verbs.WC{ID: uint64(n[1]), Status: verbs.Status(n[2]), Opcode: verbs.WCOpcode(n[3]), ByteLen: uint32(n[4])}
	if wc.Status != verbs.StatusSuccess { // the other fields mean nothing
		wc.Opcode = h.posted[wc.ID]
	} else if wc.WithImm = wc.Opcode >= verbs.WCRecv && n[5]&withImm != 0; wc.WithImm {
		wc.Imm = immediate(n[6])
	}
	h.tell(roceCompletion(&wc))
}

// async implements guestEar.
func (h *roceGuest) async(n []int64) {
	if typ, known := asyncTypes[n[0]]; known {
		h.tell("event " + hyphens(typ.String()))
	}
}
