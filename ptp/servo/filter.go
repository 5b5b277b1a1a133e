package servo

import (
	"fmt"
	"slices"

	"tapir/wire/enum"
	"tapir/wire/frame"
)

// Filter smooths measured delays, in any unit of which at most 2^48 occur.
type Filter interface {
	// Sample takes a delay and returns the one to be used.
	Sample(delay int64) int64
	// Reset forgets all samples.
	Reset()
}

// FilterKind names a filter of delays.
type FilterKind uint8

const (
	MovingMedian FilterKind = iota
	MovingAverage
)

var filterNames = [...]string{"moving_median", "moving_average"}

func (k FilterKind) String() string {
	return enum.Name(filterNames[:], k, "unknown")
}

// ParseFilter returns the filter called moving_median or moving_average.
func ParseFilter(name string) (FilterKind, error) {
	for i, n := range filterNames {
		if n == name {
			return FilterKind(i), nil
		}
	}
	return 0, fmt.Errorf("delay filter %q: there are moving_median and moving_average", name)
}

// DefaultFilterLength is linuxptp's: a median over ten samples.
const DefaultFilterLength = 10

// NewFilter returns a filter over the last length samples.
func NewFilter(kind FilterKind, length int) (Filter, error) {
	if length < 1 || length > 4096 {
		return nil, fmt.Errorf("delay filter: %d samples; 1 to 4096 are possible", length)
	}
	w := window{samples: make([]int64, 0, length)}
	switch kind {
	case MovingMedian:
		return &median{window: w, sorted: make([]int64, 0, length)}, nil
	case MovingAverage:
		return &average{window: w}, nil
	}
	return nil, fmt.Errorf("delay filter: kind %d", kind)
}

// window holds the last samples.
type window struct {
	samples []int64
	next    int
}

// push adds v and returns the sample that made room, if one had to.
func (w *window) push(v int64) (old int64, full bool) {
	if len(w.samples) < cap(w.samples) {
		w.samples = append(w.samples, v)
		return 0, false
	}
	old, w.samples[w.next] = w.samples[w.next], v
	w.next = (w.next + 1) % len(w.samples)
	return old, true
}

func (w *window) Reset() { w.samples, w.next = w.samples[:0], 0 }

type median struct {
	window
	sorted []int64
}

func (m *median) Sample(v int64) int64 {
	if old, full := m.push(v); full {
		i, _ := slices.BinarySearch(m.sorted, old)
		m.sorted = slices.Delete(m.sorted, i, i+1)
	}
	i, _ := slices.BinarySearch(m.sorted, v)
	m.sorted = slices.Insert(m.sorted, i, v)
	n := len(m.sorted)
	a, b := m.sorted[(n-1)/2], m.sorted[n/2]
	return a + (b-a)/2
}

func (m *median) Reset() {
	m.window.Reset()
	m.sorted = m.sorted[:0]
}

type average struct {
	window
	sum int64
}

func (a *average) Sample(v int64) int64 {
	old, _ := a.push(v)
	a.sum += v - old
	return a.sum / int64(len(a.samples))
}

func (a *average) Reset() {
	a.window.Reset()
	a.sum = 0
}

// Lucky lets one of each n packets pass, the one that was least delayed: over
// a network that queues, now and then a packet meets no queue.
type Lucky struct {
	n, seen int
	best    int64
	at      frame.Stamp
}

// NewLucky returns a filter that passes one of n packets.
func NewLucky(n int) (*Lucky, error) {
	if n < 1 {
		return nil, fmt.Errorf("lucky packet: one of %d", n)
	}
	return &Lucky{n: n}, nil
}

// Sample takes the difference of a packet's two time stamps and the time of
// its arrival. At the end of each window it returns those of the least
// delayed.
func (l *Lucky) Sample(diff int64, local frame.Stamp) (best int64, at frame.Stamp, ok bool) {
	if l.seen == 0 || diff < l.best {
		l.best, l.at = diff, local
	}
	if l.seen++; l.seen < l.n {
		return 0, 0, false
	}
	l.seen = 0
	return l.best, l.at, true
}

// Reset begins a new window.
func (l *Lucky) Reset() { l.seen = 0 }
