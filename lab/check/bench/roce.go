package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"tapir/lab/check/bench/result"
	"tapir/lab/conf/perfconf"
	"tapir/lab/host/process"
	"tapir/nic/buf"
	"tapir/nic/roce"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Names of the cases with RoCE, and of what is measured beside them.
const (
	roceJumbo     = "RoCE Write 1 MiB, path MTU 4096, jumbo"
	iwarpJumbo    = "Write 1 MiB jumbo, beside RoCE"
	roceWire      = "RoCE Write 1 MiB, path MTU 1024, wire 1500"
	iwarpWire     = "Write 1 MiB wire 1500, beside RoCE"
	roceLoss1000  = "RoCE Write 1 MiB, path MTU 1024, wire 1500, 0.1 % loss"
	roceLoss100   = "RoCE Write 1 MiB, path MTU 1024, wire 1500, 1 % loss"
	roceRate      = "RoCE Write 8 B rate"
	iwarpRate     = "Write 8 B rate, beside RoCE"
	rocePolled    = "RoCE Write 8 B polled"
	iwarpPolled   = "Write 8 B polled, beside RoCE"
	ibWriteRoCE   = "ib_write_bw 64 KiB over RoCE, path MTU 4096, jumbo"
	ucxPutRoCE    = "UCX put 64 KiB, beside RoCE"
	roceEngine    = "RoCE engine alone, packets"
	qpsIWARP      = "10,000 queue pairs"
	qpsRoCE       = "10,000 queue pairs, RoCE"
	manyPairs     = 10_000
	thousandthPPM = lossPPM / 10
)

// roceCases are NICs with RoCE, and with iWARP on the same TAPs.
func roceCases(gso, wire nicSetup) []*testCase {
	jumbo := nicSetup{mtu: bigMTU, frames: "jumbo", pins: apart}
	over := func(s nicSetup, loss int) nicSetup {
		return s.with(func(s *nicSetup) { s.roce, s.loss = true, loss })
	}
	freely := gso.with(func(s *nicSetup) { s.pins = free })
	writes := perfconf.Job{Op: perfconf.WriteBW, Size: mebi}
	small := perfconf.Job{Op: perfconf.WriteBW, Size: 8, Depth: 1024}
	polled := perfconf.Job{Op: perfconf.WriteLat, Size: 8}
	return []*testCase{
		nicCase(roceJumbo, over(jumbo, 0), writes),
		nicCase(iwarpJumbo, jumbo, writes),
		nicCase(iwarpWire, wire, writes),
		nicCase(roceWire, over(wire, 0), writes),
		nicCase(roceLoss1000, over(wire, thousandthPPM), writes),
		nicCase(roceLoss100, over(wire, lossPPM), writes),
		nicCase(roceRate, over(freely, 0), small),
		nicCase(iwarpRate, freely, small),
		nicCase(rocePolled, over(wire, 0), polled),
		nicCase(iwarpPolled, wire, polled),
		perftestCase(ibWriteRoCE, over(jumbo, 0), perftest{args: "ib_write_bw -x 3 -s 65536", iters: 8000}),
		ucxCase(ucxPutRoCE, "ucp_put_bw", 64<<10, 2000),
		roceEngineCase(roceEngine),
		idleCase(qpsIWARP, idleSpec{Pairs: manyPairs, Fair: true}),
		idleCase(qpsRoCE, idleSpec{Pairs: manyPairs, RoCE: true, Fair: true}),
	}
}

