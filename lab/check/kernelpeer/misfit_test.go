package kernelpeer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// request is the initiator's frame that the misfits begin with.
func request(t *testing.T) []byte {
	t.Helper()
	i, err := mpa.NewInitiator(mpa.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return i.AppendRequest(nil)
}

// TestNICOutlivesMisfits sends the NIC what no good peer sends, over kernel
// TCP. Each time the NIC ends that connection, says why where the protocols
// let it, and serves the next peer.
func TestNICOutlivesMisfits(t *testing.T) {
	w := newWorld(t, nic.Wire)
	local := netip.MustParseAddr("10.9.0.1")
	at := netip.AddrPortFrom(local, nicPort)
	bad := fpdu(rdmap.UntaggedHeader(rdmap.Send, true, 0, 1, 0), []byte("data"))
	bad[len(bad)-1] ^= 1
	old := mpa.Frame{Kind: mpa.Request, Rev: 9}
	long := append([]byte("MPA ID Req Frame\x00\x01\x02\x01"), make([]byte, 513)...)
	read := rdmap.ReadRequest{Size: 1, SourceSTag: 99}
	for _, c := range []struct {
		name      string
		start     []byte // instead of a request
		then      []byte // after the reply
		halfClose bool
		want      *rdmap.Error // in a Terminate; nil: none is due
	}{
		{name: "wrong key", start: []byte("GET / HTTP/1.1\r\n\r\n")},
		{name: "revision 9", start: old.AppendTo(nil)},
		{name: "513 octets of private data", start: long},
		{name: "half a request", start: request(t)[:10], halfClose: true},
		{name: "close within an FPDU", then: fpdu(rdmap.UntaggedHeader(rdmap.Send, true, 0, 1, 0), make([]byte, 100))[:50], halfClose: true},
		{name: "CRC", then: bad, want: &rdmap.Error{Layer: rdmap.LayerLLP, Code: uint8(mpa.CRC)}},
		{name: "unknown STag", then: fpdu(rdmap.TaggedHeader(rdmap.Write, true, 99, 0), []byte("x")),
			want: &rdmap.Error{Layer: rdmap.LayerDDP, Type: ddp.TypeTagged, Code: ddp.InvalidSTag}},
		{name: "MSN", then: fpdu(rdmap.UntaggedHeader(rdmap.Send, true, 0, 7, 0), nil),
			want: &rdmap.Error{Layer: rdmap.LayerDDP, Type: ddp.TypeUntagged, Code: ddp.InvalidMSN}},
		{name: "message too long", then: fpdu(rdmap.UntaggedHeader(rdmap.Send, true, 0, 1, 0), make([]byte, 1001)),
			want: &rdmap.Error{Layer: rdmap.LayerDDP, Type: ddp.TypeUntagged, Code: ddp.TooLong}},
		{name: "opcode", then: fpdu(rdmap.UntaggedHeader(14, true, 0, 1, 0), nil),
			want: &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeOperation, Code: rdmap.UnexpectedOpcode}},
		{name: "Read of an unknown STag", then: fpdu(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), read.AppendTo(nil)),
			want: &rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeProtection, Code: rdmap.InvalidSTag}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a *app
			var stop func()
			w.do(t, func(frame.Time) (err error) {
				if a, err = newApp(w.dev, 100, 1000); err != nil {
					return err
				}
				l, err := w.dev.CM.Listen(at, 1, a.event, nil)
				stop = l.Close
				return err
			})
			defer w.do(t, func(frame.Time) error { stop(); return nil })
			conn := w.dial(t, at)
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			answer := misbehave(t, conn, c.start, c.then, c.halfClose)
			switch {
			case c.want == nil && len(answer) > 0:
				t.Errorf("answered with %x", answer)
			case c.want != nil:
				if got := terminateIn(t, answer); !errors.Is(got, c.want) {
					t.Errorf("Terminate says %v, want %v", got, c.want)
				}
			}
			if c.then != nil {
				w.checkFailure(t, a, c.want)
			}
		})
	}
	var a *app
	w.do(t, func(frame.Time) (err error) { a, err = newApp(w.dev, 1<<20, largeSend); return err })
	p, offer := toNIC(t, w, a, local, DefaultConfig())
	defer p.Close()
	transfer(t, w, a, p, offer, 1<<20)
}

// checkFailure waits until the NIC's application has been told that its
// connection failed: with want, unless that is nil.
func (w *world) checkFailure(t *testing.T, a *app, want *rdmap.Error) {
	t.Helper()
	var told error
	for range 6000 {
		w.do(t, func(frame.Time) error { told = a.failed; return nil })
		if told != nil && (want == nil || errors.Is(told, want)) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the application is told %v, want %v", told, want)
}

// misbehave sends start, or a good request, then what follows the reply, and
// returns what the NIC sends behind its reply until it ends the connection.
func misbehave(t *testing.T, c net.Conn, start, then []byte, halfClose bool) []byte {
	t.Helper()
	begin := start
	if begin == nil {
		begin = request(t)
	}
	if _, err := c.Write(begin); err != nil {
		t.Fatal(err)
	}
	if start == nil {
		reply := make([]byte, mpa.FrameHeaderLen+mpa.EnhancedLen+12)
		if _, err := io.ReadFull(c, reply); err != nil {
			t.Fatal("no reply:", err)
		}
		if _, err := c.Write(then); err != nil {
			t.Fatal(err)
		}
	}
	if halfClose {
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the NIC keeps the connection")
	}
	return bytes.Clone(answer)
}

// terminateIn is the error that the only FPDU of stream reports.
func terminateIn(t *testing.T, stream []byte) error {
	t.Helper()
	u, n, err := mpa.Layout{CRC: true}.ParseFPDU(stream, 0, nil)
	if err != nil || n == 0 || n != len(stream) {
		t.Fatalf("%d octets instead of a Terminate, %v", len(stream), err)
	}
	h, payload, err := ddp.Parse(u)
	if err != nil || h.ULP != rdmap.TerminateOp.Control() {
		t.Fatalf("%+v instead of a Terminate, %v", h, err)
	}
	term, rest, err := rdmap.ParseTerminate(payload)
	if err != nil || len(rest) > 0 || term.Order != rdmap.OrderRFC {
		t.Fatalf("Terminate %x: %+v, %v", payload, term, err)
	}
	return term.Error()
}
