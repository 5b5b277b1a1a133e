package trap

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_X86_64
	foreignBit = 0x40000000 // __X32_SYSCALL_BIT: x32 programs have the same architecture number
)

// pathCalls are the system calls that take a path which may be a served one.
var pathCalls = map[uint32]pathCall{
	unix.SYS_OPEN:       {kind: open, dir: -1, path: 0, arg: 1},
	unix.SYS_OPENAT:     {kind: open, dir: 0, path: 1, arg: 2},
	unix.SYS_OPENAT2:    {kind: openHow, dir: 0, path: 1, arg: 2},
	unix.SYS_STAT:       {kind: stat, dir: -1, path: 0, arg: 1},
	unix.SYS_LSTAT:      {kind: stat, dir: -1, path: 0, arg: 1, link: true},
	unix.SYS_NEWFSTATAT: {kind: stat, dir: 0, path: 1, arg: 2, flags: 3},
	unix.SYS_STATX:      {kind: statx, dir: 0, path: 1, arg: 4, flags: 2},
	unix.SYS_ACCESS:     {kind: access, dir: -1, path: 0, arg: 1},
	unix.SYS_FACCESSAT:  {kind: access, dir: 0, path: 1, arg: 2},
	unix.SYS_FACCESSAT2: {kind: access, dir: 0, path: 1, arg: 2, flags: 3},
	unix.SYS_READLINK:   {kind: readlink, dir: -1, path: 0},
	unix.SYS_READLINKAT: {kind: readlink, dir: 0, path: 1},
	unix.SYS_GETXATTR:   {kind: xattr, dir: -1, path: 0},
	unix.SYS_LGETXATTR:  {kind: xattr, dir: -1, path: 0},
	unix.SYS_LISTXATTR:  {kind: xattr, dir: -1, path: 0},
	unix.SYS_LLISTXATTR: {kind: xattr, dir: -1, path: 0},
}
