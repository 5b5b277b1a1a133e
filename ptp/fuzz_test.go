package ptp

import (
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"

	"pgregory.net/rapid"
)

// live are instances in the midst of their work: a slave, a master, a boundary
// clock of IEEE 802.1AS and a telecom slave.
func live(t testing.TB) (*world, []*node) {
	w, master, slave := pair(t, nil)
	w.run(3 * time.Second)
	w2, nodes := chain(t, GPTP, 1, nil)
	w2.run(3 * time.Second)
	w3, _, telecom := pairOf(t, G8275x1, func(m, s *Config) { s.PathTrace, s.SlaveOnly = true, true })
	w3.run(3 * time.Second)
	return w, []*node{slave, master, nodes[1], telecom}
}

// FuzzReceive gives live instances any octets, whole or behind a good header,
// and lets time pass.
func FuzzReceive(f *testing.F) {
	for _, kind := range []msg.Type{msg.Sync, msg.FollowUp, msg.DelayReq, msg.DelayResp, msg.PdelayReq, msg.PdelayResp, msg.PdelayRespFollowUp, msg.Announce, msg.Signaling, msg.Management} {
		m := msg.Message{Header: msg.Header{Type: kind, Source: msg.PortIdentity{Clock: id(1), Port: 1}, Sequence: 20}, Port: msg.PortIdentity{Clock: id(2), Port: 1}}
		m.TLVs = msg.AppendPathTrace(nil, nil, id(5))
		f.Add(m.Append(nil), uint8(0), int64(epoch), uint16(20), true)
		m.SdoID, m.Flags = 0x100, msg.FlagTwoStep|msg.FlagUnicast
		f.Add(m.Append(nil), uint8(2), int64(-1), uint16(2000), true)
	}
	f.Add([]byte{0xff}, uint8(1), int64(0), uint16(0), false)
	_, nodes := live(f)
	f.Fuzz(func(t *testing.T, b []byte, which uint8, stamp int64, wait uint16, stamped bool) {
		n := nodes[which%4]
		n.w.t = t
		n.samples, n.states = n.samples[:0], n.states[:0]
		n.w.queue, n.w.quiet = n.w.queue[:0], true
		n.Receive(int(which>>2)%len(n.ports), b, Meta{Stamp: frame.Stamp(stamp), Stamped: stamped, Now: n.w.now})
		at := n.Poll(n.w.now)
		if at < n.w.now {
			t.Fatalf("Poll at %d wants to be called at %d", n.w.now, at)
		}
		n.w.now += frame.Time(wait) * frame.Time(time.Millisecond)
		n.TxStamp(0, uint64(wait), frame.Stamp(stamp), nil, n.w.now)
		n.Poll(n.w.now)
		for _, p := range n.ports {
			if p.foreign.Len() > 16 || p.n > len(p.answers) || len(n.outbox) > maxOutbox {
				t.Fatalf("%d masters, %d answers", p.foreign.Len(), p.n)
			}
		}
		n.Snapshot()
	})
}

// TestProperties plays random histories of loss, delay, duplication, lost
// stamps, steps and management on a chain of clocks, then lets it rest: always
// the ports' states fit together, and in the end all follow one grandmaster.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := rapid.SampledFrom([]Profile{DefaultE2E, DefaultP2P, GPTP, G8275x1}).Draw(rt, "profile")
		w, nodes := chain(t, p, 1, func(i int, c *Config) {
			c.Servo.Step = 20_000
			for k := range c.Ports {
				c.Ports[k].FaultReset = 500 * time.Millisecond
			}
		})
		w.quiet = true
		for range rapid.IntRange(1, 8).Draw(rt, "events") {
			n := nodes[rapid.IntRange(0, 2).Draw(rt, "node")]
			e := n.ends[rapid.IntRange(0, len(n.ends)-1).Draw(rt, "end")]
			kind := rapid.SampledFrom([]msg.Type{msg.Sync, msg.FollowUp, msg.DelayReq, msg.DelayResp, msg.PdelayReq, msg.PdelayResp, msg.Announce}).Draw(rt, "kind")
			count := rapid.IntRange(1, 10).Draw(rt, "count")
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				e.alter = only(kind, 1, count, fate{drop: true})
			case 1:
				e.alter = only(kind, 1, count, fate{twice: true})
			case 2:
				e.alter = only(kind, 1, count, fate{late: time.Duration(count) * 10 * time.Millisecond})
			case 3:
				e.stamp = onlyStamp(kind, 1, 1, stampFate{lost: true})
			case 4:
				_ = n.phc.AdjTime(w.now, time.Duration(count-5)*time.Second)
			case 5:
				n.Set(msg.IDPriority1, 0, &msg.Octet{Value: uint8(120 + count)}, w.now)
				n.poll()
			}
			w.run(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "ms")) * time.Millisecond)
			check(rt, nodes)
		}
		for _, n := range nodes {
			for _, e := range n.ends {
				e.alter, e.stamp = nil, nil
			}
		}
		w.run(40 * time.Second)
		check(rt, nodes)
		gms := 0
		for _, n := range nodes {
			if n.slavePort == nil {
				gms++
			} else if !n.Locked() || n.parent.Grandmaster.Identity != nodes[0].parent.Grandmaster.Identity {
				rt.Fatalf("%s follows %v\n%s", n.name, n.parent.Grandmaster.Identity, w.dump())
			}
		}
		if gms != 1 {
			rt.Fatalf("%d grandmasters\n%s", gms, w.dump())
		}
	})
}

// check tells what can never be.
func check(t *rapid.T, nodes []*node) {
	for _, n := range nodes {
		slaves := 0
		for _, p := range n.ports {
			following := p.state == msg.StateSlave || p.state == msg.StateUncalibrated
			if following {
				slaves++
			}
			if following != (n.slavePort == p) {
				t.Fatalf("%s port %d: %v, but the slave port is %v", n.name, p.index+1, p.state, n.slavePort)
			}
			if p.state == msg.StateMaster && p.timers[announceTimer] == frame.Never {
				t.Fatalf("%s port %d: a master that does not announce", n.name, p.index+1)
			}
			if p.state != msg.StateMaster && p.timers[syncTimer] != frame.Never {
				t.Fatalf("%s port %d: Syncs in %v", n.name, p.index+1, p.state)
			}
		}
		if slaves > 1 {
			t.Fatalf("%s: %d slave ports", n.name, slaves)
		}
	}
}
