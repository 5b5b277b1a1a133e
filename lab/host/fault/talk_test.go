package fault

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// talk is a TCP connection over MPA whose frames an engine judges.
type talk struct {
	t      *testing.T
	e      *Engine
	now    frame.Time
	v6     bool
	tags   int
	port   uint16
	layout [2]mpa.Layout
	seq    [2]tcp.Seq // of the next octet from either side
	base   [2]tcp.Seq // where full operation begins
	msn    [2]uint32
	seen   func(from Side, b []byte) // each frame that is judged; nil: nobody looks
}

func newTalk(t *testing.T, e *Engine, port uint16) *talk {
	return &talk{t: t, e: e, port: port, seq: [2]tcp.Seq{0xfffff000, 77}, layout: [2]mpa.Layout{{CRC: true}, {CRC: true}}}
}

// engine has the rules in force.
func engine(t *testing.T, seed uint64, rules ...Rule) *Engine {
	t.Helper()
	e := New(seed, [2]string{"a", "b"})
	if err := e.SetRules(rules); err != nil {
		t.Fatal(err)
	}
	return e
}

// frame makes a TCP segment.
func (k *talk) frame(from Side, seq tcp.Seq, flags tcp.Flags, payload []byte) []byte {
	addrs := [2]netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	eth := ether.Header{Dst: ether.Addr{2, 0, 0, 0, 0, byte(2 - from)}, Src: ether.Addr{2, 0, 0, 0, 0, byte(1 + from)}, Type: ether.TypeIPv4, NTags: k.tags}
	for i := range k.tags {
		eth.Tags[i] = ether.Tag{TPID: ether.TypeVLAN, TCI: 5}
	}
	h := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, DF: true}
	if k.v6 {
		addrs = [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}
		eth.Type, h.Version, h.DF = ether.TypeIPv6, 6, false
	}
	ports := [2]uint16{k.port, 7174}
	th := tcp.Header{SrcPort: ports[from], DstPort: ports[1-from], Seq: seq, Flags: flags, Window: 1000, Opts: tcp.Options{HasTS: true, TSVal: 1}}
	if flags.Has(tcp.ACK) {
		th.Ack = k.seq[1-from]
	}
	h.Src, h.Dst, h.PayloadLen = addrs[from], addrs[1-from], th.Len()+len(payload)
	b := eth.AppendTo(nil)
	l3 := len(b)
	b = append(b, make([]byte, h.HeaderLen()+th.Len())...)
	h.Put(b[l3:])
	l4 := l3 + h.HeaderLen()
	th.Put(b[l4:])
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[l4+tcp.ChecksumOffset:], ip.Checksum(b[l4:], ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(b)-l4)))
	return b
}

func (k *talk) judge(from Side, b []byte) *Verdict {
	k.now++
	if k.seen != nil {
		k.seen(from, b)
	}
	return k.e.Judge(from, b, k.now)
}

// send has the next octets of a stream judged in one segment.
func (k *talk) send(from Side, payload []byte) *Verdict {
	v := k.judge(from, k.frame(from, k.seq[from], tcp.ACK|tcp.PSH, payload))
	k.seq[from] = k.seq[from].Add(len(payload))
	return v
}

// shake opens TCP.
func (k *talk) shake() (all []*Verdict) {
	all = append(all, k.judge(A, k.frame(A, k.seq[A], tcp.SYN, nil)))
	k.seq[A]++
	all = append(all, k.judge(B, k.frame(B, k.seq[B], tcp.SYN|tcp.ACK, nil)))
	k.seq[B]++
	return append(all, k.judge(A, k.frame(A, k.seq[A], tcp.ACK, nil)))
}

// start opens TCP and MPA.
func (k *talk) start() *talk {
	k.shake()
	k.startMPA()
	return k
}

func (k *talk) startMPA() (request, reply *Verdict) {
	for from, kind := range []mpa.Kind{mpa.Request, mpa.Reply} {
		f := mpa.Frame{Kind: kind, CRC: k.layout[0].CRC, Markers: k.layout[1-from].Markers, Rev: 1, PrivateData: []byte("hello")}
		v := k.send(Side(from), f.AppendTo(nil))
		k.base[from] = k.seq[from]
		if from == 0 {
			request = v
		} else {
			reply = v
		}
	}
	return request, reply
}

// fpdu frames one DDP segment at the front of the stream from a side.
func (k *talk) fpdu(from Side, h ddp.Header, payload []byte) []byte {
	pos := uint64(k.seq[from].Sub(k.base[from]))
	b := make([]byte, k.layout[from].FPDULen(pos, h.Len()+len(payload)))
	k.layout[from].Put(b, pos, h.AppendTo(nil), payload)
	return b
}

// message sends a message of so many segments, one FPDU in each TCP segment.
func (k *talk) message(from Side, o rdmap.Opcode, segments int) (all []*Verdict) {
	for i := range segments {
		all = append(all, k.send(from, k.fpdu(from, k.header(from, o, i, segments), make([]byte, 100))))
	}
	return all
}

func (k *talk) header(from Side, o rdmap.Opcode, i, segments int) ddp.Header {
	if o.Tagged() {
		return rdmap.TaggedHeader(o, i == segments-1, 0x1234, uint64(i*100))
	}
	if i == 0 {
		k.msn[from]++
	}
	return rdmap.UntaggedHeader(o, i == segments-1, 0, k.msn[from], uint32(i*100))
}
