package fault

import (
	"bytes"
	"encoding/binary"
	"testing"

	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/ib"
	"tapir/wire/nvme"
)

// fcFrame is an Ethernet frame with one of Fibre Channel.
func fcFrame(r fc.RCtl) []byte {
	h := fc.Header{RCtl: r, D: 0x010203, S: 0x040506, Type: fc.TypeFCP, FCtl: fc.End, SeqID: 9, SeqCnt: 2, OXID: 0x1234, RXID: 0x5678, Param: 7}
	eth := ether.Header{Type: fcoe.EtherType}
	return fcoe.Append(eth.AppendTo(nil), h, bytes.Repeat([]byte{0x5a}, 64))
}

// Each named field of an FCoE frame is the one that its decoder reads, and the CRC is right unless it is to be stale.
func TestFlipFieldsFCoE(t *testing.T) {
	b := fcFrame(fc.SolicitedData)
	for field, get := range map[string]func(h fc.Header, payload []byte) uint64{
		"r-ctl":     func(h fc.Header, _ []byte) uint64 { return uint64(h.RCtl) },
		"d-id":      func(h fc.Header, _ []byte) uint64 { return uint64(h.D) },
		"s-id":      func(h fc.Header, _ []byte) uint64 { return uint64(h.S) },
		"type":      func(h fc.Header, _ []byte) uint64 { return uint64(h.Type) },
		"f-ctl":     func(h fc.Header, _ []byte) uint64 { return uint64(h.FCtl) },
		"seq-id":    func(h fc.Header, _ []byte) uint64 { return uint64(h.SeqID) },
		"seq-cnt":   func(h fc.Header, _ []byte) uint64 { return uint64(h.SeqCnt) },
		"ox-id":     func(h fc.Header, _ []byte) uint64 { return uint64(h.OXID) },
		"rx-id":     func(h fc.Header, _ []byte) uint64 { return uint64(h.RXID) },
		"parameter": func(h fc.Header, _ []byte) uint64 { return uint64(h.Param) },
	} {
		read := func(b []byte) uint64 {
			_, _, frame, err := fcoe.Parse(b[ether.HeaderLen:])
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			h, payload, err := fc.Parse(frame)
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			return get(h, payload)
		}
		got := flipped(t, "fc-data", field, b)
		if was, is := read(b), read(got); was^is != 1 {
			t.Errorf("%s: %#x became %#x", field, was, is)
		}
	}
	for field, want := range map[string]error{"crc": fcoe.ErrCRC, "sof": fcoe.ErrDelimiter, "eof": fcoe.ErrDelimiter, "payload": nil} {
		got := flipped(t, "fcoe", field, b)
		if _, _, _, err := fcoe.Parse(got[ether.HeaderLen:]); err != want || bytes.Equal(got, b) {
			t.Errorf("%s: %v", field, err)
		}
	}
	e := engine(t, 1, with(Flip, "fcoe", func(r *Rule) { r.Field, r.Stale = "d-id", true }))
	got := bytes.Clone(b)
	e.Judge(A, got, 0).Apply(got)
	if _, _, _, err := fcoe.Parse(got[ether.HeaderLen:]); err != fcoe.ErrCRC {
		t.Error(err)
	}
}

// Each kind of frame of FCoE and FIP is struck by the rules for it, and by those for all.
func TestStrikesStorage(t *testing.T) {
	eth := ether.Header{Type: fip.EtherType}
	frames := map[What][]byte{
		"fc-command": fcFrame(fc.UnsolicitedCmd), "fc-data": fcFrame(fc.SolicitedData), "fc-xfer-ready": fcFrame(fc.DataDescriptor),
		"fc-response": fcFrame(fc.CommandStatus), "fc-els": fcFrame(fc.ELSRequest), "fc-els-reply": fcFrame(fc.ELSReply),
		"fc-abort": fcFrame(fc.Abort), "fc-ct": fcFrame(fc.UnsolicitedCtl), "fc-ct-reply": fcFrame(fc.SolicitedCtl),
	}
	for what, op := range map[What]fip.Op{"fip-solicitation": fip.Solicitation, "fip-advertisement": fip.Advertisement, "fip-request": fip.Request,
		"fip-reply": fip.Reply, "fip-keep-alive": fip.KeepAlive, "fip-clear": fip.ClearLinks, "fip-vlan-request": fip.VLANRequest,
		"fip-vlan-notification": fip.VLANNotify, "fip-probe": fip.ProbeRequest, "fip-probe-reply": fip.ProbeReply,
		"fip-claim": fip.ClaimNotify, "fip-claim-response": fip.ClaimReply, "fip-beacon": fip.Beacon} {
		frames[what] = (&fip.Message{Op: op}).AppendTo(eth.AppendTo(nil))
	}
	for what := range frames {
		e := engine(t, 1, NewRule(Drop, what))
		for of, b := range frames {
			if v := e.Judge(A, b, 0); (v != nil) != (of == what) {
				t.Errorf("a rule for %s, and a frame of %s: %v", what, of, v)
			}
		}
	}
	for _, class := range []What{"fcoe", "fip", "frame"} {
		e, n := engine(t, 1, NewRule(Drop, class)), 0
		for _, b := range frames {
			if e.Judge(B, b, 0) != nil {
				n++
			}
		}
		if want := map[What]int{"fcoe": 9, "fip": 13, "frame": 22}[class]; n != want {
			t.Errorf("%s: %d frames, want %d", class, n, want)
		}
	}
}

