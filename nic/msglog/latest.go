package msglog

// Latest keeps the latest values of a series and numbers all from 0.
type Latest[T any] struct {
	ring []T
	next uint64
}

// Next is the number of the value to come.
func (l *Latest[T]) Next() uint64 { return l.next }

// Add keeps v, and most values in all.
func (l *Latest[T]) Add(v T, most int) {
	if len(l.ring) < most {
		l.ring = append(l.ring, v)
	} else {
		l.ring[l.next%uint64(most)] = v
	}
	l.next++
}

// Since returns the values kept from number seq on, in order.
func (l *Latest[T]) Since(seq uint64) []T {
	first := max(seq, l.next-uint64(len(l.ring)))
	list := make([]T, 0, max(first, l.next)-first)
	for n := first; n < l.next; n++ {
		list = append(list, l.ring[n%uint64(len(l.ring))])
	}
	return list
}
