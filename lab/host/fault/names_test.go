package fault

import (
	"bytes"
	mathbits "math/bits"
	"slices"
	"testing"

	"tapir/opa"
	"tapir/ptp/msg"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fip"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/iscsi"
	"tapir/wire/nvme"
	"tapir/wire/tcp"
)

// passed is a frame that passes a link.
type passed struct {
	from Side
	b    []byte
}

// everyThing are frames with a thing of each name, and in them each named field.
func everyThing(t *testing.T) (all []passed) {
	seen := func(from Side, b []byte) { all = append(all, passed{from, bytes.Clone(b)}) }
	talk := func(port uint16) *talk {
		k := newTalk(t, engine(t, 1), port)
		k.seen = seen
		return k
	}
	everyStream(talk)
	seen(A, ethernet(ether.TypeARP, make([]byte, 46)))
	for m := range msg.Management + 1 {
		body := make([]byte, 64)
		body[0], body[1], body[3] = byte(m), 2, 64
		seen(A, ethernet(ether.TypePTP, body))
	}
	fabric := opa.Header{SLID: 5, DLID: 6, SC: 7, PKey: 0x8001, VESW: 3}
	seen(A, fabric.AppendTo(ethernet(opa.EtherType16B, nil), make([]byte, 60), opa.ICRCv1))
	seen(A, ethernet(opa.EtherType9B, append([]byte{0, 2}, make([]byte, 78)...)))
	for _, r := range []fc.RCtl{fc.UnsolicitedCmd, fc.SolicitedData, fc.DataDescriptor, fc.CommandStatus, fc.ELSRequest, fc.ELSReply,
		fc.Abort, fc.UnsolicitedCtl, fc.SolicitedCtl} {
		seen(A, fcFrame(r))
	}
	for _, op := range []fip.Op{fip.Solicitation, fip.Advertisement, fip.Request, fip.Reply, fip.KeepAlive, fip.ClearLinks, fip.VLANRequest,
		fip.VLANNotify, fip.ProbeRequest, fip.ProbeReply, fip.ClaimNotify, fip.ClaimReply, fip.Beacon} {
		m := fip.Message{Op: op, Frame: make([]byte, 32)}
		m.Set(fip.Priority, fip.MAC, fip.FCMap, fip.Name, fip.Fabric, fip.MaxSize, fip.Period, fip.VNPort)
		for _, m.Login = range []fip.Kind{fip.FLOGI, fip.FDISC, fip.LOGO} {
			seen(A, m.AppendVLANs(ethernet(fip.EtherType, nil), 100))
		}
	}
	return append(all, everyPacket()...)
}

// everyStream has connections of TCP with RDMA, NVMe and iSCSI.
func everyStream(talk func(port uint16) *talk) {
	k := talk(4000)
	script(k)
	for _, o := range []rdmap.Opcode{rdmap.ReadRequestOp, rdmap.ImmediateOp, rdmap.AtomicRequestOp, rdmap.AtomicResponseOp} {
		k.message(A, o, 1)
	}
	k.judge(A, k.frame(A, k.seq[A], tcp.FIN|tcp.ACK, nil))
	k.judge(B, k.frame(B, k.seq[B], tcp.RST|tcp.ACK, nil))

	k = talk(nvme.Port) // A is the controller
	k.start()
	k.message(B, rdmap.Send, 1)
	k.message(A, rdmap.Send, 1)

	k = talk(40000)
	k.shake()
	digests := iscsi.Digests{}
	pdu := func(from Side, op iscsi.Opcode, data string) {
		var h iscsi.BHS
		h[0], h[1] = byte(op), iscsi.Transit|7
		h.SetDataLen(len(data))
		k.send(from, digests.Tail(append(digests.Head(nil, &h), data...), []byte(data)))
	}
	pdu(A, 0x40|iscsi.LoginReq, "")
	pdu(B, iscsi.LoginRsp, "HeaderDigest=CRC32C\x00DataDigest=CRC32C\x00")
	digests = iscsi.Digests{Header: true, Data: true}
	for _, op := range []iscsi.Opcode{iscsi.TextReq, iscsi.Command, iscsi.DataOut, iscsi.TaskRequest, iscsi.NopOut, iscsi.LogoutReq} {
		pdu(A, op, "data")
	}
	for _, op := range []iscsi.Opcode{iscsi.TextRsp, iscsi.Response, iscsi.DataIn, iscsi.R2T, iscsi.TaskResponse, iscsi.NopIn, iscsi.LogoutRsp,
		iscsi.Async, iscsi.Reject} {
		pdu(B, op, "data")
	}
}

