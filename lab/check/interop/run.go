package interop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"tapir/lab/host/link"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// Result is what a run came to.
type Result struct {
	Cell    Cell
	Octets  uint64        // sent each way that the cell sends
	Took    time.Duration // from the SYN until both sides have ended
	Info    toe.Info      // of the NIC's connection
	In, Out link.FaultCount
}

// port is where the passive side listens.
const port = 4420

// Run carries octets each way of the cell over one connection, verifies each
// octet, and that both sides close in order. ctx bounds it.
func Run(ctx context.Context, cell Cell, octets, seed uint64, attach Attach) (r Result, err error) {
	w, err := NewWorld(ctx, cell, seed, toe.Config{}, attach)
	if err != nil {
		return r, err
	}
	defer w.Close()
	begun := time.Now()
	s, err := w.exchange(ctx, octets, seed)
	r = Result{Cell: cell, Octets: octets, Took: time.Since(begun)}
	w.Do(func(*toe.Engine, frame.Time) { r.In, r.Out = w.Cable.Faults() })
	s.mu.Lock()
	r.Info = s.info
	s.mu.Unlock()
	if err != nil && s.conn != nil {
		w.Do(func(*toe.Engine, frame.Time) { r.Info = s.conn.Info() })
		err = fmt.Errorf("%w\n%+v", err, r.Info)
	}
	return r, err
}

// exchange is one connection from beginning to end.
func (w *World) exchange(ctx context.Context, octets, seed uint64) (*stream, error) {
	var out, in uint64
	if w.Cell.Way != In {
		out = octets
	}
	if w.Cell.Way != Out {
		in = octets
	}
	ours, theirs := newPattern(2*seed), newPattern(2*seed+1)
	ended := make(chan end, 1)
	s := newStream(ours, out, seed, ended)
	conn, err := w.connect(ctx, s)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	peer := make(chan end, 1)
	go func() { peer <- converse(conn, theirs, in) }()
	var nicEnd, peerEnd end
	for range 2 {
		select {
		case nicEnd = <-ended:
			ended = nil
		case peerEnd = <-peer:
			peer = nil
		case <-ctx.Done():
			return s, fmt.Errorf("stuck: %w (NIC ended: %v, peer ended: %v)", ctx.Err(), ended == nil, peer == nil)
		}
	}
	return s, errors.Join(nicEnd.check("the NIC", theirs, in), peerEnd.check("the peer", ours, out))
}

// connect opens the connection from the side that the cell says.
func (w *World) connect(ctx context.Context, s *stream) (conn net.Conn, err error) {
	nic, peer := netip.AddrPortFrom(w.NICAddr(), port), netip.AddrPortFrom(w.PeerAddr(), port)
	if !w.Cell.Active {
		w.Do(func(e *toe.Engine, _ frame.Time) {
			_, err = e.Listen(nic, 8, func(*toe.Conn, frame.Time) toe.Handler { return s })
		})
		if err != nil {
			return nil, err
		}
		return w.Peer.Dial(ctx, nic)
	}
	l, err := w.Peer.Listen(peer)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	w.Do(func(e *toe.Engine, now frame.Time) {
		s.conn, err = e.Connect(netip.AddrPortFrom(nic.Addr(), 0), peer, s, now)
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	return l.Accept()
}

// converse is the peer's end: it sends n octets of the pattern and closes,
// while it reads to the end of what comes.
func converse(conn net.Conn, out pattern, n uint64) end {
	sent := make(chan error, 1)
	go func() { sent <- send(conn, out, n) }()
	h := sha256.New()
	got, err := io.CopyBuffer(h, onlyReader{conn}, make([]byte, 64<<10))
	return end{uint64(got), hex.EncodeToString(h.Sum(nil)), errors.Join(err, <-sent)}
}

func send(conn net.Conn, out pattern, n uint64) error {
	for off := uint64(0); off < n; {
		at := off % patternLen
		chunk := out[at:min(at+64<<10, patternLen)]
		k, err := conn.Write(chunk[:min(uint64(len(chunk)), n-off)])
		if err != nil {
			return err
		}
		off += uint64(k)
	}
	return conn.(interface{ CloseWrite() error }).CloseWrite()
}

// onlyReader hides the other methods of a connection, for a copy through the
// buffer given.
type onlyReader struct{ io.Reader }

// String is the result in one line.
func (r Result) String() string {
	return fmt.Sprintf("%v: %d KiB in %v, %.0f Mb/s, %d retransmissions, %d timeouts",
		r.Cell, r.Octets>>10, r.Took.Round(time.Millisecond), r.rate(), r.Info.Retransmits, r.Info.Timeouts)
}

// rate is in Mb/s, both ways together.
func (r Result) rate() float64 {
	ways := 1.0
	if r.Cell.Way == Both {
		ways = 2
	}
	return float64(r.Octets) * ways * 8 / r.Took.Seconds() / 1e6
}
