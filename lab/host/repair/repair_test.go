package repair

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

var must = testenv.Must

// ends is a connection with both sides in the kernel.
type ends struct {
	*Conn
	space *link.Space
	peer  *net.TCPConn
}

func dialed(t *testing.T, addr string) ends {
	t.Helper()
	s := testenv.Space(t, nil)
	must(t, s.Net.SetMTU("lo", 1500), s.Net.Up("lo"))
	var l net.Listener
	must(t, s.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(addr, "0"))
		return err
	}))
	defer l.Close()
	to := l.Addr().(*net.TCPAddr).AddrPort()
	c, err := Dial(t.Context(), s.NS, netip.MustParseAddr(addr), to)
	must(t, err)
	peer, err := l.Accept()
	must(t, err)
	t.Cleanup(func() {
		_ = peer.Close() // a test may have
		_ = c.Close()
		c.Release()
	})
	return ends{c, s, peer.(*net.TCPConn)}
}

// info is the state that the peer's kernel has the connection in.
func (e ends) info(t *testing.T) *unix.TCPInfo {
	raw, err := e.peer.SyscallConn()
	must(t, err)
	var info *unix.TCPInfo
	must(t, control(raw, func(fd int) (err error) {
		info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err
	}))
	return info
}

// TestQueues: the state has what the peer has not acknowledged, and what the program has not read.
// The connection that the kernel gets back loses nothing; the one that is closed leaves its peer as it
// was. The port stays taken until it is released.
func TestQueues(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			e := dialed(t, addr)
			must(t, errors.Join(e.SetWriteBuffer(64<<10), e.peer.SetReadBuffer(16<<10)))
			var sent []byte
			for i := 0; ; i++ {
				n, err := e.Send(bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 500))
				must(t, err)
				if n == 0 {
					break
				}
				sent = append(sent, bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 500)[:n]...)
			}
			_, err := e.peer.Write([]byte("not read"))
			must(t, err)
			s, err := e.Save()
			must(t, err)
			if len(s.Unacked) == 0 || !bytes.HasSuffix(sent, s.Unacked) || string(s.Received) != "not read" {
				t.Errorf("%d octets are not acknowledged, %q was received", len(s.Unacked), s.Received)
			}
			if !s.SACK || !s.Timestamps || s.TSVal == 0 || s.PeerMSS < 536 || s.RTO < 1e6 || s.Cwnd == 0 ||
				s.Local.Port() == 0 || s.Remote != e.peer.LocalAddr().(*net.TCPAddr).AddrPort() {
				t.Errorf("%+v", s)
			}
			must(t, e.Thaw())
			got := make([]byte, len(sent))
			_, err = io.ReadFull(e.peer, got)
			must(t, err)
			if !bytes.Equal(got, sent) {
				t.Error("the peer has got other octets than were sent")
			}
			testenv.Until(t, "the peer's acknowledgement", func() bool {
				next, err := e.Save()
				must(t, err)
				if len(next.Unacked) > 0 {
					must(t, e.Thaw())
					return false
				}
				if next.SndUna != s.SndUna+uint32(len(s.Unacked)) || next.RcvNxt != s.RcvNxt {
					t.Errorf("%d and %d do not follow %d and %d", next.SndUna, next.RcvNxt, s.SndUna, s.RcvNxt)
				}
				return true
			})
			in := e.info(t).Segs_in
			must(t, e.Close())
			if i := e.info(t); i.State != established || i.Segs_in != in {
				t.Errorf("the peer is in state %d and has got %d segments", i.State, i.Segs_in-in)
			}
			listen := func() error {
				return e.space.NS.Do(func() error {
					l, err := net.Listen("tcp", s.Local.String())
					if err == nil {
						l.Close()
					}
					return err
				})
			}
			if listen() == nil {
				t.Error("somebody else listens on the port")
			}
			e.Release()
			must(t, listen())
		})
	}
}

// TestOutOfOrder: a segment that has overtaken another is held by the kernel, and no queue shows it. A
// connection that ends is refused, too.
func TestOutOfOrder(t *testing.T) {
	e := dialed(t, "127.0.0.1")
	s, err := e.Save()
	must(t, err, e.Thaw())
	segment := func(at uint32, text string) {
		ih := ip.Header{Version: 4, TTL: 64, Proto: ip.ProtoTCP, Src: s.Remote.Addr(), Dst: s.Local.Addr(),
			PayloadLen: tcp.HeaderLen + len(text)}
		th := tcp.Header{SrcPort: s.Remote.Port(), DstPort: s.Local.Port(), Seq: tcp.Seq(s.RcvNxt + at),
			Ack: tcp.Seq(s.SndUna), Flags: tcp.ACK | tcp.PSH, Window: 512}
		b := make([]byte, 20+tcp.HeaderLen, 20+tcp.HeaderLen+len(text))
		ih.Put(b)
		th.Put(b[20:])
		b = append(b, text...)
		sum := ip.Checksum(b[20:], ip.PseudoSum(ih.Src, ih.Dst, ih.Proto, ih.PayloadLen))
		b[36], b[37] = byte(sum>>8), byte(sum)
		must(t, e.space.NS.Do(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
			if err != nil {
				return err
			}
			return errors.Join(unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: s.Local.Addr().As4()}), unix.Close(fd))
		}))
	}
	segment(4, "late")
	if _, err := e.Save(); !errors.Is(err, ErrOutOfOrder) {
		t.Errorf("data is held out of order: %v", err)
	}
	segment(0, "soon")
	next, err := e.Save()
	must(t, err)
	if string(next.Received) != "soonlate" || next.RcvNxt != s.RcvNxt+8 {
		t.Errorf("received %q", next.Received)
	}
	e = dialed(t, "127.0.0.1")
	must(t, e.peer.CloseWrite())
	testenv.Until(t, "the FIN", func() bool {
		_, err := e.Save()
		if err == nil {
			must(t, e.Thaw())
		}
		return errors.Is(err, ErrState)
	})
}

// TestDialRefused: nobody listens, or nobody answers in time.
func TestDialRefused(t *testing.T) {
	s := testenv.Space(t, nil)
	must(t, s.Net.Up("lo"))
	addr := netip.MustParseAddr("127.0.0.1")
	if _, err := Dial(t.Context(), s.NS, addr, netip.AddrPortFrom(addr, 1)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	if _, err := Dial(ctx, s.NS, addr, netip.AddrPortFrom(addr, 1)); err == nil {
		t.Error("dialed after the deadline")
	}
	if _, err := Dial(t.Context(), s.NS, netip.MustParseAddr("192.0.2.1"), netip.AddrPortFrom(addr, 1)); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("another address: %v", err)
	}
}