// everyPacket are packets of RoCE.
func everyPacket() (all []passed) {
	from, packets := conversation()
	for i, op := range []ib.Opcode{ib.TransportXRC | ib.OpSendOnly, ib.UDSendOnly, ib.OpCompareSwap, ib.OpAtomicAcknowledge,
		ib.OpWriteOnlyImm, ib.OpSendOnlyInvalidate, ib.CNP} {
		p := ib.Packet{BTH: ib.BTH{Opcode: op, PKey: 0xffff, DestQP: 18, PSN: uint32(i)}}
		if o := op.Operation(); o != nil && o.Payload {
			p.Payload = make([]byte, 8)
		}
		from, packets = append(from, A), append(packets, p)
	}
	for attr := ib.AttrREQ; attr <= ib.AttrAPR; attr++ {
		mad := make([]byte, ib.MADLen)
		mad[0], mad[1], mad[16], mad[17] = 1, ib.ClassCM, byte(attr>>8), byte(attr)
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff, DestQP: ib.QP1, PSN: uint32(attr)}, Payload: mad}
		from, packets = append(from, A), append(packets, p)
	}
	for i, payload := range [][]byte{append([]byte{1, 0x40}, make([]byte, nvme.SQELen)...), make([]byte, cqeLen)} {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.OpSendOnly, PKey: 0xffff, DestQP: 19, PSN: 5 + uint32(i)}, Payload: payload}
		from, packets = append(from, A), append(packets, p)
	}
	for i, p := range packets {
		all = append(all, passed{from[i], roceFrame(from[i], 4, p)})
	}
	return all
}

// TestEveryName: each thing that can be named is struck, and of each field that can be named one bit is flipped,
// and no other of the frame.
func TestEveryName(t *testing.T) {
	all := everyThing(t)
	for i := range kinds {
		k := &kinds[i]
		rules := []Rule{NewRule(Drop, k.what), with(Flip, k.what, func(r *Rule) { r.Stale = true })}
		for _, f := range fieldNames(k) {
			r := with(Flip, k.what, func(r *Rule) { r.Field, r.Stale = f, true })
			if _, err := r.Check(); err == nil && whole(k.what) {
				rules = append(rules, r)
			}
		}
		for _, r := range rules {
			e, now := engine(t, 1, r), frame.Time(0)
			for _, p := range all {
				now++
				v := e.Judge(p.from, p.b, now)
				if v == nil || r.Effect != Flip {
					continue
				}
				b, changed := bytes.Clone(p.b), 0
				v.Apply(b)
				for n := range b {
					changed += mathbits.OnesCount8(b[n] ^ p.b[n])
				}
				if changed != len(v.Flips) || changed == 0 {
					t.Errorf("%v %s: %d bits are flipped, want %d", &r, r.Field, changed, len(v.Flips))
				}
			}
			for _, c := range e.Counts() {
				if err := c.Silent(); err != nil {
					t.Errorf("field %q: %v", r.Field, err)
				}
			}
		}
	}
}

// whole tells of a name that there is a thing of that name with each field that a rule for it can name.
func whole(w What) bool {
	return slices.Contains([]What{"tcp", "mpa-request", "mpa-reply", "fpdu", "message", "ptp", "sync", "announce", "16b", "9b", "iscsi",
		"fcoe", "fc-command", "fc-data", "fip", "fip-request", "nvme-command", "nvme-completion", "roce-nvme-command",
		"roce-nvme-completion", "roce"}, w)
}
