package uverbs

import (
	"errors"
	"syscall"

	"tapir/nic/al"
	"tapir/nic/verbs"
)

// errnos says which errno stands for an error of the layers below.
var errnos = []struct {
	err   error
	errno syscall.Errno
}{
	{verbs.ErrInvalid, syscall.EINVAL},
	{verbs.ErrState, syscall.EINVAL},
	{verbs.ErrDestroyed, syscall.EINVAL},
	{verbs.ErrTooManySGE, syscall.EINVAL},
	{verbs.ErrInlineSize, syscall.EINVAL},
	{verbs.ErrBusy, syscall.EBUSY},
	{verbs.ErrLimit, syscall.ENOMEM},
	{verbs.ErrQueueFull, syscall.ENOMEM},
	{verbs.ErrUnsupported, syscall.EOPNOTSUPP},
	{verbs.ErrNotStarted, syscall.ENODEV},
	{verbs.ErrRemoved, syscall.EIO},
	{al.ErrLeaving, syscall.EIO},
}

// errnoOf is the errno of err, nil for nil.
func errnoOf(err error) error {
	if err == nil {
		return nil
	}
	if errno := new(syscall.Errno); errors.As(err, errno) {
		return *errno
	}
	for _, e := range errnos {
		if errors.Is(err, e.err) {
			return e.errno
		}
	}
	return syscall.EIO
}
