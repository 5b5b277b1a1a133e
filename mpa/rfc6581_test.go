package mpa

import (
	"errors"
	"testing"
)

// Tests of RFC 6581 sections 6, 8 and 9, clause by clause.

// offer makes the enhanced data of a request with cfg, and what a responder
// with rc answers.
func offer(t *testing.T, ic, rc Config) (req, rep Enhanced, i *Initiator, reply []byte) {
	t.Helper()
	i, r := asked(t, ic, rc)
	f, _, err := ParseFrame(i.AppendRequest(nil), Request)
	if err != nil || !f.Enhanced || f.Rev != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	if req, _, err = ParseEnhanced(f.PrivateData); err != nil {
		t.Fatal(err)
	}
	if reply, err = r.AppendAccept(nil, nil); err != nil {
		t.Fatal(err)
	}
	if f, _, err = ParseFrame(reply, Reply); err != nil || !f.Enhanced || f.Rev != 2 {
		t.Fatalf("reply %+v, %v", f, err)
	}
	if rep, _, err = ParseEnhanced(f.PrivateData); err != nil {
		t.Fatal(err)
	}
	return req, rep, i, reply
}

// Section 6 (6581-6-2, 6581-6-4) and section 9 (6581-9-1): an enhanced
// request octet by octet, in network byte order.
func TestEnhancedRequestAsSent(t *testing.T) {
	i, err := NewInitiator(Config{Revision: 2, IRD: 0x0123, ORD: 0x2abc, PrivateData: []byte("ulp")})
	if err != nil {
		t.Fatal(err)
	}
	want := requestKey + "\x50\x02\x00\x07" + "\x01\x23\x2a\xbc" + "ulp"
	if got := i.AppendRequest(nil); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	e := Enhanced{IRD: 0x7fff, ORD: 0x7fff}
	if got := e.AppendTo(nil); string(got) != "\x3f\xff\x3f\xff" {
		t.Errorf("more than 14 bits: %x", got)
	}
}

// Sections 6 and 9.3 (6581-6-3, 6581-9.3-3, 6581-9.3-5, 6581-9.3-7): a
// responder of revision 2 answers a request of revision 1 in kind, and one
// without S too.
func TestUnenhancedRequestsAreAnsweredInKind(t *testing.T) {
	for _, rev := range []uint8{1, 2} {
		in := Frame{Kind: Request, CRC: true, Rev: rev, PrivateData: []byte("\x00\x01\x00\x01ulp")}
		r := NewResponder(DefaultConfig())
		if _, done, err := r.Receive(in.AppendTo(nil)); !done || err != nil {
			t.Fatal(done, err)
		}
		if string(r.Request().PrivateData) != string(in.PrivateData) {
			t.Errorf("revision %d: private data %q", rev, r.Request().PrivateData)
		}
		reply, _ := r.AppendAccept(nil, []byte("yes"))
		f, _, err := ParseFrame(reply, Reply)
		if err != nil || f.Enhanced || f.Rev != rev || string(f.PrivateData) != "yes" {
			t.Errorf("revision %d: reply %+v, %v", rev, f, err)
		}
	}
}

// Section 9.3 (6581-9.3-2, 6581-9.3-6): an enhanced request is answered by an
// enhanced reply, also when it says no.
func TestEnhancedRequestsAreAnsweredInKind(t *testing.T) {
	_, r := asked(t, DefaultConfig(), DefaultConfig())
	accept, _ := r.AppendAccept(nil, []byte("yes"))
	for want, b := range map[string][]byte{"yes": accept, "no": r.AppendReject(nil, []byte("no"))} {
		f, _, err := ParseFrame(b, Reply)
		if err != nil || !f.Enhanced || f.Rev != 2 || string(f.PrivateData[EnhancedLen:]) != want {
			t.Errorf("%s: %+v, %v", want, f, err)
		}
	}
}

// Section 9.3 (6581-9.3-2, 6581-9.3-8): a responder without RFC 6581 takes an
// enhanced request for an error.
func TestUnenhancedResponderRefusesEnhancedRequests(t *testing.T) {
	i, _ := NewInitiator(DefaultConfig())
	r := NewResponder(Config{Revision: 1})
	if _, done, err := r.Receive(i.AppendRequest(nil)); done || !errors.Is(err, &Error{Code: Startup}) || len(r.Refusal()) != 0 {
		t.Errorf("done %v, %v", done, err)
	}
}

