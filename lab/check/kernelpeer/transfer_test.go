package kernelpeer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/rdmap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tcpPair is a connection over the kernel's loopback.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func pipePair(*testing.T) (a, b net.Conn) { return net.Pipe() }

// connect lets two peers meet over a and b.
func connect(t *testing.T, a, b net.Conn, ic, rc Config) (initiator, responder *Peer) {
	t.Helper()
	var rerr error
	var wg sync.WaitGroup
	wg.Go(func() { responder, rerr = Respond(b, rc) })
	initiator, err := Initiate(a, ic)
	wg.Wait()
	if err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	t.Cleanup(func() { initiator.Close(); responder.Close() })
	return initiator, responder
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}

// exchange moves data from p to q by Send, Write and Read and checks it.
func exchange(t *testing.T, p, q *Peer, n int) {
	t.Helper()
	data := pattern(n, n)
	if err := p.Send(rdmap.SendSE, 0, data); err != nil {
		t.Fatalf("Send of %d: %v", n, err)
	}
	if m, err := q.Recv(); err != nil || m.Op != rdmap.SendSE || !bytes.Equal(m.Data, data) {
		t.Fatalf("Recv of %d: %v, %d octets, %v", n, m.Op, len(m.Data), err)
	}
	sink := make([]byte, n)
	stag, to := q.Register(sink)
	if err := p.Write(stag, to, data); err != nil {
		t.Fatalf("Write of %d: %v", n, err)
	}
	back := make([]byte, n)
	if err := p.Read(stag, to, back); err != nil || !bytes.Equal(back, data) || !bytes.Equal(sink, data) {
		t.Fatalf("Write and Read of %d: %v", n, err)
	}
	q.Deregister(stag)
}

func TestTransfersBothWays(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := DefaultConfig()
		change(&c)
		return c
	}
	for _, c := range []struct {
		name   string
		pair   func(*testing.T) (a, b net.Conn)
		ic, rc Config
	}{
		{"TCP", tcpPair, DefaultConfig(), DefaultConfig()},
		{"pipe", pipePair, DefaultConfig(), DefaultConfig()},
		{"markers both ways", tcpPair, with(func(c *Config) { c.MPA.Markers = true }), with(func(c *Config) { c.MPA.Markers = true })},
		{"revision 1 without CRC", tcpPair, with(func(c *Config) { c.MPA.Revision, c.MPA.CRC = 1, mpa.CRCOptional }), with(func(c *Config) { c.MPA.CRC = mpa.CRCOptional })},
		{"long FPDUs", tcpPair, with(func(c *Config) { c.SegmentSize = 1 << 16 }), with(func(c *Config) { c.SegmentSize = 1 << 16 })},
		{"RTR by Send", tcpPair, with(func(c *Config) { c.MPA.PeerToPeer, c.MPA.RTR = true, mpa.RTRSend }), DefaultConfig()},
		{"RTR by Write", tcpPair, with(func(c *Config) { c.MPA.PeerToPeer, c.MPA.RTR = true, mpa.RTRWrite }), DefaultConfig()},
		{"RTR by Read", tcpPair, with(func(c *Config) { c.MPA.PeerToPeer, c.MPA.RTR = true, mpa.RTRRead }), DefaultConfig()},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.pair(t)
			i, r := connect(t, a, b, c.ic, c.rc)
			if c.ic.MPA.PeerToPeer { // the responder may speak first
				exchange(t, r, i, 100)
			}
			for _, n := range []int{1, 0, 1428, 1429, 70000, 3 << 20} {
				exchange(t, i, r, n)
				exchange(t, r, i, n)
			}
			if i.Err() != nil || r.Err() != nil {
				t.Fatal(i.Err(), r.Err())
			}
		})
	}
}

func TestBothSidesAtOnce(t *testing.T) {
	a, b := tcpPair(t)
	i, r := connect(t, a, b, DefaultConfig(), DefaultConfig())
	exchange(t, i, r, 1)
	var wg sync.WaitGroup
	for _, pair := range [][2]*Peer{{i, r}, {r, i}} {
		p, q := pair[0], pair[1]
		source := pattern(8<<20, 5)
		stag, to := q.Register(source)
		for range 3 {
			wg.Go(func() {
				got := make([]byte, len(source))
				if err := p.Read(stag, to, got); err != nil || !bytes.Equal(got, source) {
					t.Errorf("Read: %v", err)
				}
			})
		}
	}
	wg.Wait()
}

func TestPrivateDataAndReject(t *testing.T) {
	a, b := tcpPair(t)
	ic, rc := DefaultConfig(), DefaultConfig()
	ic.MPA.PrivateData = []byte("may I?")
	asked := make(chan string, 1)
	rc.Accept = func(request mpa.Result) ([]byte, bool) {
		asked <- string(request.PrivateData)
		return []byte("no"), true
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := Respond(b, rc); !errors.As(err, new(*mpa.Rejected)) {
			t.Errorf("responder: %v", err)
		}
	})
	_, err := Initiate(a, ic)
	wg.Wait()
	a.Close()
	b.Close()
	var rejected *mpa.Rejected
	if !errors.As(err, &rejected) || string(rejected.PrivateData) != "no" || <-asked != "may I?" {
		t.Fatal(err)
	}
}

