package cmt

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"tapir/nic/buf"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/nicdrop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

var own = ether.Addr{2, 0, 0, 0, 0, 1}

// tcpFrame is a TCP segment between two ports.
func tcpFrame(pool frame.Pool, src, dst uint16) *frame.Frame {
	f := pool.Get(100)
	eth := ether.Header{Dst: own, Src: ether.Addr{2, 0, 0, 0, 0, 9}, Type: ether.TypeIPv4}
	eth.Put(f.Extend(eth.Len()))
	b := f.Extend(40)
	clear(b)
	b[0], b[8], b[9] = 0x45, 64, ip.ProtoTCP
	binary.BigEndian.PutUint16(b[2:], 40)
	copy(b[12:], []byte{10, 0, 0, 2, 10, 0, 0, 1})
	binary.BigEndian.PutUint16(b[20:], src)
	binary.BigEndian.PutUint16(b[22:], dst)
	b[32] = 5 << 4
	return f
}

func key(chance *rand.Rand) (k [l2.KeyLen]byte) {
	for i := range k {
		k[i] = byte(chance.Uint32())
	}
	return k
}

// blocks are status blocks, one for each queue pair.
func blocks(queues int) (list []uint16) {
	for i := range queues {
		list = append(list, uint16(i))
	}
	return list
}

// netdev opens one engine's half with so many queues.
func netdev(t *testing.T, pool frame.Pool, s qede.Settings) *qede.Netdev {
	var n *qede.Netdev
	var err error
	n, err = qede.New(l2.Config{Pool: pool, Fire: func(sb uint16, pi uint8) {
		if pi == 0 { // of receiving
			n.Schedule(int(sb))
		}
	}}, nil, blocks(s.Queues), s)
	if err == nil {
		err = n.Apply(s, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type sink struct{ queues []int }

func (s *sink) Room() int { return 1000 }
func (s *sink) Transmit(f *frame.Frame) {
	s.queues = append(s.queues, int(f.Queue))
	f.Release()
}

// Two engines, each with its half of the table, bring every flow to the queue
// that one engine with all of it does, for any number of queues and any table.
//
// CM-05 CM-06 CM-10
func TestSameQueueAsOneEngine(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	pool := buf.NewPool(4096, 2048)
	for _, queues := range []int{1, 2, 3, 4, 5, 31, 32} {
		for _, random := range []bool{false, true} {
			s := qede.Settings{MAC: own, MTU: 1500, Queues: queues, RxRing: 256, TxRing: 256, Hashes: l2.DefaultHash, Key: key(chance)}
			if random {
				for range l2.TableLen {
					s.Table = append(s.Table, chance.IntN(queues))
				}
			}
			one := netdev(t, pool, s)
			halves := [Engines]*qede.Netdev{}
			for e := range halves {
				half := Settings(s, one.Table(), e)
				if len(half.Table) != 64 {
					t.Fatalf("a half has %d entries", len(half.Table))
				}
				halves[e] = netdev(t, pool, half)
			}
			steer := NewSteering(newLLH(t, 1))
			steer.SetHash(s.Key, s.Hashes)
			for range 300 {
				src, dst := uint16(1+chance.IntN(60000)), uint16(1+chance.IntN(60000))
				var want, got sink
				if r := one.Receive(tcpFrame(pool, src, dst)); r != frame.DropNone {
					t.Fatal(r)
				}
				one.Deliver(&want)
				f := tcpFrame(pool, src, dst)
				e, r := steer.Engine(f)
				if r == frame.DropNone {
					r = halves[e].Receive(f)
				}
				if r != frame.DropNone {
					t.Fatal(r)
				}
				halves[e].Deliver(&got)
				if len(got.queues) != 1 || got.queues[0] != want.queues[0] {
					t.Fatalf("%d queues: %d to %d comes to %v of engine %d, with one engine to %v", queues, src, dst, got.queues, e, want.queues)
				}
			}
			if n := steer.Stats().Frames; n[0] < 80 || n[1] < 80 || n[0]+n[1] != 300 {
				t.Errorf("%d queues: the engines get %v of 300", queues, n)
			}
		}
	}
	if pool.Lent() != 0 {
		t.Errorf("%d frames lost", pool.Lent())
	}
}

// Hardware queues alternate between the engines.
//
// CM-05
func TestQueueNumbers(t *testing.T) {
	for h := range 64 {
		if e, l := Hwfn(h), Local(h); e != h%2 || l != h/2 || Queue(e, l) != h {
			t.Errorf("queue %d is queue %d of engine %d", h, l, e)
		}
	}
}

// What is pinned goes to its engine, or nowhere if that has failed; what the
// hash decides goes to the other then, and back when it is there again.
//
// CM-07
func TestSteering(t *testing.T) {
	pool := buf.NewPool(16, 2048)
	llh := newLLH(t, 2)
	if err := llh.SetPPFIDAffinity(1, Engine1); err != nil {
		t.Fatal(err)
	}
	if err := llh.AddFilter(1, Filter{Kind: FilterTCPDst, DstPort: 3260}); err != nil {
		t.Fatal(err)
	}
	s := NewSteering(llh)
	s.SetHash(key(rand.New(rand.NewPCG(5, 6))), l2.DefaultHash)
	run := func(dst uint16) (n [Engines]int, dropped int) {
		for src := range uint16(64) {
			f := tcpFrame(pool, 1000+src, dst)
			if e, r := s.Engine(f); r == frame.DropNone {
				n[e]++
			} else if dropped++; r != nicdrop.Engine {
				t.Error(r)
			}
			f.Release()
		}
		return n, dropped
	}
	if n, d := run(3260); n != [2]int{0, 64} || d != 0 {
		t.Errorf("pinned: %v, %d dropped", n, d)
	}
	before, d := run(80)
	if before[0] < 16 || before[1] < 16 || d != 0 {
		t.Errorf("by the hash: %v, %d dropped", before, d)
	}
	s.SetFailed(1, true)
	if n, d := run(80); n != [2]int{64, 0} || d != 0 || s.Stats().Resteered != uint64(before[1]) {
		t.Errorf("with engine 0 alone: %v, %d dropped, %d resteered", n, d, s.Stats().Resteered)
	}
	if n, d := run(3260); n != [2]int{} || d != 64 {
		t.Errorf("pinned to an engine that has failed: %v, %d dropped", n, d)
	}
	s.SetFailed(0, true)
	if n, d := run(80); n != [2]int{} || d != 64 {
		t.Errorf("without engines: %v, %d dropped", n, d)
	}
	s.SetFailed(0, false)
	s.SetFailed(1, false)
	if n, d := run(80); n != before || d != 0 {
		t.Errorf("after the recovery: %v, %d dropped", n, d)
	}
	st := s.Stats()
	if st.Frames[0]+st.Frames[1]+st.Dropped != 6*64 || st.Pinned != 64 {
		t.Errorf("%+v", st)
	}
	f := tcpFrame(pool, 1, 2)
	if n := testing.AllocsPerRun(100, func() { s.Engine(f) }); n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}
