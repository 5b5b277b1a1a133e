package ib

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

// python is the interpreter for which distributions package scapy.
const python = "/usr/bin/python3"

// scapy's RoCE layers, an independent encoder, make the same octets of random
// packets of all opcodes that they know: headers, pad, IP length and ICRC.
func TestScapyAgrees(t *testing.T) {
	if err := exec.Command(python, "-c", "import scapy.contrib.roce").Run(); err != nil {
		t.Skip("scapy is not installed: apt-get install python3-scapy")
	}
	r := rand.New(rand.NewPCG(22, 1))
	var in strings.Builder
	var ours [][]byte
	for round := range 8 {
		for o := range 256 {
			if p := randomPacket(r, Opcode(o)); p != nil && Opcode(o).Transport() != TransportXRC {
				line, packet := scapyLine(r, p, round)
				in.WriteString(line)
				ours = append(ours, packet)
			}
		}
	}
	cmd := exec.Command(python, "testdata/encode.py")
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	if len(lines) != len(ours) || len(lines) < 250 {
		t.Fatalf("%d packets of scapy, %d of ours", len(lines), len(ours))
	}
	for i, want := range lines {
		if b, err := hex.DecodeString(want); err != nil || !bytes.Equal(b, ours[i]) {
			t.Fatalf("packet %d, %v\n% x, scapy has\n% x", i, Opcode(ours[i][28]), ours[i], b)
		}
	}
}

// scapyLine is p for testdata/encode.py and as octets from the IP header on.
func scapyLine(r *rand.Rand, p *Packet, round int) (line string, packet []byte) {
	src, dst, id := netip.AddrFrom4([4]byte{10, 0, byte(round), 1}), netip.AddrFrom4([4]byte{10, 9, 8, byte(round)}), uint16(r.Uint32())
	b := p.Append(make([]byte, 28))
	b = append(b, make([]byte, ICRCLen)...)
	copy(b, []byte{0: 0x45, 6: 0x40, 8: 64, 9: 17})
	be := binary.BigEndian
	be.PutUint16(b[2:], uint16(len(b)))
	be.PutUint16(b[4:], id)
	s, d := src.As4(), dst.As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	be.PutUint16(b[20:], 0xc123)
	be.PutUint16(b[22:], UDPPort)
	be.PutUint16(b[24:], uint16(len(b)-20))
	be.PutUint16(b[10:], checksum(b[:20]))
	end := len(b) - ICRCLen
	ICRCIPv4(b).Headers(b[28:40]).Payload(b[40:end]).Put(b[end:])
	rest := hex.EncodeToString(b[40:end])
	if rest == "" {
		rest = "-"
	}
	one := func(v bool) int { return int(bit(v, 0)) }
	return fmt.Sprintf("%d %d %d %d %d %d %d %d %d %d %v %v %d %d %s\n", uint8(p.Opcode), one(p.Solicited), one(p.MigReq), p.Pad,
		p.PKey, one(p.FECN), one(p.BECN), p.DestQP, one(p.AckReq), p.PSN, src, dst, 0xc123, id, rest), b
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum>>16 + sum&0xffff)
}
