package script

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"tapir/wire/ether"
)

// cable is one to a machine that never sends a frame and whose application
// says these lines, then ends or is silent.
func cable(says string, ends bool) Cable {
	ours, theirs := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, theirs) // until the other side closes
	}()
	go func() {
		fmt.Fprint(theirs, says)
		if !ends {
			<-over
		}
		theirs.Close()
	}()
	return Cable{
		Frames: make(chan []byte), Send: func([]byte) error { return nil }, Agent: ours,
		MAC: ether.Addr{2, 0, 0, 0, 0, 1}, Station: station, Local: netip.MustParseAddr("10.0.0.1"), Remote: netip.MustParseAddr("10.0.0.2"), Port: 7174, First: 40000,
	}
}

func runLive(t *testing.T, text, says string, ends bool) (Outcome, error) {
	t.Helper()
	s, err := Parse("x.wire", text)
	if err != nil {
		t.Fatal(err)
	}
	return s.RunLive(cable(says, ends), nil)
}

// A machine whose application ends or refuses is an error, or a difference,
// never something that holds.
func TestLiveMachineThatFails(t *testing.T) {
	for _, says := range []string{"", "ok siw0\n", "ok siw0\nhello\n", "err no device\n"} {
		if _, err := runLive(t, "protocol iwarp\n0 mr buf 10\n0 expect memory untouched", says, true); err == nil {
			t.Errorf("%q: no error", says)
		}
	}
	out, err := runLive(t, "protocol iwarp\n0 mr buf 10", "ok siw0\nerr Cannot allocate memory\n", false)
	if err != nil || out.Frames != Differs || !strings.Contains(out.Why[0], "Cannot allocate memory") {
		t.Errorf("a region refused: %+v, %v", out, err)
	}
}

// What nothing tells of counts as not seen.
func TestLiveUnseen(t *testing.T) {
	out, err := runLive(t, "protocol iwarp\n0 expect qp IDLE\n0 expect counter rdma_crc_errors 5\n0 expect state ESTABLISHED", "ok siw0\nok\n"+strings.Repeat("ok\n", 1000), false)
	if err != nil || out.State() != Holds || out.Unseen != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = runLive(t, "protocol iwarp\n0 expect nothing", "ok siw0\nok\nok\nas 1 0\nok\n"+strings.Repeat("ok\n", 1000), false)
	if err != nil || out.Inside != Differs || !strings.Contains(out.Why[0], "async qp-fatal") {
		t.Errorf("an event that nobody has stated: %+v, %v", out, err)
	}
}

func TestInapplicable(t *testing.T) {
	type row struct{ text, why string }
	for m, rows := range [...][]row{Linux: {
		{"0 listen", "siw's TCP is that of Linux"},
		{"protocol 16b\n0 open", "siw has no Omni-Path"},
		{"protocol iwarp\nmarkers on\n0 listen", "siw has no markers"},
		{"protocol iwarp\ncrc refused\n0 listen", "siw never refuses CRCs"},
		{"protocol iwarp\n0 mr buf 10 lw,ra", "atomics"},
		{"protocol iwarp\n0 mr buf 10 addr 5", "addresses"},
		{"protocol iwarp\n0 post fetch-add 1 buf len 8 stag 1 to 0 add 1", "siw has no atomics"},
		{"protocol iwarp\n0 listen\n25 expect quiet", "it takes 25 in real time"},
		{"# not live: because\nprotocol iwarp\n0 listen", "because"},
		{"protocol iwarp\ncrc optional\n0 mr buf 10 lw,rw,rr pd strange\n0 listen\n+0 < atomic-request", ""},
	}, NIC: {
		{"0 listen", "no TCP streams"}, {"protocol ptp\n0 expect quiet", "no Omni-Path and no PTP"},
		{"protocol iwarp\n0 connect\n0 abort", "no abortive end"},
		{"protocol iwarp\nsegments explicit\n0 connect", "begins with one more"},
		{"protocol iwarp\n0 post cmp-swap 1 buf len 8 stag 1 to 0 add 1 mask 1", "masked"},
		{"protocol roce\niwarp on\n0 expect quiet", "no queue pair of RoCE"},
		{"# not verbs: because\nprotocol iwarp\n0 listen", "because"},
		{"# not live: because\nprotocol iwarp\nmarkers on\n0 mr buf 10 lw,ra", ""},
	}} {
		for _, c := range rows {
			s, err := Parse("x.wire", c.text)
			if err != nil {
				t.Fatal(err)
			}
			if have := s.NotLive(Machine(m)); have != c.why && (c.why == "" || !strings.Contains(have, c.why)) {
				t.Errorf("machine %d: %q: %q, want %q", m, c.text, have, c.why)
			}
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "mpa_crc_required=1"}, {"crc optional\n", ""}, {"p2p on\n", "mpa_crc_required=1 peer_to_peer=1"}, {"revision 1\n", "mpa_crc_required=1 mpa_version=1"},
	} {
		s, err := Parse("x.wire", "protocol iwarp\n"+c.text+"0 listen")
		if err != nil {
			t.Fatal(err)
		}
		if have := s.SiwParameters(); have != c.want {
			t.Errorf("%q: %q, want %q", c.text, have, c.want)
		}
	}
}
