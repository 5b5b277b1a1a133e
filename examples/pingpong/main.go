// Pingpong is two programs that use the RDMA of NICs which run in other
// processes: one sends messages, the other sends them back.
//
//	tapir nic --name nic1 --ip 10.0.0.2/24 ... &
//	pingpong -nic nic1 -listen 10.0.0.2:7471 &
//	pingpong -nic nic0 -connect 10.0.0.2:7471 -n 1000
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"time"

	"tapir/nic/umode"
	"tapir/nic/verbs"
)

func main() {
	nic := flag.String("nic", "", "the NIC's name (default: the one that runs)")
	listen := flag.String("listen", "", "serve one peer at this address, such as 10.0.0.2:7471")
	connect := flag.String("connect", "", "connect to the peer at this address")
	n := flag.Int("n", 1000, "messages")
	size := flag.Int("size", 64, "octets of a message")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *nic, *listen, *connect, *n, *size); err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, nic, listen, connect string, n, size int) error {
	if (listen == "") == (connect == "") {
		return errors.New("one of -listen and -connect is needed")
	}
	c, err := umode.Open(nic, umode.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := newSide(c, size)
	if err != nil {
		return err
	}
	if listen != "" {
		return s.serve(ctx, out, listen)
	}
	return s.ping(ctx, out, connect, n)
}

// side is a queue pair with two messages' worth of memory: one to send, one to
// receive.
type side struct {
	ctx  *umode.Context
	cq   *umode.CQ
	qp   *umode.QP
	mr   *umode.MR
	size int
}

func newSide(c *umode.Context, size int) (s *side, err error) {
	s = &side{ctx: c, size: size}
	pd, err := c.AllocPD()
	if err != nil {
		return nil, err
	}
	mem, err := c.Alloc(2 * size) // shared with the NIC: nothing is copied on the way
	if err != nil {
		return nil, err
	}
	if s.mr, err = pd.RegMR(mem, verbs.LocalWrite); err != nil {
		return nil, err
	}
	channel, err := c.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	if s.cq, err = c.CreateCQ(16, channel); err != nil {
		return nil, err
	}
	s.qp, err = pd.CreateQP(umode.QPConfig{SendCQ: s.cq, RecvCQ: s.cq})
	if err != nil {
		return nil, err
	}
	if err := s.qp.Modify(verbs.Init); err != nil { // from here on it takes receives
		return nil, err
	}
	return s, s.await()
}

func (s *side) outgoing() []byte { return s.mr.Bytes()[:s.size] }
func (s *side) incoming() []byte { return s.mr.Bytes()[s.size:] }

// await posts the receive for the next message.
func (s *side) await() error {
	_, err := s.qp.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{s.mr.SGE(s.size, s.size)}})
	return err
}

func (s *side) send(n int) error {
	_, err := s.qp.PostSend(verbs.SendWR{Opcode: verbs.OpSend, SGEs: []verbs.SGE{s.mr.SGE(0, n)}})
	return err
}

// message waits for the next one and returns its length. Sends complete
// silently unless they fail.
func (s *side) message(ctx context.Context) (int, error) {
	wc, err := s.cq.Next(ctx)
	if err == nil && wc.Status != verbs.StatusSuccess {
		err = fmt.Errorf("%v: %v", wc.Opcode, wc.Status)
	}
	return int(wc.ByteLen), err
}

// serve sends back what comes, until the peer disconnects.
func (s *side) serve(ctx context.Context, out io.Writer, at string) error {
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		return err
	}
	l, err := s.ctx.Listen(addr, 1)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening at", l.Local())
	id, err := l.Request(ctx)
	if err != nil {
		return err
	}
	if err := id.Accept(ctx, umode.Params{QP: s.qp}); err != nil {
		return err
	}
	for served := 0; ; served++ {
		n, err := s.message(ctx)
		if err != nil {
			fmt.Fprintf(out, "%v sent %d messages\n", id.Remote().Addr(), served)
			return id.Wait(ctx) // an error, unless the peer has disconnected
		}
		copy(s.outgoing(), s.incoming()[:n])
		if err := errors.Join(s.await(), s.send(n)); err != nil {
			return err
		}
	}
}

// ping sends n messages, each after the answer to the one before.
func (s *side) ping(ctx context.Context, out io.Writer, to string, n int) error {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	id, err := s.ctx.NewID()
	if err != nil {
		return err
	}
	if err := id.Connect(ctx, addr, umode.Params{QP: s.qp}); err != nil {
		return err
	}
	times := make([]time.Duration, 0, n)
	for i := range n {
		copy(s.outgoing(), bytes.Repeat([]byte{byte(i)}, s.size))
		begin := time.Now()
		if err := s.send(s.size); err != nil {
			return err
		}
		if _, err := s.message(ctx); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
		if !bytes.Equal(s.incoming(), s.outgoing()) {
			return fmt.Errorf("message %d came back changed", i)
		}
		if err := s.await(); err != nil {
			return err
		}
	}
	slices.Sort(times)
	fmt.Fprintf(out, "%d messages of %d octets came back unchanged, each after %v (median)\n", n, s.size,
		times[n/2].Round(time.Microsecond))
	return id.Disconnect()
}
