//go:build asic_only

package rt

import "time"

// pollEvery is the time between two tries of a poll.
func (Modes) pollEvery() time.Duration { return pollEvery }
