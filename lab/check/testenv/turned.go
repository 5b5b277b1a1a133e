package testenv

import (
	"testing"

	"tapir/nic/tap"
)

// UntilTurned is Until where ends of wires, or the points where they meet, have to do their work
// meanwhile.
func UntilTurned(t testing.TB, what string, ok func() bool, ends ...any) {
	t.Helper()
	Until(t, what, func() bool {
		for _, e := range ends {
			switch e := e.(type) {
			case tap.Sleeper:
				e.Ready(true, false)
			case interface{ Turn() bool }:
				e.Turn()
			}
		}
		return ok()
	})
}
