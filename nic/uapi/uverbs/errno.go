package uverbs

import (
	"syscall"

	"tapir/nic/al"
	"tapir/nic/uapi/errno"
	"tapir/nic/verbs"
)

// errnos says which errno stands for an error of the layers below.
var errnos = errno.Table{
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
	{verbs.ErrFirmware, syscall.EIO},
	{al.ErrLeaving, syscall.EIO},
}
