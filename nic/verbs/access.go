package verbs

import (
	"cmp"
	"fmt"

	"tapir/wire/enum"
)

// Access is a set of rights to a memory region, numbered as ibv_access_flags.
// Local read is implied.
type Access uint8

const (
	LocalWrite Access = 1 << iota
	RemoteWrite
	RemoteRead
	RemoteAtomic
	MWBind    // memory windows may be bound to the region
	ZeroBased // no right: addresses count from 0

	remoteAccess = RemoteWrite | RemoteRead | RemoteAtomic
	allAccess    = LocalWrite | remoteAccess | MWBind | ZeroBased
)

var accessNames = [...]string{"lw", "rw", "rr", "ra", "mb", "zb"}

func (a Access) String() string {
	return cmp.Or(enum.Bits(accessNames[:], a), "lr")
}

// check refuses sets that no region may have: as in ibv_reg_mr, whoever lets
// the peer change memory must be allowed to change it.
func (a Access) check() error {
	switch {
	case a&^allAccess != 0:
		return fmt.Errorf("access %#x: %w", uint8(a), ErrInvalid)
	case a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0:
		return fmt.Errorf("remote write or atomic without local write: %w", ErrInvalid)
	}
	return nil
}
