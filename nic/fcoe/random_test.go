package fcoe

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/nic/scsi"
	"tapir/wire/ether"
	"tapir/wire/fcoe"
	"tapir/wire/frame"
)

// TestRandomOperations: 10,000 reads, writes, unmaps and flushes, up to eight at a time, while one
// frame of a hundred is lost, another has a wrong bit, and a beacon or two are missed. Each read gets
// what a model of the disk holds, and so does the disk in the end.
func TestRandomOperations(t *testing.T) {
	const blocks, most, deep, operations = 2048, 24, 8, 10_000
	w, i, _ := pair(t, blocks*512)
	r := rand.New(rand.NewPCG(25, 3))
	lost := 0
	w.spoil = func(h ether.Header, body []byte) bool {
		if h.Type != fcoe.EtherType {
			return r.IntN(20) == 0
		}
		switch r.IntN(200) {
		case 0, 1:
			lost++
			return true
		case 2, 3:
			lost++
			body[r.IntN(len(body))] ^= 1 << r.IntN(8)
		}
		return false
	}
	model := make([]byte, blocks*512)
	var used [blocks]bool // by commands that are outstanding
	done, out, reads := 0, 0, 0
	var next func()
	start := func() bool {
		lba, n := r.IntN(blocks), 1+r.IntN(most)
		n = min(n, blocks-lba)
		for _, u := range used[lba : lba+n] {
			if u {
				return false
			}
		}
		q := random(r, lba, n)
		for k := range n {
			used[lba+k] = true
		}
		out++
		q.Done = func(q *Request, _ frame.Time) {
			if q.Err != nil || q.Status != scsi.Good {
				t.Fatalf("%x: %v, status %v, sense %x", q.CDB, q.Err, q.Status, q.Sense)
			}
			at := model[lba*512 : (lba+n)*512]
			switch q.CDB[0] {
			case 0x8a:
				copy(at, q.Out)
			case 0x42:
				clear(at)
			case 0x88:
				if reads++; !bytes.Equal(q.In, at) {
					t.Fatalf("blocks %d to %d are not what was written", lba, lba+n)
				}
			}
			for k := range n {
				used[lba+k] = false
			}
			out, done = out-1, done+1
			next()
		}
		i.target().Submit(q, w.now)
		i.awake = true
		return true
	}
	next = func() {
		for tries := 0; out < deep && done+out < operations && tries < 100; tries++ {
			if i.target() == nil {
				return
			}
			start()
		}
	}
	next()
	w.run(24*time.Hour, func() bool {
		if out == 0 && done < operations {
			next()
		}
		return done == operations
	})
	w.spoil = nil
	for lba := 0; lba < blocks; lba += 64 {
		q := i.command(rw(0x88, uint32(lba), 64*512))
		if !bytes.Equal(q.In, model[lba*512:(lba+64)*512]) {
			t.Errorf("block %d and those behind it differ in the end", lba)
		}
	}
	if s := i.Stats(); lost < 500 || reads < 3000 || s[Retries] < 100 || s[AbortsSent] < 100 {
		t.Errorf("%d frames lost or spoilt, %d reads, %d retries, %d aborts", lost, reads, s[Retries], s[AbortsSent])
	}
}

// random is a command on n blocks from lba on.
func random(r *rand.Rand, lba, n int) *Request {
	var q *Request
	switch r.IntN(20) {
	case 0: // SYNCHRONIZE CACHE(16)
		q = &Request{}
		q.CDB[0] = 0x91
		binary.BigEndian.PutUint32(q.CDB[6:], uint32(lba))
		binary.BigEndian.PutUint32(q.CDB[10:], uint32(n))
	case 1, 2: // UNMAP
		q = &Request{Out: make([]byte, 24)}
		q.CDB[0], q.CDB[8] = 0x42, 24
		q.Out[1], q.Out[3] = 22, 16
		binary.BigEndian.PutUint64(q.Out[8:], uint64(lba))
		binary.BigEndian.PutUint32(q.Out[16:], uint32(n))
	case 3, 4, 5, 6, 7, 8, 9, 10:
		q = rw(0x8a, uint32(lba), n*512)
		for k := range q.Out {
			q.Out[k] = byte(r.Uint32())
		}
	default:
		q = rw(0x88, uint32(lba), n*512)
	}
	return q
}
