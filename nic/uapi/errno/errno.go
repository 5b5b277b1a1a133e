// Package errno says what number a program is told of an error.
package errno

import (
	"errors"
	"syscall"
)

// Of is the errno that an error holds: 0 for nil, EIO for one without.
func Of(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != 0 {
		return errno
	}
	return syscall.EIO
}

// Table says which errno stands for which error.
type Table []struct {
	Err   error
	Errno syscall.Errno
}

// Of is the errno that err holds, or that of the first row whose error it is; a
// row without an error is for all others. Nil for nil.
func (t Table) Of(err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	for _, row := range t {
		if row.Err == nil || errors.Is(err, row.Err) {
			return row.Errno
		}
	}
	return syscall.EIO
}
