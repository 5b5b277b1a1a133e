package mpa

import (
	"bytes"
	"errors"
	"testing"
)

// Tests of RFC 5044 section 7.1: request and reply frames.

const requestKey, replyKey = "MPA ID Req Frame", "MPA ID Rep Frame"

// asked is a responder that has read the request of an initiator with cfg.
func asked(t *testing.T, ic, rc Config) (*Initiator, *Responder) {
	t.Helper()
	i, err := NewInitiator(ic)
	if err != nil {
		t.Fatal(err)
	}
	r := NewResponder(rc)
	if _, done, err := r.Receive(i.AppendRequest(nil)); !done || err != nil {
		t.Fatal(done, err)
	}
	return i, r
}

// Section 7.1.1 (5044-7.1.1-1, 5044-7.1.1-3, 5044-7.1.1-5, 5044-7.1.1-6,
// 5044-7.1.1-7, 5044-7.1.1-13, 5044-7.1.1-14, 5044-7.1.1-17, 5044-7.1.2-1):
// every field of both frames, of a revision 1 connection.
func TestStartupFramesAsSent(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for _, crc := range []CRCPolicy{CRCRequired, CRCOptional} {
			flags := byte(0)
			if markers {
				flags |= 0x80
			}
			if crc == CRCRequired {
				flags |= 0x40
			}
			cfg := Config{Revision: 1, Markers: markers, CRC: crc, PrivateData: []byte("private")}
			i, r := asked(t, cfg, cfg)
			want := requestKey + string([]byte{flags, 1, 0, 7}) + "private"
			if got := i.AppendRequest(nil); string(got) != want {
				t.Errorf("request %q, want %q", got, want)
			}
			reply, err := r.AppendAccept(nil, []byte("answer"))
			if want = replyKey + string([]byte{flags, 1, 0, 6}) + "answer"; err != nil || string(reply) != want {
				t.Errorf("reply %q, want %q", reply, want)
			}
			if want = replyKey + string([]byte{flags | 0x20, 1, 0, 2}) + "no"; string(r.AppendReject(nil, []byte("no"))) != want {
				t.Errorf("reject %q, want %q", r.AppendReject(nil, []byte("no")), want)
			}
		}
	}
}

// Sections 7.1.1 and 7.1.2 (5044-7.1.1-2, 5044-7.1.1-4, 5044-7.1.1-15,
// 5044-7.1.1-16, 5044-7.1.1-18, 5044-7.1.1-19, 5044-7.1.2-3, 5044-7.1.2-7,
// 5044-7.1.2-11, 5044-7.1.2-13, 5044-7.1.2-15, 5044-7.1.2-16,
// 5044-7.1.2-17): improper frames are errors on both sides.
func TestImproperStartupFrames(t *testing.T) {
	long := append([]byte("\x00\x01\x02\x01"), make([]byte, 513)...)
	for _, c := range []struct{ name, tail string }{
		{"revision 0", "\x00\x00\x00\x00"},
		{"revision 3", "\x00\x03\x00\x00"},
		{"513 octets of private data", string(long)},
		{"65535 octets of private data", "\x00\x01\xff\xff"},
	} {
		i, _ := NewInitiator(Config{Revision: 1})
		if _, done, err := i.Receive([]byte(replyKey + c.tail)); done || !errors.Is(err, &Error{Code: Startup}) {
			t.Errorf("%s: initiator: done %v, %v", c.name, done, err)
		}
		if _, done, err := NewResponder(DefaultConfig()).Receive([]byte(requestKey + c.tail)); done || !errors.Is(err, &Error{Code: Startup}) {
			t.Errorf("%s: responder: done %v, %v", c.name, done, err)
		}
	}
	for i := range 16 { // each octet of the key counts; "both sides initiate" is among these
		for _, side := range []struct {
			key  string
			take func([]byte) (int, bool, error)
		}{
			{requestKey, NewResponder(DefaultConfig()).Receive},
			{replyKey, func() *Initiator { i, _ := NewInitiator(DefaultConfig()); return i }().Receive},
		} {
			b := []byte(side.key + "\x00\x01\x00\x00")
			b[i] ^= 0x20
			if _, done, err := side.take(b); done || !errors.Is(err, &Error{Code: Startup}) {
				t.Errorf("octet %d of %q wrong: %v", i, side.key, err)
			}
		}
	}
	for want, other := range map[Kind]string{Request: replyKey, Reply: requestKey} {
		if _, _, err := ParseFrame([]byte(other), want); !errors.Is(err, &Error{Code: Startup}) {
			t.Errorf("%v waited for, the other came: %v", want, err)
		}
	}
}

// Section 7.1.2 (5044-7.1.2-15, 5044-7.1.2-16): exactly PD_Length octets
// belong to the frame.
func TestPrivateDataIsWhatItsLengthSays(t *testing.T) {
	in := []byte(requestKey + "\x40\x01\x00\x03abcdef")
	r := NewResponder(DefaultConfig())
	if _, done, err := r.Receive(in[:22]); done || err != nil {
		t.Fatalf("two of three octets: done %v, %v", done, err)
	}
	n, done, err := r.Receive(in[22:])
	if n != 1 || !done || err != nil || string(r.Request().PrivateData) != "abc" {
		t.Errorf("%d, %v, %v, %q", n, done, err, r.Request().PrivateData)
	}
	for _, n := range []int{0, 512} {
		f := Frame{Kind: Request, Rev: 1, PrivateData: make([]byte, n)}
		if _, done, err := NewResponder(DefaultConfig()).Receive(f.AppendTo(nil)); !done || err != nil {
			t.Errorf("%d octets: %v, %v", n, done, err)
		}
	}
}

