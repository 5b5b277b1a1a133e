// Package buf is the frame pool of one event loop: a few size classes, grown
// only when frames are wanted and never beyond a bound.
package buf

import "tapir/wire/frame"

// The size classes, in octets of frame content behind the headroom: a frame
// without payload, such as an ARP packet or a TCP acknowledgement with a time
// stamp, a short message, an Ethernet frame of MTU 1500, one of MTU 9000, and
// a 64 KiB super-frame.
const (
	least  = 68 // with the headroom, 144 octets: a size that Go's allocator has
	tiny   = 256
	small  = 2 << 10
	middle = 10 << 10
	large  = 64<<10 + 512
)

// Pool lends frames. It is not safe for concurrent use: it belongs to one
// loop. The most recently released frame is lent first, because its bytes are
// still in the cache.
type Pool struct {
	classes []class
	lent    int
	bound   int
	memory  int
}

type class struct {
	size int // octets of the backing array, headroom included
	free []*frame.Frame
}

// NewPool returns a pool that lends at most frames frames at a time, each
// with room for up to size octets. No memory is taken before the first Get.
// A size of 0 means the largest class, 64 KiB and the headers around it.
func NewPool(frames, size int) *Pool {
	if size <= 0 {
		size = large
	}
	p := &Pool{bound: frames}
	for _, s := range []int{least, tiny, small, middle, large} {
		if s >= size {
			break
		}
		p.classes = append(p.classes, class{size: s + frame.DefaultHeadroom})
	}
	p.classes = append(p.classes, class{size: size + frame.DefaultHeadroom})
	return p
}

// Get returns an empty frame with the default headroom and room for size
// octets, or nil if the bound is reached or size is beyond the pool's largest
// class. The caller counts nil as frame.DropNoBuffer.
func (p *Pool) Get(size int) *frame.Frame {
	if p.lent >= p.bound {
		return nil
	}
	for i := range p.classes {
		c := &p.classes[i]
		if size+frame.DefaultHeadroom > c.size {
			continue
		}
		p.lent++
		if n := len(c.free); n > 0 {
			f := c.free[n-1]
			c.free = c.free[:n-1]
			f.Reset()
			return f
		}
		p.memory += c.size
		return frame.New(make([]byte, c.size), p)
	}
	return nil
}

// Put takes back a frame that Get lent. Frame.Release calls it; a second
// release of the same frame panics there.
func (p *Pool) Put(f *frame.Frame) {
	for i := range p.classes {
		if c := &p.classes[i]; f.Cap() == c.size {
			p.lent--
			c.free = append(c.free, f)
			return
		}
	}
	panic("buf: frame of a foreign pool")
}

// Trim forgets all but keep free frames of each class, so that a pool that
// was busy once does not hold its memory for ever.
func (p *Pool) Trim(keep int) {
	for i := range p.classes {
		c := &p.classes[i]
		if over := len(c.free) - keep; over > 0 {
			clear(c.free[keep:])
			c.free = c.free[:keep]
			p.memory -= over * c.size
		}
	}
}

// Lent is the number of frames that are out.
func (p *Pool) Lent() int { return p.lent }

// Memory is the number of octets held in frames, lent and free.
func (p *Pool) Memory() int { return p.memory }
