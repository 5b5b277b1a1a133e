package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/nic/umode"
	"tapir/nic/verbs"
)

// umodeCase is a ping-pong of Writes between two processes that open the NICs
// of others: each sleeps until its completion channel wakes it.
func umodeCase(name string, set nicSetup) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (s sample, err error) {
		nics, err := m.serve(ctx, &set)
		if err != nil {
			return s, err
		}
		defer nics.stop()
		cr, sr, err := m.pair(ctx, set.pins, "umode", func(i int) any {
			return umodeSpec{set.nicName(i), i == 1, m.duration}
		})
		return combine(cr, sr), err
	})
}

const (
	umodePort = 5003
	umodeSize = 8 // octets of a Write
	umodeRing = 64
)

// writer is one end.
type writer struct {
	nic          *umode.Context
	sends, recvs *umode.CQ
	qp           *umode.QP
	mr           *umode.MR
	rkey         uint32
	addr         uint64
	posted       uint64

	// Used again and again, so that nothing is allocated.
	send [1]verbs.SendWR
	recv [1]verbs.RecvWR
	done [2]umode.WC
}

// umodeSpec is one end of a ping-pong.
type umodeSpec struct {
	NIC      string
	Server   bool
	Duration time.Duration
}

func umodeChild(ctx context.Context, spec *umodeSpec) error {
	w, err := newWriter(spec.NIC)
	if err != nil {
		return err
	}
	defer w.nic.Close()
	cpu := result.CPU()
	var r result.Result
	if spec.Server {
		err = w.serve(ctx)
	} else {
		r, err = w.measure(ctx, spec.Duration)
	}
	if err != nil {
		return err
	}
	r.CPU = result.CPU() - cpu
	return r.Print()
}

func newWriter(name string) (w *writer, err error) {
	w = &writer{}
	if w.nic, err = umode.Open(name, umode.Options{}); err != nil {
		return nil, err
	}
	pd, err := w.nic.AllocPD()
	memory, err2 := w.nic.Alloc(4096)
	channel, err3 := w.nic.CreateCompChannel()
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	w.mr, err = pd.RegMR(memory, verbs.LocalWrite|verbs.RemoteWrite)
	w.recvs, err2 = w.nic.CreateCQ(2*umodeRing, channel)
	w.sends, err3 = w.nic.CreateCQ(2*umodeRing, nil)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	w.qp, err = pd.CreateQP(umode.QPConfig{SendCQ: w.sends, RecvCQ: w.recvs, MaxSend: 2 * umodeRing, MaxRecv: umodeRing,
		MaxInline: umodeSize})
	if err != nil {
		return nil, err
	}
	for range umodeRing {
		err = errors.Join(err, w.receive())
	}
	return w, err
}

func (w *writer) receive() error {
	_, err := w.qp.PostRecv(w.recv[:]...)
	return err
}

// target tells the peer where to write.
func (w *writer) target() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, w.mr.RKey()), w.mr.Addr())
}

func (w *writer) aim(private []byte) error {
	if len(private) < 12 {
		return errors.New("the peer does not say where to write")
	}
	w.rkey, w.addr = binary.BigEndian.Uint32(private), binary.BigEndian.Uint64(private[4:])
	return nil
}

// write writes once. Now and then it looks at what has completed.
func (w *writer) write() error {
	w.send[0] = verbs.SendWR{Opcode: verbs.OpWriteImm, Flags: verbs.Inline, Inline: w.mr.Bytes()[:umodeSize],
		RKey: w.rkey, RemoteAddr: w.addr}
	if w.posted++; w.posted%umodeRing == 0 {
		w.send[0].Flags |= verbs.Signaled
		if _, err := w.sends.Poll(w.done[:]); err != nil {
			return err
		}
	}
	_, err := w.qp.PostSend(w.send[:]...)
	return err
}

// await waits for the peer's next Write; false: there are no more.
func (w *writer) await(ctx context.Context) (more bool, err error) {
	wc, err := w.recvs.Next(ctx)
	switch {
	case err != nil:
		return false, err
	case wc.Status == verbs.StatusFlushed:
		return false, nil
	case wc.Status != verbs.StatusSuccess || wc.ByteLen != umodeSize:
		return false, fmt.Errorf("a Write of %d octets: %v", wc.ByteLen, wc.Status)
	}
	return true, w.receive()
}

func (w *writer) serve(ctx context.Context) error {
	l, err := w.nic.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), umodePort), 1)
	if err != nil {
		return err
	}
	result.Ready()
	id, err := l.Request(ctx)
	if err == nil {
		err = w.aim(id.PrivateData())
	}
	if err == nil {
		err = id.Accept(ctx, umode.Params{QP: w.qp, PrivateData: w.target()})
	}
	for more := true; err == nil && more; {
		if more, err = w.await(ctx); more && err == nil {
			err = w.write()
		}
	}
	return err
}

func (w *writer) measure(ctx context.Context, d time.Duration) (r result.Result, err error) {
	id, err := w.nic.NewID()
	if err == nil {
		err = id.Connect(ctx, netip.AddrPortFrom(netip.MustParseAddr(nicAddresses[1]), umodePort),
			umode.Params{QP: w.qp, PrivateData: w.target()})
	}
	if err == nil {
		err = w.aim(id.PrivateData())
	}
	if err != nil {
		return r, err
	}
	result.Ready()
	r, err = roundTrips(d, func() error {
		if err := w.write(); err != nil {
			return err
		}
		if more, err := w.await(ctx); err != nil || !more {
			return errors.Join(err, errors.New("the server has left"))
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	r.Bytes = r.Messages * umodeSize
	return r, id.Disconnect()
}