// Sections 7.1.1 of RFC 5044 and 6 of RFC 6581 (5044-7.1.1-13, 6581-6-1):
// reserved bits are ignored.
func TestReservedBitsOfFramesAreIgnored(t *testing.T) {
	plain, _ := NewInitiator(Config{Revision: 1})
	b := plain.AppendRequest(nil)
	if b[16]&0x1f != 0 {
		t.Errorf("flags sent: %#x", b[16])
	}
	b[16] |= 0x1f // S too, which revision 1 does not know
	r := NewResponder(DefaultConfig())
	if _, done, err := r.Receive(b); !done || err != nil || r.Request().Enhanced {
		t.Errorf("request: done %v, %v, %+v", done, err, r.Request())
	}
	reply, err := r.AppendAccept(nil, nil)
	if err != nil || reply[16]&0x1f != 0 {
		t.Errorf("reply's flags: %#x, %v", reply[16], err)
	}
	reply[16] |= 0x1f
	if _, done, err := plain.Receive(reply); !done || err != nil || plain.Result().Enhanced {
		t.Errorf("reply: done %v, %v", done, err)
	}
}

// Sections 4.4 and 7.1.1 (5044-1.2-2, 5044-4.4-1, 5044-4.4-2, 5044-4.4-3,
// 5044-4.4-6, 5044-4.4-7, 5044-7.1.1-10, 5044-7.1.1-11, 5044-C.1-2): CRCs
// are on as soon as one side asks for them, and by default.
func TestCRCIsOnWhenEitherSideAsks(t *testing.T) {
	if DefaultConfig().CRC != CRCRequired || (Config{}).CRC != CRCRequired {
		t.Error("CRC is not the default")
	}
	for _, ic := range []CRCPolicy{CRCRequired, CRCOptional} {
		for _, rc := range []CRCPolicy{CRCRequired, CRCOptional} {
			for rev := uint8(1); rev <= 2; rev++ {
				ir, rr, err := negotiate(t, Config{Revision: rev, CRC: ic}, Config{Revision: 2, CRC: rc}, "")
				want := ic == CRCRequired || rc == CRCRequired
				if err != nil || ir.CRC != want || rr.CRC != want || ir.Tx().CRC != want || ir.Rx().CRC != want ||
					rr.Tx().CRC != want || rr.Rx().CRC != want {
					t.Errorf("revision %d, %v and %v: %v %v, %v", rev, ic, rc, ir.CRC, rr.CRC, err)
				}
			}
		}
	}
}

// Section 7.1.1 (5044-7.1.1-5 to 5044-7.1.1-9): markers go where their
// receiver wants them, each direction by itself.
func TestMarkersWhereTheReceiverWantsThem(t *testing.T) {
	for k := range 4 {
		ic, rc := Config{Revision: 2, Markers: k&1 != 0}, Config{Revision: 2, Markers: k&2 != 0}
		ir, rr, err := negotiate(t, ic, rc, "")
		if err != nil || ir.Tx().Markers != rc.Markers || rr.Tx().Markers != ic.Markers ||
			ir.Rx().Markers != ic.Markers || rr.Rx().Markers != rc.Markers {
			t.Errorf("%d: %+v %+v %v", k, ir, rr, err)
		}
	}
}

// Section 7.1.2 (5044-7.1.2-4, 5044-7.1.2-8, 5044-7.1.2-12): R=1 is reported
// with its private data, and the stream behind the reply is not touched.
func TestRejectedReplyIsReported(t *testing.T) {
	i, r := asked(t, Config{Revision: 1}, DefaultConfig())
	b := append(r.AppendReject(nil, []byte("why")), "what the consumers say next"...)
	n, done, err := i.Receive(b)
	var rejected *Rejected
	if done || !errors.As(err, &rejected) || string(rejected.PrivateData) != "why" || string(b[n:]) != "what the consumers say next" {
		t.Errorf("%d, %v, %v", n, done, err)
	}
}

// Section 3 (5044-3-9): the upper layer learns the version.
func TestNegotiatedRevisionIsReported(t *testing.T) {
	for _, c := range []struct{ i, r, want uint8 }{{1, 1, 1}, {1, 2, 1}, {2, 2, 2}} {
		ir, rr, err := negotiate(t, Config{Revision: c.i}, Config{Revision: c.r}, "")
		if err != nil || ir.Revision != c.want || rr.Revision != c.want {
			t.Errorf("%+v: %d %d %v", c, ir.Revision, rr.Revision, err)
		}
	}
}

// Section 7.1.2 (5044-7.1.2-2, 5044-7.1.2-6): neither side is done before the
// peer's frame is whole, octet by octet.
func TestNotDoneBeforeTheFrameIsWhole(t *testing.T) {
	i, r := asked(t, Config{Revision: 1, PrivateData: []byte("abc")}, DefaultConfig())
	reply, _ := r.AppendAccept(nil, []byte("de"))
	fresh := NewResponder(DefaultConfig())
	for _, side := range []struct {
		in   []byte
		take func([]byte) (int, bool, error)
	}{{i.AppendRequest(nil), fresh.Receive}, {reply, i.Receive}} {
		for k := range side.in {
			if _, done, err := side.take(side.in[k : k+1]); err != nil || done != (k == len(side.in)-1) {
				t.Fatalf("octet %d of %d: done %v, %v", k, len(side.in), done, err)
			}
		}
	}
	if !bytes.Equal(i.Result().PrivateData, []byte("de")) || !bytes.Equal(fresh.Request().PrivateData, []byte("abc")) {
		t.Error("private data differ")
	}
}
