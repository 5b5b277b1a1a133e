package trap

import "golang.org/x/sys/unix"

const (
	nativeArch = unix.AUDIT_ARCH_X86_64
	foreignBit = 0x40000000 // __X32_SYSCALL_BIT: x32 programs have the same architecture number
)

// pathCalls are the system calls that take a path which may be a served one.
var pathCalls = map[uint32]pathArgs{
	unix.SYS_OPEN:       {kind: OpenPath, dir: -1, path: 0, arg: 1},
	unix.SYS_OPENAT:     {kind: OpenPath, dir: 0, path: 1, arg: 2},
	unix.SYS_OPENAT2:    {kind: openHow, dir: 0, path: 1, arg: 2},
	unix.SYS_STAT:       {kind: StatPath, dir: -1, path: 0, arg: 1},
	unix.SYS_LSTAT:      {kind: StatPath, dir: -1, path: 0, arg: 1, link: true},
	unix.SYS_NEWFSTATAT: {kind: StatPath, dir: 0, path: 1, arg: 2, flags: 3},
	unix.SYS_STATX:      {kind: StatxPath, dir: 0, path: 1, arg: 4, flags: 2, size: 3},
	unix.SYS_ACCESS:     {kind: AccessPath, dir: -1, path: 0, arg: 1},
	unix.SYS_FACCESSAT:  {kind: AccessPath, dir: 0, path: 1, arg: 2},
	unix.SYS_FACCESSAT2: {kind: AccessPath, dir: 0, path: 1, arg: 2, flags: 3},
	unix.SYS_READLINK:   {kind: ReadlinkPath, dir: -1, path: 0, arg: 1, size: 2},
	unix.SYS_READLINKAT: {kind: ReadlinkPath, dir: 0, path: 1, arg: 2, size: 3},
	unix.SYS_GETXATTR:   {kind: XattrPath, dir: -1, path: 0},
	unix.SYS_LGETXATTR:  {kind: XattrPath, dir: -1, path: 0},
	unix.SYS_LISTXATTR:  {kind: XattrPath, dir: -1, path: 0},
	unix.SYS_LLISTXATTR: {kind: XattrPath, dir: -1, path: 0},
}

// dupOnto are the system calls that make a descriptor another file's; its
// number is argument 1.
var dupOnto = []uint32{unix.SYS_DUP2, unix.SYS_DUP3}
