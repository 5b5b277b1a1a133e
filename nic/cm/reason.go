package cm

import "cmp"

// Reason says why a connection could not be made or ended, in the words of its transport. The
// zero value: nothing went wrong, so far.
type Reason struct {
	// Code is the transport's number, 0 if it has none.
	Code uint8
	Name string
	// Errno is what the driver's user is told: the name of an error number, empty for 0.
	Errno string
}

func (r Reason) String() string { return r.Name }

// Status is Errno, or "0".
func (r Reason) Status() string { return cmp.Or(r.Errno, "0") }
