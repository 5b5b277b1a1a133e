package inspect

import (
	"hash/fnv"
	"slices"
)

// views knows what is the same in a lab's capture, where a frame is seen at
// several link ends. Each end is replayed by itself, as a capture made there;
// the flows of the first one are reported.
type views struct {
	count map[viewKey]int   // flows so far, by end
	flows map[viewKey]*Flow // the first sights; without an end
	nth   map[findingKey]int
	known map[findingKey]bool
}

// viewKey is the nth flow between two addresses at an end.
type viewKey struct {
	end, protocol, a, b string
	nth                 int
}

// findingKey is the nth violation of a kind in a frame, of a flow or a sight
// of it.
type findingKey struct {
	flow   *Flow
	end    string // if there is no flow
	rule   *Rule
	detail string
	frame  uint64 // hash of its octets; 0: of an earlier one
	nth    int
}

func newViews() views {
	return views{map[viewKey]int{}, map[viewKey]*Flow{}, map[findingKey]int{}, map[findingKey]bool{}}
}

// atEnd notes that packets are of a link end.
func (i *Inspector) atEnd(end string) {
	if end != "" && !slices.Contains(i.report.Ends, end) {
		i.report.Ends = append(i.report.Ends, end)
	}
}

// addFlow reports f, which begins with p, unless it is another sight of one.
func (i *Inspector) addFlow(p *Packet, f *Flow) {
	if p.End != "" {
		k := viewKey{end: p.End, protocol: f.Protocol, a: f.A, b: f.B}
		n := i.views.count[k]
		i.views.count[k]++
		k.end, k.nth = "", n
		if first := i.views.flows[k]; first != nil {
			f.of, f.Number = first, first.Number
			first.Ends = append(first.Ends, p.End)
			return
		}
		i.views.flows[k] = f
		f.Ends = []string{p.End}
	}
	i.report.Flows = append(i.report.Flows, f)
}

// first is the flow of which f is a sight.
func (f *Flow) first() *Flow {
	if f.of != nil {
		return f.of
	}
	return f
}

// seenBefore tells whether another end of a lab has shown the same violation.
func (i *Inspector) seenBefore(r *Rule, packet int, f *Flow, detail string) bool {
	if i.hand == nil || i.hand.End == "" {
		return false
	}
	k := findingKey{flow: f, rule: r, detail: detail}
	if f == nil {
		k.end = i.hand.End
	}
	if i.hand.Number == packet {
		k.frame = hash(i.hand.Data)
	}
	n := i.views.nth[k]
	i.views.nth[k]++
	k.nth, k.end = n, ""
	if f != nil {
		k.flow = f.first()
	}
	known := i.views.known[k]
	i.views.known[k] = true
	return known
}

// hash is that of a frame's octets.
func hash(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}
