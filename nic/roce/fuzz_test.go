package roce

import (
	"bytes"
	"encoding/binary"
	"testing"

	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/ib"
)

// FuzzResponder gives a live queue pair packets with right ICRCs and anything else: two octets of
// length, then a packet from its BTH on. It starts from a message that is half received. No octet
// outside of what is registered may change, whatever comes.
func FuzzResponder(f *testing.F) {
	seed := func(ps ...ib.Packet) {
		var all []byte
		for _, p := range ps {
			b := p.Append(nil)
			all = append(binary.BigEndian.AppendUint16(all, uint16(len(b))), b...)
		}
		f.Add(all)
	}
	bth := func(op ib.Opcode, psn uint32) ib.BTH {
		return ib.BTH{Opcode: op, PKey: 0xffff, DestQP: firstQPN, PSN: add(0xfffff0, psn), AckReq: true}
	}
	seed(ib.Packet{BTH: bth(ib.OpSendMiddle, 1), Payload: make([]byte, 1024)},
		ib.Packet{BTH: bth(ib.OpSendLastImm, 2), Payload: make([]byte, 5)})
	seed(ib.Packet{BTH: bth(ib.OpReadRequest, 1), RETH: ib.RETH{VA: 1 << 32, Len: 100}})
	seed(ib.Packet{BTH: bth(ib.OpFetchAdd, 1), Atomic: ib.AtomicETH{VA: 1 << 32}})
	seed(ib.Packet{BTH: bth(ib.OpAcknowledge, 0), AETH: ib.AETH{Syndrome: ib.NAKSequence}})
	seed(ib.Packet{BTH: bth(ib.OpReadResponseOnly, 0), Payload: make([]byte, 64)})
	seed(ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff, DestQP: 1}, DETH: ib.DETH{QKey: ib.QKeyQP1, SrcQP: 1}})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRig(t, qpattr.RC)
		to := r.end[1]
		outside := make([]byte, 4096)
		fillBytes(outside)
		want := bytes.Clone(outside)
		_, err := to.pd.RegMR(outside, 0)
		to.must(err)
		r.recv(3000)
		_, err = r.b.PostSend(verbs.SendWR{Opcode: verbs.OpRead, SGEs: to.sge(8192, 64), RKey: r.end[0].mr.RKey(),
			RemoteAddr: r.end[0].mr.Addr()})
		to.must(err)
		r.send(ib.OpSendFirst, 0, payload(1024))
		r.answers()
		guard := bytes.Clone(to.mem[16384:])
		q := r.a.Endpoint().(*qp)
		for range 8 {
			if len(data) < 2 {
				break
			}
			n := min(int(binary.BigEndian.Uint16(data)), len(data)-2, 4096)
			b := data[2 : 2+n]
			data = data[2+n:]
			var w writer
			if !r.end[0].e.begin(&w, &q.route, n+ib.ICRCLen, 0) {
				t.Fatal("no frame")
			}
			all := w.f.Bytes()
			copy(all[q.route.length:], b)
			if n >= ib.BTHLen {
				c := ib.ICRCIPv4(all).Headers(b[:ib.BTHLen]).Payload(b[ib.BTHLen:])
				c.Put(all[len(all)-ib.ICRCLen:])
			}
			to.e.Receive(all, 0, ether.Tag{}, r.now)
			w.f.Release()
			r.answers()
		}
		if !bytes.Equal(outside, want) {
			t.Error("octets without the right to write have changed")
		}
		// R_Keys are random: nothing that is fuzzed can name this memory but the receive.
		if !bytes.Equal(guard, to.mem[16384:]) {
			t.Error("octets outside of the receive have changed")
		}
	})
}

const firstQPN = 17 // of a sim's station