// Section 9.3 (6581-9.3-4): without enhanced functionality the frames are
// those of RFC 5044.
func TestRevision1UsesNoEnhancedFormat(t *testing.T) {
	i, _ := NewInitiator(Config{Revision: 1, IRD: 5, ORD: 5, PeerToPeer: true})
	if got := string(i.AppendRequest(nil)); got != requestKey+"\x40\x01\x00\x00" {
		t.Errorf("%q", got)
	}
}

// Section 9.1 (6581-9.1-1, 6581-9.1-2, 6581-9.1-3, 6581-9.1-5, 6581-9.1-8):
// each side issues no more Reads than the other serves, and learns what the
// other said.
func TestReadDepths(t *testing.T) {
	for _, iird := range []uint16{0, 1, 7, 40, 0x3ffe} {
		for _, iord := range []uint16{0, 1, 7, 40, 0x3ffe} {
			for _, d := range []uint16{0, 7, 33} {
				ic, rc := Config{Revision: 2, IRD: iird, ORD: iord}, Config{Revision: 2, IRD: d, ORD: d + 1}
				req, rep, i, reply := offer(t, ic, rc)
				if req.IRD != iird || req.ORD != iord || rep.ORD != min(d+1, iird) || rep.IRD != min(d, iord) {
					t.Fatalf("%+v answered by %+v", req, rep)
				}
				if _, done, err := i.Receive(reply); !done || err != nil {
					t.Fatal(done, err)
				}
				res := i.Result()
				if res.IRD < rep.ORD || res.ORD > rep.IRD || res.PeerIRD != rep.IRD || res.PeerORD != rep.ORD {
					t.Fatalf("reply %+v gives %+v", rep, res)
				}
			}
		}
	}
	_, r := asked(t, Config{Revision: 2, IRD: 9, ORD: 8}, DefaultConfig())
	if q := r.Request(); q.PeerIRD != 9 || q.PeerORD != 8 {
		t.Errorf("responder learns %+v", q)
	}
	i, _ := NewInitiator(DefaultConfig())
	_, _, err := i.Receive(r.AppendReject(nil, nil))
	var no *Rejected
	if !errors.As(err, &no) || no.IRD != 8 || no.ORD != 9 || !no.Enhanced {
		t.Errorf("reject: %+v", err)
	}
}

// Section 9.1 (6581-9.1-4, 6581-9.1-6, 6581-9.1-7): code 6 where the peer
// wants more Reads served than there are resources for.
func TestInsufficientIRD(t *testing.T) {
	i, _ := NewInitiator(Config{Revision: 2, IRD: 3, ORD: 3})
	_, done, err := i.Receive(replyWith(Enhanced{IRD: 3, ORD: 4}))
	if done || !errors.Is(err, &Error{Code: InsufficientIRD}) || InsufficientIRD != 6 {
		t.Errorf("done %v, %v", done, err)
	}
}

func replyWith(e Enhanced) []byte {
	f := Frame{Kind: Reply, CRC: true, Enhanced: true, Rev: 2, PrivateData: e.AppendTo(nil)}
	return f.AppendTo(nil)
}

// Section 9.1 (6581-9.1-9 to 6581-9.1-12): 0x3FFF leaves the depths alone.
func TestDepthsNotNegotiated(t *testing.T) {
	open := Config{Revision: 2, IRD: NotNegotiated, ORD: NotNegotiated}
	set := Config{Revision: 2, IRD: 7, ORD: 9}
	req, rep, i, reply := offer(t, open, set)
	if req.IRD != 0x3fff || req.ORD != 0x3fff || rep.IRD != 0x3fff || rep.ORD != 0x3fff {
		t.Errorf("%+v answered by %+v", req, rep)
	}
	if _, _, err := i.Receive(reply); err != nil {
		t.Fatal(err)
	}
	_, r := asked(t, open, set)
	if q := r.Request(); q.IRD != 7 || q.ORD != 9 {
		t.Errorf("responder keeps %d, %d", q.IRD, q.ORD)
	}
	j, _ := NewInitiator(set)
	if _, done, err := j.Receive(replyWith(Enhanced{IRD: 0x3fff, ORD: 0x3fff})); !done || err != nil {
		t.Fatal(done, err)
	}
	if q := j.Result(); q.IRD != 7 || q.ORD != 9 {
		t.Errorf("initiator keeps %d, %d", q.IRD, q.ORD)
	}
}

