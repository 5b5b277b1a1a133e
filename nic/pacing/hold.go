package pacing

import (
	"time"

	"tapir/wire/frame"
)

// Hold is how the other end of a cable keeps a priority from being sent, by PFC frames (IEEE
// 802.1Q-2018 clause 36).
type Hold struct {
	// Until is when frames of the priority may leave again.
	Until frame.Time
	// Frames counts PFC frames with the priority, Transitions those that began a pause.
	Frames, Transitions uint64

	since frame.Time
	total time.Duration // up to since
}

// Set takes in a PFC frame that keeps the priority from being sent for a time; 0 ends that.
func (h *Hold) Set(d time.Duration, now frame.Time) {
	h.Frames++
	if h.Until <= now && d > 0 {
		h.Transitions++
	}
	h.total = h.Lasted(now)
	h.since, h.Until = now, now.Add(d)
}

// Settle takes in that time has passed.
func (h *Hold) Settle(now frame.Time) { h.total, h.since = h.Lasted(now), max(h.since, now) }

// Total is how long the priority was kept from being sent up to the last Set or Settle.
func (h *Hold) Total() time.Duration { return h.total }

// Lasted is how long the priority was kept from being sent until now.
func (h *Hold) Lasted(now frame.Time) time.Duration {
	return h.total + max(0, min(h.Until, now).Sub(h.since))
}
