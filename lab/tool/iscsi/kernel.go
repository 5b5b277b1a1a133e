package iscsi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"tapir/lab/host/repair"
	"tapir/nic/iscsi"
	"tapir/nic/toe"
	"tapir/nic/toe/congestion"
	"tapir/nic/toe/receive"
	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
)

// kernel is the connection of a session that begins in the kernel:
//
//  1. run    dials, and gives the NIC's thread what the socket has
//  2. step   the login; the socket takes what the initiator sends
//  3. take   when the login has ended, on the NIC's thread, which passes no frame meanwhile:
//     the socket is frozen, the NIC's TCP goes on with its state, the socket is closed silently
//
// To the session it is one link, whoever has the connection.
type kernel struct {
	s         *session
	conn      *repair.Conn // nil: it is dialed
	stop      context.CancelFunc
	sent, got uint64     // octets of the stream that have gone to the socket, and come from it
	until     frame.Time // when the connection has to be quiet; 0: the login goes on
	to        iscsi.Link // the NIC's connection; nil: the kernel has it
}

// errNoHost says that the operating system cannot have the connection.
var errNoHost = errors.New("the NIC has no interface of the operating system, which --from-kernel needs: " +
	"start it with --host-tap")

// dialKernel connects by a socket of the host.
func (s *session) dialKernel(frame.Time) error {
	if s.nic.Host == nil {
		return errNoHost
	}
	from, err := source(s.nic.Device, s.task.Portal.Addr())
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	s.kernel = &kernel{s: s, stop: stop}
	s.link = s.kernel
	go s.kernel.run(ctx, from)
	return nil
}

// run reads the socket until the NIC has the connection, or there is none.
func (k *kernel) run(ctx context.Context, from netip.Addr) {
	defer k.stop()
	conn, err := repair.Dial(ctx, k.s.nic.Host, from, k.s.task.Portal)
	var buf [64 << 10]byte
	for n, more := 0, true; more; {
		lost := k.s.nic.Thread.DoWait(func(now frame.Time) { more = k.step(conn, buf[:n], err, now) })
		if lost != nil || !more {
			break
		}
		n, err = conn.Read(buf[:])
	}
	if conn != nil && k.to == nil {
		_ = conn.Close() // it may be closed
		conn.Release()
	}
}

// step takes what run has got, on the NIC's thread.
func (k *kernel) step(conn *repair.Conn, data []byte, err error, now frame.Time) (more bool) {
	switch {
	case err == io.EOF:
		err = iscsi.ErrClosed
		fallthrough
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		k.s.closed(err, now)
		return false
	}
	if k.conn == nil {
		if k.s.ended {
			k.s.closed(nil, now)
			return false
		}
		k.conn = conn
		k.s.login()
	}
	k.receive(data, now)
	if err = k.push(); err == nil && k.until != 0 && !k.s.ended {
		err = k.take(now)
		if k.to != nil {
			return false
		}
		if errors.Is(err, repair.ErrOutOfOrder) && now < k.until {
			err = k.conn.SetReadDeadline(time.Now().Add(quietEvery))
		}
	}
	if err != nil {
		k.s.finish(fmt.Errorf("connection of the kernel: %w", err), now)
		k.Abort()
	}
	return true
}

func (k *kernel) receive(data []byte, now frame.Time) {
	if len(data) > 0 {
		k.got += uint64(len(data))
		k.s.Receive(nil, data, now)
	}
}

// push gives the socket what the initiator has. A login never fills it.
func (k *kernel) push() error {
	for n := k.s.Next(k.sent, 64<<10); n > 0; n = k.s.Next(k.sent, 64<<10) {
		p := make([]byte, n)
		k.s.Render(k.sent, p)
		n, err := k.conn.Send(p)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the socket takes no more")
		}
		k.sent += uint64(n)
	}
	return nil
}

// take moves the connection to the NIC's TCP.
func (k *kernel) take(now frame.Time) error {
	st, err := k.conn.Save()
	if err != nil {
		k.receive(st.Received, now)
		return err
	}
	// What the peer has not acknowledged the initiator can render again.
	una := k.sent - uint64(len(st.Unacked))
	again := make([]byte, len(st.Unacked))
	if k.s.Render(una, again); !bytes.Equal(again, st.Unacked) {
		return errors.New("its send queue has other octets than the session")
	}
	engine := k.s.nic.Device.TCP()
	c, err := engine.Offload(k.block(st, una, engine.Config().Params, now), k.s, now)
	if err != nil {
		return errors.Join(err, k.conn.Thaw())
	}
	if err = k.conn.Close(); err != nil {
		return err // which does not occur
	}
	k.to, k.s.link = c, c
	k.s.Acked(c, una, now)
	if len(st.Received) > 0 {
		k.s.Receive(c, st.Received, now)
	}
	k.s.ready(now)
	return nil
}

// block is the state of the connection as the NIC's TCP has it. The kernel does not tell the peer's
// last timestamp.
func (k *kernel) block(st *repair.State, una uint64, p toe.Params, now frame.Time) *toe.TCB {
	t := &toe.TCB{Local: st.Local, Remote: st.Remote, SndNxt: st.SndUna, SndOff: una,
		RcvNxt: st.RcvNxt, RcvOff: k.got + uint64(len(st.Received)),
		SndWnd: uint64(st.SndWnd), MaxWnd: uint64(st.MaxWnd),
		SndScale: st.SndScale, RcvScale: st.RcvScale, PeerMSS: st.PeerMSS, SegmentSize: st.RcvMSS, SACK: st.SACK,
		RTT: recovery.RTT{Smoothed: st.SRTT, Var: st.RTTVar, Min: st.MinRTT, RTO: st.RTO},
		Window: congestion.Window{Cwnd: uint64(st.Cwnd) * uint64(st.MSS),
			Ssthresh: uint64(st.Ssthresh) * uint64(st.MSS)},
		Params: p, KeepAliveAt: frame.Never, LastIn: now, LastOut: now, Release: k.conn.Release}
	if st.Timestamps {
		t.TS, t.TSOffset = receive.Unknown(now), st.TSVal-uint32(now/1e6)
	}
	if p.KeepAlive > 0 {
		t.KeepAliveAt = now.Add(p.KeepAlive)
	}
	return t
}

// has tells whether the kernel has the connection.
func (k *kernel) has() bool { return k != nil && k.to == nil }

// Kick implements iscsi.Link. While the kernel has the connection, step sends.
func (k *kernel) Kick() {
	if k.to != nil {
		k.to.Kick()
	}
}

// CloseBoth implements iscsi.Link.
func (k *kernel) CloseBoth() {
	if k.to != nil {
		k.to.CloseBoth()
		return
	}
	k.Abort()
}

// Abort implements iscsi.Link: run hears of it.
func (k *kernel) Abort() {
	switch {
	case k.to != nil:
		k.to.Abort()
	case k.conn != nil:
		_ = errors.Join(k.conn.SetLinger(0), k.conn.Close()) // it may be closed
	default:
		k.stop()
	}
}
