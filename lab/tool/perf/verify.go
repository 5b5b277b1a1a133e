package perf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// A verified exchange goes through every operation at every size. For each
// step the server says "placed" as soon as it learns that the data is in
// its memory, and then the SHA-256 of that memory. For a Read it is the
// client's memory that is hashed, and the server sends the hash of what was
// read.

// verifyOps are the operations in order.
var verifyOps = []struct {
	name   string
	opcode verbs.Opcode
}{
	{"Send/Recv", verbs.OpSend},
	{"RDMA Write", verbs.OpWrite},
	{"RDMA Read", verbs.OpRead},
}

// step numbers the combinations of operation and size.
type step int

func (s step) of(sizes []int) (op verbs.Opcode, name string, size int) {
	o := verifyOps[int(s)/len(sizes)]
	return o.opcode, o.name, sizes[int(s)%len(sizes)]
}

func steps(sizes []int) step { return step(len(verifyOps) * len(sizes)) }

// pause keeps filling and hashing memory out of what is timed: they do not
// delay the message that starts or stops the clock.
const pause = time.Millisecond

// pattern fills b with data that depends on seed and step (splitmix64).
func pattern(b []byte, seed uint64, s step) {
	x := seed ^ uint64(s+1)<<32
	var word [8]byte
	for len(b) > 0 {
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(word[:], z^z>>31)
		b = b[copy(b, word[:]):]
	}
}

// verifyClient drives the exchange.
type verifyClient struct {
	side
	at     step
	posted frame.Time
	took   time.Duration
	placed bool
	want   [sha256.Size]byte // hash of the source, where the client owns it
}

// prepare posts receives for "placed" and the hash.
func (v *verifyClient) prepare(c *conn) error { return c.recvCtl(2) }

func (v *verifyClient) begin(now frame.Time) error {
	v.ready(now)
	return nil
}

// ready fills the memory of the current step. The request is posted in an
// iteration of its own, so that its time begins when it is.
func (v *verifyClient) ready(now frame.Time) {
	r := v.run
	op, _, size := v.at.of(r.job.Sizes)
	if op == verbs.OpRead {
		clear(r.target())
	} else {
		pattern(r.source()[:size], r.seed, v.at)
		v.want = sha256.Sum256(r.source()[:size])
	}
	r.cancelPoller = r.dev.Schedule(now.Add(pause), func(now frame.Time) { r.check(v.post(now), now) })
}

// post starts the current step.
func (v *verifyClient) post(now frame.Time) error {
	r, c := v.run, v.run.conns[0]
	op, _, size := v.at.of(r.job.Sizes)
	v.placed, v.posted = false, now
	wr := verbs.SendWR{
		ID: idData, Opcode: op, SGEs: []verbs.SGE{r.sourceSGE(size)}, RemoteAddr: c.remote.Addr, RKey: c.remote.STag,
	}
	switch op {
	case verbs.OpRead:
		wr.SGEs[0] = r.targetSGE(size)
	case verbs.OpSend:
		wr.Flags = verbs.Solicited
	}
	if _, err := c.qp.PostSend(wr); err != nil {
		return err
	}
	if op == verbs.OpWrite {
		return c.sendCtl([]byte{byte(v.at)})
	}
	return nil
}

func (v *verifyClient) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	if wc.Opcode == verbs.WCRead {
		v.took = now.Sub(v.posted)
		return c.sendCtl([]byte{byte(v.at)})
	}
	if wc.Opcode != verbs.WCRecv {
		return nil
	}
	answer := bytes.Clone(v.run.ctl[:wc.ByteLen])
	if err := c.recvCtl(1); err != nil {
		return err
	}
	if !v.placed {
		v.placed = true
		if op, _, _ := v.at.of(v.run.job.Sizes); op != verbs.OpRead {
			v.took = now.Sub(v.posted)
		}
		return nil
	}
	v.check(answer)
	if v.at++; v.at < steps(v.run.job.Sizes) {
		v.ready(now)
		return nil
	}
	v.run.finish(nil, now)
	return nil
}

// check books the step. The answer is the server's hash: of the target for
// Send and Write, of the source for a Read.
func (v *verifyClient) check(answer []byte) {
	op, name, size := v.at.of(v.run.job.Sizes)
	got, want := answer, v.want[:]
	if op == verbs.OpRead {
		sum := sha256.Sum256(v.run.target()[:size])
		got, want = sum[:], answer
	}
	v.run.checked(name, size, v.took, got, want)
}

// checked books an operation with the hashes of its two ends.
func (r *Run) checked(operation string, size int, took time.Duration, got, want []byte) {
	r.checks = append(r.checks, Check{
		Operation: operation, Size: size, Elapsed: took, SHA256: hex.EncodeToString(got),
		Want: hex.EncodeToString(want), Verified: bytes.Equal(got, want),
	})
	r.moved(size)
}

// verifyServer owns the memory that is written to and read from.
type verifyServer struct {
	side
	at step
}

// prepare makes the memory ready for the current step and posts the receive
// that its message needs: the data itself, or the client's one octet.
func (v *verifyServer) prepare(c *conn) error {
	r := v.run
	op, _, size := v.at.of(r.job.Sizes)
	if op == verbs.OpRead {
		pattern(r.target()[:size], r.seed, v.at)
	} else {
		clear(r.target())
	}
	if op != verbs.OpSend {
		return c.recvCtl(1)
	}
	return c.recvData(1, size)
}

func (v *verifyServer) complete(c *conn, wc *verbs.WC, now frame.Time) error {
	if wc.Opcode != verbs.WCRecv {
		return nil
	}
	v.run.cancelPoller = v.run.dev.Schedule(now.Add(pause), func(now frame.Time) {
		v.run.check(v.answer(c), now)
	})
	return c.sendCtl(nil)
}

// answer sends the hash of the memory of the step, with the next step ready.
func (v *verifyServer) answer(c *conn) error {
	_, name, size := v.at.of(v.run.job.Sizes)
	sum := sha256.Sum256(v.run.target()[:size])
	pattern(v.run.source()[:size], v.run.seed, v.at)
	want := sha256.Sum256(v.run.source()[:size])
	v.run.checked(name, size, 0, sum[:], want[:])
	if v.at++; v.at < steps(v.run.job.Sizes) {
		if err := v.prepare(c); err != nil {
			return err
		}
	}
	return c.sendCtl(sum[:])
}

func (v *verifyServer) closed(frame.Time) error {
	if v.at < steps(v.run.job.Sizes) {
		return errEarly
	}
	return nil
}