// Fields of FIP are those of the descriptor that they are named after, wherever it lies.
func TestFlipFieldsFIP(t *testing.T) {
	m := fip.Message{Op: fip.Advertisement, Flags: fip.FPMA, Priority: 5, MAC: ether.Addr{2, 0, 0, 0, 0, 4}, Map: 0x0efc00, Name: 0x1000,
		Fabric: 0x2000, FabricID: 6, MaxSize: 0x800, Period: 8000, Port: fip.Port{MAC: ether.Addr{2, 0, 0, 0, 0, 6}, ID: 0x10, Name: 0x20}}
	m.Set(fip.Priority, fip.MAC, fip.Name, fip.Fabric, fip.MaxSize, fip.Period, fip.VNPort)
	eth := ether.Header{Type: fip.EtherType}
	b := append(m.AppendVLANs(eth.AppendTo(nil), 100), make([]byte, 9)...) // with padding
	be := func(a ether.Addr) uint64 { return binary.BigEndian.Uint64(append([]byte{0, 0}, a[:]...)) }
	for field, get := range map[string]func(m *fip.Message) uint64{
		"subcode":     func(m *fip.Message) uint64 { return uint64(m.Op & 0xff) },
		"f":           func(m *fip.Message) uint64 { return uint64(m.Flags & 1) },
		"available":   func(m *fip.Message) uint64 { return uint64(m.Flags >> 2 & 1) },
		"priority":    func(m *fip.Message) uint64 { return uint64(m.Priority) },
		"mac":         func(m *fip.Message) uint64 { return be(m.MAC) },
		"name":        func(m *fip.Message) uint64 { return uint64(m.Name) },
		"fabric-id":   func(m *fip.Message) uint64 { return uint64(m.FabricID) },
		"fabric-name": func(m *fip.Message) uint64 { return uint64(m.Fabric) },
		"max-size":    func(m *fip.Message) uint64 { return uint64(m.MaxSize) },
		"period":      func(m *fip.Message) uint64 { return uint64(m.Period) },
		"vn-mac":      func(m *fip.Message) uint64 { return be(m.Port.MAC) },
		"vn-id":       func(m *fip.Message) uint64 { return uint64(m.Port.ID) },
		"vn-name":     func(m *fip.Message) uint64 { return uint64(m.Port.Name) },
		"vlan": func(m *fip.Message) (v uint64) {
			for id := range m.VLANs() {
				v = uint64(id)
			}
			return v
		},
	} {
		read := func(b []byte) uint64 {
			m, err := fip.Parse(b[ether.HeaderLen:])
			if err != nil {
				t.Fatalf("%s: %v", field, err)
			}
			return get(&m)
		}
		got := flipped(t, "fip", field, b)
		if was, is := read(b), read(got); was^is != 1 {
			t.Errorf("%s: %#x became %#x", field, was, is)
		}
	}
	for _, field := range []string{"flogi", "fc-map"} { // no such descriptor
		if got := flipped(t, "fip", field, b); !bytes.Equal(got, b) {
			t.Errorf("%s: flipped", field)
		}
	}
}

// Commands go to port 4420 and completions come from there, and their fields are little-endian, by TCP and by RoCE.
func TestNVMe(t *testing.T) {
	for _, tt := range []struct {
		rule Rule
		want string
	}{
		{NewRule(Drop, "nvme-command"), "... .. .. x . ."},
		{NewRule(Drop, "nvme-completion"), "... .. .. . x ."},
		{with(Flip, "nvme-command", func(r *Rule) { r.Field = "slba" }), "... .. .. x . ."},
		{with(Flip, "nvme-completion", func(r *Rule) { r.Field = "status" }), "... .. .. . x ."},
	} {
		k := newTalk(t, engine(t, 1, tt.rule), nvme.Port) // A is the controller
		out := ""
		say := func(all ...*Verdict) {
			for _, v := range all {
				out += map[bool]string{true: ".", false: "x"}[v == nil]
			}
			out += " "
		}
		say(k.shake()...)
		req, rep := k.startMPA()
		say(req, rep)
		say(k.message(A, rdmap.Write, 2)...)
		say(k.message(B, rdmap.Send, 1)...)
		say(k.message(A, rdmap.Send, 1)...)
		say(k.message(A, rdmap.ReadResponse, 1)...)
		if out[:len(out)-1] != tt.want {
			t.Errorf("%v %s: %s, want %s", &tt.rule, tt.rule.Field, out, tt.want)
		}
	}
	command := make([]byte, nvme.SQELen)
	command[1] = 0x40
	for _, tt := range []struct {
		what    What
		field   string
		payload []byte
		octet   int
	}{
		{"roce-nvme-command", "opcode", command, 0}, {"roce-nvme-command", "cid", command, 2}, {"roce-nvme-command", "slba", command, 40},
		{"roce-nvme-completion", "status", make([]byte, cqeLen), 14}, {"roce-nvme-completion", "opcode", make([]byte, cqeLen), -1},
		{"roce-nvme-completion", "cid", command, -1},
	} {
		b := roceFrame(A, 4, ib.Packet{BTH: ib.BTH{Opcode: ib.Opcode(ib.OpSendOnly), PKey: 0xffff, DestQP: 17, PSN: 5}, Payload: tt.payload})
		r := with(Flip, tt.what, func(r *Rule) { r.Field, r.Bit = tt.field, 0 })
		if _, err := r.Check(); err != nil {
			if tt.field != "opcode" || tt.octet >= 0 {
				t.Error(err)
			}
			continue
		}
		got := bytes.Clone(b)
		if v := engine(t, 1, r).Judge(A, got, 0); v != nil {
			v.Apply(got)
		}
		at := bytes.Index(b, tt.payload)
		where := -1
		for i := range b {
			if b[i] != got[i] {
				where = i - at
			}
		}
		if where != tt.octet {
			t.Errorf("%s %s: octet %d", tt.what, tt.field, where)
		}
	}
}
