// Package list keeps elements in a list whose links lie in the elements
// themselves: adding and removing cost the same however many there are, and
// allocate nothing.
package list

// List holds elements in the order in which they were added.
type List[T any] struct{ first, last *Node[T] }

// Node is the place of an element, which contains it, on one list.
type Node[T any] struct {
	Owner      *T // the element
	list       *List[T]
	prev, next *Node[T]
}

// Add puts the owner of n, which must not be on a list, at the end.
func (l *List[T]) Add(n *Node[T]) {
	n.list, n.prev = l, l.last
	if l.last != nil {
		l.last.next = n
	} else {
		l.first = n
	}
	l.last = n
}

// Remove takes the owner of n off its list, if it is on one.
func (n *Node[T]) Remove() {
	l := n.list
	if l == nil {
		return
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	n.list, n.prev, n.next = nil, nil, nil
}

// Listed tells whether n is on a list.
func (n *Node[T]) Listed() bool { return n.list != nil }

// First returns the node that was added before all others, or nil.
func (l *List[T]) First() *Node[T] { return l.first }

// All yields the elements in order. The one yielded may be removed meanwhile.
func (l *List[T]) All(yield func(*T) bool) {
	for n := l.first; n != nil; {
		next := n.next
		if !yield(n.Owner) {
			return
		}
		n = next
	}
}
