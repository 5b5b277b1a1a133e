package bmca

// maxPrimaryClass is the last clockClass of a clock that is never a slave.
const maxPrimaryClass = 127

// Decision is the recommended state of a port, by its code in IEEE 1588
// figure 33.
type Decision uint8

const (
	Listen Decision = iota // nothing was heard, and the port is listening: it stays so
	M1                     // grandmaster, by its own clockClass
	M2                     // grandmaster, better than everything heard
	M3                     // master towards those who hear of no better clock
	S1                     // slave: the best clock was heard here
	P1                     // passive: a better clock was heard here, and this one is never a slave
	P2                     // passive: the best clock's other way is shorter only by topology
)

var decisionNames = [...]string{"none", "M1", "M2", "M3", "S1", "P1", "P2"}

func (d Decision) String() string { return decisionNames[d] }

// Decide is the state decision algorithm (IEEE 1588 figure 33). own is D0,
// the clock's own data set; best is Ebest, the best of all ports' bests;
// portBest is Erbest of the port, nil if it heard nothing; listening tells
// that the port is in the state LISTENING.
func (alg Algorithm) Decide(own, best, portBest *Dataset, listening bool) Decision {
	if portBest == nil && listening {
		return Listen
	}
	if own.Quality.Class >= 1 && own.Quality.Class <= maxPrimaryClass {
		if alg.Compare(own, portBest) > 0 {
			return M1
		}
		return P1
	}
	switch {
	case alg.Compare(own, best) > 0:
		return M2
	case best == portBest:
		return S1
	case alg.Compare(best, portBest) == ABetterByTopology:
		return P2
	}
	return M3
}