// roceRows compare them.
func roceRows() (rows []*row) {
	rows = []*row{
		{"roce", "RC Write 1 MiB, path MTU 4096, super-frames : iWARP, `jumbo`",
			roceJumbo, iwarpJumbo, gbps, "Gb/s", 0.6, 1, false},
		{"roce", "RC Write 1 MiB, path MTU 1024, `wire` : iWARP, `wire` 1500",
			roceWire, iwarpWire, gbps, "Gb/s", 0.55, 0.68, false},
		{"roce", "8 B Writes per second, `gso` : iWARP",
			roceRate, iwarpRate, rate, "M/s", 0.8, 1.2, false},
		{"roce", "Write 8 B ping-pong, polled : iWARP",
			rocePolled, iwarpPolled, latency, "µs", 1.1, 0.8, true},
		{"roce", "`ib_write_bw` 64 KiB (without `-R`), path MTU 4096, super-frames : UCX put over TCP",
			ibWriteRoCE, ucxPutRoCE, gbps, "Gb/s", 1.2, 2.5, false},
		{"roce", "RC Write 1 MiB, `wire`, 0.1 % loss : no loss",
			roceLoss1000, roceWire, gbps, "Gb/s", 0.7, 0.9, false},
		{"roce", "RC Write 1 MiB, `wire`, 1 % loss : no loss",
			roceLoss100, roceWire, gbps, "Gb/s", 0.25, 0.5, false},
		{"roce", "RoCE packets per second of CPU time, both engines in virtual time",
			roceEngine, "", rate, "M/s", 1, 2, false},
		{"roce", "allocations per packet", roceEngine, "", allocs, "", 0, 0, true},
	}
	for _, name := range []string{qpsIWARP, qpsRoCE} {
		rows = append(rows, &row{"qps", "memory of each of " + name, name, "", memory, "KiB", 64, 16, true},
			&row{"qps", "connections per second, " + name, name, "", perSecond, "/s", noLimit, noLimit, false},
			&row{"qps", "fairness of Writes in competition, Jain's index, " + name, name, "", fairness, "", noLimit,
				noLimit, false})
	}
	return rows
}

// rocePrograms is how a program that exchanges its queue pair numbers by a socket finds
// its peer: in the namespace of both.
const rocePrograms = "127.0.0.1"

// listensTCP waits until a socket of TCP listens in the namespace of a program.
func listensTCP(ctx context.Context, program *child) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return process.Until(ctx, func() (bool, error) {
		if program.HasEnded() {
			return false, errors.New("it has ended")
		}
		for _, table := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", program.PID(), table))
			if err != nil {
				return false, err
			}
			for l := range strings.Lines(string(text)) {
				if f := strings.Fields(l); len(f) > 3 && f[3] == "0A" { // LISTEN
					return true, nil
				}
			}
		}
		return false, nil
	})
}

// roceEngineCase is the RoCE engine alone, without a system call: two engines in virtual
// time, one packet per frame, both on this processor.
func roceEngineCase(name string) *testCase {
	return &testCase{name: name, run: func(_ context.Context, m *measurement) (sample, error) {
		p := &rocePair{now: 1, pool: buf.NewPool(4096, 0)}
		if err := p.connect(); err != nil {
			return sample{}, err
		}
		return p.measure(m.duration)
	}}
}

// rocePair hands packets from one engine to the other without a copy.
type rocePair struct {
	now  frame.Time
	pool *buf.Pool
	ends [2]*roceEnd
	wr   verbs.SendWR
}

// roceEnd is an engine with the packets that it has sent.
type roceEnd struct {
	engine *roce.Engine
	qp     *verbs.QP
	cq     *verbs.CQ
	mr     *verbs.MR
	sent   []*frame.Frame
}

// Room implements roce.Output.
func (e *roceEnd) Room() int { return cap(e.sent) - len(e.sent) }

// Transmit implements roce.Output.
func (e *roceEnd) Transmit(f *frame.Frame, _ *roce.Hop, _ frame.Time) { e.sent = append(e.sent, f) }

