package fastlinq

import (
	"tapir/nic/dcb"
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// bufferFrames bounds the frames of a buffer, whatever its size, brbFrames those of all.
const (
	bufferFrames = 512
	brbFrames    = 1024
)

// brb is the packet buffer of a port (BRB): frames wait there, those of each priority or of
// several by themselves, while the receive queues of the operating system are full. Buffers
// take turns.
type brb struct {
	queues [dcb.Classes]frame.Queue
	octets [dcb.Classes]int
	size   [dcb.Classes]int // in octets, as of the last push
	n      int
	turn   int
	report pacing.Buffers
}

// push takes a frame into a buffer of a size in octets; false: there is no room.
func (b *brb) push(f *frame.Frame, buffer uint8, size int) bool {
	if b.n == brbFrames || b.octets[buffer]+f.Len() > size || !b.queues[buffer].Push(f, bufferFrames) {
		b.report.Discards[buffer]++
		return false
	}
	b.size[buffer] = size
	b.n++
	b.octets[buffer] += f.Len()
	b.note(int(buffer))
	return true
}

func (b *brb) note(i int) {
	b.report.Fill[i] = max(b.octets[i]*pacing.Full/b.size[i], b.queues[i].Len()*pacing.Full/bufferFrames)
}

// pop is the next frame; there is one.
func (b *brb) pop() *frame.Frame {
	for b.turn = (b.turn + 1) % len(b.queues); b.queues[b.turn].Len() == 0; {
		b.turn = (b.turn + 1) % len(b.queues)
	}
	f := b.queues[b.turn].Pop()
	b.n--
	b.octets[b.turn] -= f.Len()
	b.note(b.turn)
	return f
}

// len is how many frames wait.
func (b *brb) len() int {
	if b == nil {
		return 0
	}
	return b.n
}
