package recovery

// tailProbe is the state of a tail loss probe (RFC 8985 section 7): when
// acknowledgements stop although the peer should have answered, the last
// segment is sent again, so that its SACK tells what is missing.
type tailProbe struct {
	end      uint64 // end of the probe in flight; 0: none
	spurious bool   // a D-SACK told that the peer had the segment before
}

// MayProbe reports whether a probe may help. A single segment is left to the
// timeout, because its acknowledgement may be delayed for as long. In fast
// recovery, too, a probe may go out: where one acknowledgement answers a whole
// window, nothing else would make up for its loss.
func (b *Scoreboard) MayProbe() bool {
	return b.SACK && b.Phase != Timeout && b.probe.end == 0 && b.RTT.Smoothed > 0 && b.segs.n > 1
}

// Probe makes the last segment that the peer has not reported due again. It
// returns false if there is none.
func (b *Scoreboard) Probe() bool {
	for i := b.segs.n - 1; i >= 0; i-- {
		s := b.segs.at(i)
		if s.Flags&(Sacked|Lost) != 0 {
			continue
		}
		b.setLost(s)
		b.force = true
		b.probe = tailProbe{end: s.End()}
		return true
	}
	return false
}

// probeAcked ends the probe once SND.UNA has passed it, and reports whether it
// repaired a loss that nothing else has shown (RFC 8985 section 7.4).
func (b *Scoreboard) probeAcked() (repaired bool) {
	if b.probe.end == 0 || b.una < b.probe.end {
		return false
	}
	repaired = b.Phase == Open && !b.probe.spurious
	b.probe = tailProbe{}
	return repaired
}