// Section 9.2 (6581-9.2-1, 6581-9.2-2, 6581-9.2-3, 6581-9.2-4, 6581-9.2-5,
// 6581-9.2-6, 6581-9.2-7, 6581-9.2-8): every pair of sets of indications.
func TestPeerToPeerIndications(t *testing.T) {
	for ir := RTR(1); ir <= RTRAny; ir++ {
		for set := RTR(0); set <= RTRAny; set++ {
			rr := set
			if set == 0 { // none named: all are supported
				rr = RTRAny
			}
			ic := Config{Revision: 2, PeerToPeer: true, RTR: ir, IRD: 1, ORD: 1}
			req, rep, i, reply := offer(t, ic, Config{Revision: 2, RTR: set, IRD: 1, ORD: 1})
			if !req.P2P || req.RTR() != ir || !rep.P2P {
				t.Fatalf("%b: request %+v, reply %+v", ir, req, rep)
			}
			want := ir & rr
			if want == 0 {
				want = rr
			}
			if rep.RTR() != want {
				t.Errorf("%b offered to %b: answered %b", ir, rr, rep.RTR())
			}
			_, done, err := i.Receive(reply)
			if ir&rr == 0 {
				if done || !errors.Is(err, &Error{Code: NoRTR}) {
					t.Errorf("%b and %b: done %v, %v", ir, rr, done, err)
				}
				continue
			}
			if got := i.Result().RTR; err != nil || got&(got-1) != 0 || got&ir&rr == 0 {
				t.Errorf("%b and %b: chose %b, %v", ir, rr, got, err)
			}
		}
	}
}

// Section 9.2 (6581-9.2-9, 6581-9.2-10): code 7 where nothing fits, also when
// the responder does not know the peer-to-peer model.
func TestNoCommonIndication(t *testing.T) {
	for _, e := range []Enhanced{{IRD: 1, ORD: 1}, {IRD: 1, ORD: 1, P2P: true}, {IRD: 1, ORD: 1, P2P: true, RTRRead: true}} {
		i, _ := NewInitiator(Config{Revision: 2, PeerToPeer: true, RTR: RTRSend, IRD: 1, ORD: 1})
		if _, done, err := i.Receive(replyWith(e)); done || !errors.Is(err, &Error{Code: NoRTR}) || NoRTR != 7 {
			t.Errorf("%+v: done %v, %v", e, done, err)
		}
	}
}

// Section 9.2 (6581-9.2-11, 6581-9.2-12, 6581-9.2-13, 6581-9.2-14): in the
// client-server model A to D are zero, and B to D are ignored.
func TestClientServerModel(t *testing.T) {
	req, rep, _, _ := offer(t, Config{Revision: 2, RTR: RTRAny, IRD: 1, ORD: 1}, DefaultConfig())
	if req.P2P || req.RTR() != 0 || rep.P2P || rep.RTR() != 0 {
		t.Errorf("request %+v, reply %+v", req, rep)
	}
	noise := Enhanced{IRD: 1, ORD: 0, RTRSend: true, RTRWrite: true, RTRRead: true}
	f := Frame{Kind: Request, CRC: true, Enhanced: true, Rev: 2, PrivateData: noise.AppendTo(nil)}
	r := NewResponder(DefaultConfig())
	if _, done, err := r.Receive(f.AppendTo(nil)); !done || err != nil {
		t.Fatal(done, err)
	}
	if q := r.Request(); q.PeerToPeer || q.RTR != 0 || q.IRD != 0 {
		t.Errorf("B to D made a difference: %+v", q)
	}
	i, _ := NewInitiator(Config{Revision: 2, IRD: 1, ORD: 1})
	if _, done, err := i.Receive(replyWith(noise)); !done || err != nil || i.Result().RTR != 0 {
		t.Errorf("done %v, %v, %+v", done, err, i.Result())
	}
}

// Section 6 (6581-6-4) and 7.1.1 of RFC 5044 (6581-7-3): S set without the
// data is an improper frame; both together have at most 512 octets.
func TestEnhancedDataMustBeThere(t *testing.T) {
	for n := range EnhancedLen {
		f := Frame{Kind: Request, Enhanced: true, Rev: 2, PrivateData: make([]byte, n)}
		if _, done, err := NewResponder(DefaultConfig()).Receive(f.AppendTo(nil)); done || !errors.Is(err, &Error{Code: Startup}) {
			t.Errorf("request with %d octets: done %v, %v", n, done, err)
		}
		f.Kind = Reply
		i, _ := NewInitiator(DefaultConfig())
		if _, done, err := i.Receive(f.AppendTo(nil)); done || !errors.Is(err, &Error{Code: Startup}) {
			t.Errorf("reply with %d octets: done %v, %v", n, done, err)
		}
	}
}