func TestSendWithInvalidateEndsAccess(t *testing.T) {
	a, b := tcpPair(t)
	i, r := connect(t, a, b, DefaultConfig(), DefaultConfig())
	stag, to := r.Register(make([]byte, 8))
	if err := i.Send(rdmap.SendInvalidate, stag, []byte("bye")); err != nil {
		t.Fatal(err)
	}
	if m, err := r.Recv(); err != nil || m.Invalidate != stag {
		t.Fatalf("%+v, %v", m, err)
	}
	want := &rdmap.Error{Layer: rdmap.LayerDDP, Type: ddp.TypeTagged, Code: ddp.InvalidSTag}
	// The Terminate may be here before the Write's return.
	if err := i.Write(stag, to, []byte("x")); err != nil && !errors.Is(err, want) {
		t.Fatal(err)
	}
	if err := r.Wait(); !errors.Is(err, want) {
		t.Errorf("responder: %v", err)
	}
	if err := i.Wait(); !errors.Is(err, want) {
		t.Errorf("initiator: %v", err)
	}
}

// terminateOf connects an initiating peer with a hand-made responder, which
// sends stream after the initiator's first FPDU, and returns the error of the
// initiator and the Terminate that it sends.
func terminateOf(t *testing.T, stream []byte) (rdmap.Terminate, error) {
	t.Helper()
	a, b := tcpPair(t)
	defer b.Close()
	var term rdmap.Terminate
	var wg sync.WaitGroup
	wg.Go(func() {
		r := mpa.NewResponder(mpa.DefaultConfig())
		rest, err := startUp(b, r.Receive)
		if err != nil || len(rest) > 0 {
			t.Errorf("start-up: %v, %d octets behind the request", err, len(rest))
			return
		}
		reply, _ := r.AppendAccept(nil, nil)
		if _, err := b.Write(append(reply, stream...)); err != nil {
			t.Error(err)
		}
		all, err := io.ReadAll(b)
		u, n, perr := mpa.Layout{CRC: true}.ParseFPDU(all, 0, nil)
		if err != nil || perr != nil || n != len(all) {
			t.Errorf("after the error: %d octets, %v, %v", len(all), err, perr)
			return
		}
		_, payload, _ := ddp.Parse(u)
		if term, _, err = rdmap.ParseTerminate(payload); err != nil {
			t.Error(err)
		}
	})
	i, err := Initiate(a, DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	err = i.Wait()
	i.Close()
	wg.Wait()
	return term, err
}

func fpdu(h ddp.Header, payload []byte) []byte {
	s := sender{layout: mpa.Layout{CRC: true}}
	s.append(&h, payload)
	return s.buf
}

func TestErrorsAreReportedInATerminate(t *testing.T) {
	read := rdmap.ReadRequest{Size: 1, SourceSTag: 99}
	bad := fpdu(rdmap.UntaggedHeader(rdmap.Send, true, 0, 1, 0), []byte("data"))
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		name   string
		stream []byte
		want   rdmap.Error
	}{
		{"CRC", bad, rdmap.Error{Layer: rdmap.LayerLLP, Code: 2}},
		{"unknown STag", fpdu(rdmap.TaggedHeader(rdmap.Write, true, 99, 0), []byte("x")), rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0}},
		{"MSN", fpdu(rdmap.UntaggedHeader(rdmap.Send, true, 0, 2, 0), nil), rdmap.Error{Layer: rdmap.LayerDDP, Type: 2, Code: 3}},
		{"opcode", fpdu(rdmap.UntaggedHeader(12, true, 0, 1, 0), nil), rdmap.Error{Layer: rdmap.LayerRDMA, Type: 2, Code: 6}},
		{"Read of an unknown STag", fpdu(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), read.AppendTo(nil)), rdmap.Error{Layer: rdmap.LayerRDMA, Type: 1, Code: 0}},
		{"unsolicited Read Response", fpdu(rdmap.TaggedHeader(rdmap.ReadResponse, true, 0, 0), nil), rdmap.Error{Layer: rdmap.LayerRDMA, Type: 2, Code: 6}},
		{"short Read Request", fpdu(rdmap.UntaggedHeader(rdmap.ReadRequestOp, true, 0, 1, 0), make([]byte, 27)), rdmap.Error{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			term, err := terminateOf(t, c.stream)
			if !errors.Is(err, &c.want) {
				t.Errorf("error %v, want %v", err, &c.want)
			}
			if got := term.Error(); !errors.Is(got, &c.want) {
				t.Errorf("Terminate %+v", term)
			}
			if c.name == "Read of an unknown STag" && (!term.HasRead || term.Read != read) {
				t.Errorf("Terminate without the request: %+v", term)
			}
		})
	}
}

func TestEndOfStream(t *testing.T) {
	a, b := tcpPair(t)
	i, r := connect(t, a, b, DefaultConfig(), DefaultConfig())
	exchange(t, i, r, 10)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recv(); err != io.EOF {
		t.Errorf("Recv after the peer's close: %v", err)
	}
	if err := i.Send(rdmap.Send, 0, nil); err != ErrClosed {
		t.Errorf("Send after Close: %v", err)
	}
}
