package nic

import (
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// Each RDMA connection may have TCP parameters of its own, from the SYN on.
func TestTCPParametersOfAConnection(t *testing.T) {
	w, n, s := pair(t, Config{})
	var got []string
	for _, p := range []toe.Params{{TOS: 0xb8, Congestion: toe.Reno}, {}} {
		pd, err := n.dev.Verbs.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := n.dev.Verbs.CreateCQ(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		qp, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatal(err)
		}
		id := n.dev.CM.NewID(func(cm.Event, frame.Time) {}, nil)
		if err := id.Connect(netip.AddrPortFrom(peer4, 7), cm.Params{QP: qp}, w.now); err != nil {
			t.Fatal(err)
		}
		n.dev.TCPConn(id).SetParams(p)
		w.run(10 * time.Millisecond)
		for _, r := range s.take() {
			if th, _, err := tcp.Parse(r.body); r.ip.Proto == ip.ProtoTCP && err == nil && th.Flags.Has(tcp.SYN) && r.ip.TOS == p.TOS {
				got = append(got, n.dev.TCPConn(id).Info().Congestion)
			}
		}
	}
	if len(got) != 2 || got[0] != "reno" || got[1] != "cubic" {
		t.Errorf("%v", got)
	}
	l, err := n.dev.CM.Listen(netip.AddrPortFrom(nic4, 9), 1, func(cm.Event, frame.Time) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.dev.TCPListener(l).SetParams(toe.Params{TOS: 0x28})
	syn := tcp.Header{SrcPort: 99, DstPort: 9, Seq: 1, Flags: tcp.SYN, Window: 65535}
	b := make([]byte, syn.Len())
	syn.Put(b)
	h := ip.Header{Version: 4, Proto: ip.ProtoTCP, Src: peer4, Dst: nic4, PayloadLen: len(b)}
	sum := ip.Checksum(b, ip.PseudoSum(peer4, nic4, ip.ProtoTCP, len(b)))
	b[tcp.ChecksumOffset], b[tcp.ChecksumOffset+1] = byte(sum>>8), byte(sum)
	s.ip(n.dev.cfg.MAC, h, b)
	w.run(10 * time.Millisecond)
	if r := s.take(); len(r) != 1 || r[0].ip.TOS != 0x28 {
		t.Errorf("SYN-ACK: %+v", r)
	}
}
