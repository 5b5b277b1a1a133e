package rdmap

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"tapir/ddp"
)

// willing is an upper layer that grants everything.
type willing struct{ fake }

func (*willing) Atomic(*AtomicRequest) (uint64, Fault)                   { return 0, FaultNone }
func (*willing) AtomicDone(uint64, uint64) Fault                         { return FaultNone }
func (*willing) PlaceWrite(uint32, uint64, uint64, uint64, []byte) Fault { return FaultNone }
func (*willing) CheckRead(uint32, uint64, uint64) Fault                  { return FaultNone }
func (*willing) NextRecv() (uint64, Fault, bool)                         { return 1 << 20, FaultNone, true }
func (*willing) PlaceRecv([]byte, uint64) Fault                          { return FaultNone }
func (*willing) RecvDone(Received)                                       {}
func (*willing) Invalidate(uint32) Fault                                 { return FaultNone }
func (*willing) PlaceRead(uint64, []byte, uint64) Fault                  { return FaultNone }

// TestSiwTraffic plays connections between two siw drivers through a stream
// on each side. Nothing is found wrong before a Terminate says so, and the
// server's stream answers Reads with the very segments that siw sent.
func TestSiwTraffic(t *testing.T) {
	const mulpdu = 1442 // of siw at MTU 1500
	terminates := map[string]Error{
		"siw-err-rbounds":  {Layer: LayerRDMA, Type: TypeProtection, Code: Bounds},
		"siw-err-wbad":     {Layer: LayerDDP, Type: 1, Code: 0},
		"siw-err-norecv":   {Layer: LayerDDP, Type: 2, Code: 2},
		"siw-crc-err-rbad": {Layer: LayerRDMA, Type: TypeProtection, Code: InvalidSTag},
		"siw-mpav1":        {Layer: LayerRDMA, Type: TypeOperation, Code: CatastrophicStream},
	}
	text, err := os.ReadFile("testdata/siw.hex")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "# ")[1:] {
		name, lines, _ := strings.Cut(part, "\n")
		client := NewStream(&willing{}, Limits{IRD: 128, ORD: 128})
		server := NewStream(&willing{}, Limits{IRD: 128, ORD: 128})
		var answers [][]byte
		var end *Error
		for line := range strings.Lines(lines) {
			b, err := hex.DecodeString(strings.TrimSpace(line[2:]))
			if err != nil {
				t.Fatal(err)
			}
			h, payload, err := ddp.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			op := ParseControl(h.ULP).Opcode
			if line[0] == '>' {
				if op == ReadRequestOp {
					r, _ := ParseReadRequest(payload)
					client.reads.push(read{ref: 1, stag: r.SinkSTag, to: r.SinkTO, size: uint64(r.Size)})
				}
				if err := server.Receive(b); err != nil {
					t.Errorf("%s: server: %v", name, err)
				}
				_, more := sent(server, mulpdu)
				answers = append(answers, more...)
				continue
			}
			if op == ReadResponse {
				if len(answers) == 0 {
					t.Fatalf("%s: siw answers what this stream does not", name)
				}
				if n := h.Len(); string(answers[0][:n]) != string(b[:n]) || len(answers[0]) != len(b) {
					t.Errorf("%s: response %x, siw's %x", name, answers[0][:n], b[:n])
				}
				answers = answers[1:]
			}
			end = client.Receive(b)
		}
		want, fails := terminates[name]
		switch {
		case fails != (end != nil):
			t.Errorf("%s: client: %v", name, end)
		case fails && (!end.Is(&want) || !end.Remote):
			t.Errorf("%s: client: %v, want %v", name, end, &want)
		case !fails && len(answers) != 0:
			t.Errorf("%s: %d answers that siw did not send", name, len(answers))
		}
	}
}