// open makes an end with the address i.
func (p *rocePair) open(i int) (err error) {
	e := &roceEnd{sent: make([]*frame.Frame, 0, 64)}
	p.ends[i] = e
	dev := verbs.NewDevice(verbs.Limits{}, rand.NewPCG(1, uint64(i)))
	dev.SetGIDs([]verbs.GIDEntry{{GID: roceGID(i), Type: verbs.RoCEv2}})
	e.engine = roce.New(dev, roce.Env{Pool: p.pool, Out: e, MTU: func() int { return rocePath },
		Segments: func() int { return 1 }})
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	if e.cq, err = dev.CreateCQ(64, nil); err != nil {
		return err
	}
	if e.mr, err = pd.RegMR(make([]byte, mebi), verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return err
	}
	e.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq})
	return err
}

// rocePath is the path MTU of Ethernet's 1500 octets.
const rocePath = 1024

func roceGID(i int) verbs.GID { return verbs.GIDFromAddr(netip.MustParseAddr(nicAddresses[i])) }

// connect joins two queue pairs, as their owners would.
func (p *rocePair) connect() error {
	for i := range p.ends {
		if err := p.open(i); err != nil {
			return err
		}
	}
	for i, e := range p.ends {
		far := p.ends[1-i]
		attr := qpattr.Attr{Path: qpattr.Path{DGID: roceGID(1 - i)}, PathMTU: rocePath, DestQPN: far.qp.QPN(),
			MaxDestRdAtomic: 1, MaxRdAtomic: 1, MinRNRTimer: 12, Timeout: 14, RetryCount: 7, RNRRetry: 7}
		err := errors.Join(e.qp.Modify(verbs.Init),
			e.qp.ModifyAttr(verbs.RTR, &attr, qpattr.AV|qpattr.PathMTU|qpattr.DestQPN|qpattr.RQPSN|
				qpattr.MaxDestRdAtomic|qpattr.MinRNRTimer),
			e.qp.ModifyAttr(verbs.RTS, &attr, qpattr.Timeout|qpattr.RetryCount|qpattr.RNRRetry|qpattr.SQPSN|
				qpattr.MaxRdAtomic))
		if err != nil {
			return err
		}
	}
	to, from := p.ends[1].mr, p.ends[0].mr
	p.wr = verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: to.Addr(), RKey: to.RKey(),
		SGEs: []verbs.SGE{{Addr: from.Addr(), Length: mebi, LKey: from.LKey()}}}
	return nil
}

// step lets 10 microseconds pass, and each end send and receive once.
func (p *rocePair) step() {
	p.now += 10_000
	for i, e := range p.ends {
		e.engine.Poll(p.now)
		for _, f := range e.sent {
			p.ends[1-i].engine.Receive(f.Bytes(), 0, ether.Tag{}, p.now)
			f.Release()
		}
		e.sent = e.sent[:0]
	}
}

// send writes 1 MiB n times.
func (p *rocePair) send(n int) error {
	for range n {
		if _, err := p.ends[0].qp.PostSend(p.wr); err != nil {
			return err
		}
	}
	var wcs [8]verbs.WC
	for steps := 0; n > 0; steps++ {
		p.step()
		for _, wc := range wcs[:p.ends[0].cq.Poll(wcs[:])] {
			if n--; wc.Status != verbs.StatusSuccess {
				return errors.New(wc.Status.String())
			}
		}
		if steps > 1_000_000 {
			return errors.New("the engines do not go on")
		}
	}
	return nil
}

// measure sends for d.
func (p *rocePair) measure(d time.Duration) (s sample, err error) {
	const burst = 8
	if err := p.send(burst); err != nil {
		return s, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	packets := p.ends[0].engine.Stats().PacketsOut
	begun := result.Thread()
	for wall := time.Now(); time.Since(wall) < d; {
		if err := p.send(burst); err != nil {
			return s, err
		}
	}
	took := result.Thread() - begun
	runtime.ReadMemStats(&after)
	sent := float64(p.ends[0].engine.Stats().PacketsOut - packets)
	return sample{rate: sent / took.Seconds(), allocs: float64(after.Mallocs-before.Mallocs) / sent}, nil
}
