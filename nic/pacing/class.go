package pacing

// NumClasses is how many traffic classes a function can have.
const NumClasses = 8

// Class is what a traffic class may send (IEEE 802.1Q clause 8.6.8).
type Class struct {
	// Strict: the class goes before those that are not, and before strict ones with
	// lower numbers. Otherwise, Weight is its part next to those of the others, at
	// least 1.
	Strict bool
	Weight int
	Rate   int // at most, in Mb/s; 0: no limit
}

// Class is the node of a traffic class, 0 to 7, of a function's node.
func (n *Node) Class(tc int) *Node {
	for _, c := range n.children {
		if int(c.class) == tc+1 {
			return c
		}
	}
	c := n.Child(true)
	c.class = uint8(tc + 1)
	return c
}

// SetClass says what the node, that of a traffic class, may send.
func (n *Node) SetClass(c Class) {
	n.strict = 0
	if c.Strict {
		n.strict = n.class
	}
	n.SetWeight(int64(c.Weight))
	n.SetRate(c.Rate)
}
