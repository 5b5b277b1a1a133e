package trap

import "golang.org/x/sys/unix"

// PathKind is what a system call does with a path.
type PathKind uint8

const (
	OpenPath PathKind = iota
	StatPath
	StatxPath
	AccessPath
	ReadlinkPath
	XattrPath
	openHow // OpenPath, with its flags in a struct open_how
)

// PathCall is a system call that names a file by its path: open(2), stat(2),
// access(2), readlink(2), getxattr(2), listxattr(2) and their kin.
type PathCall struct {
	Kind  PathKind
	Dir   int    // where a relative path begins: a descriptor or AT_FDCWD
	Path  uint64 // its address
	Flags int    // AT_SYMLINK_NOFOLLOW and others; 0 if the call has none
	Arg   uint64 // OpenPath: flags; AccessPath: mode; else the address of the result
	Size  int    // ReadlinkPath: the result's room; StatxPath: what is asked for
}

// pathArgs says where a system call has its arguments; dir is -1 where there
// is none, flags and size are 0.
type pathArgs struct {
	kind                   PathKind
	dir                    int8
	path, arg, flags, size int8
	link                   bool // of a link itself, whatever flags say
}

// PathRules trap every PathCall.
func PathRules() (rules []Rule) {
	for nr := range pathCalls {
		rules = append(rules, Rule{Nr: nr})
	}
	return rules
}

// PathCall returns what the call does with a path. False: nothing. Error:
// EFAULT.
func (c *Call) PathCall() (p PathCall, ok bool, err error) {
	a, ok := pathCalls[c.Nr()]
	if !ok {
		return p, false, nil
	}
	p = PathCall{Kind: a.kind, Dir: unix.AT_FDCWD, Path: c.Arg(int(a.path)), Arg: c.Arg(int(a.arg))}
	if a.dir >= 0 {
		p.Dir = c.Int(int(a.dir))
	}
	if a.flags > 0 {
		p.Flags = c.Int(int(a.flags))
	}
	if a.size > 0 {
		p.Size = c.Int(int(a.size))
	}
	if a.link {
		p.Flags |= unix.AT_SYMLINK_NOFOLLOW
	}
	if a.kind == openHow {
		how, err := Get[unix.OpenHow](c, p.Arg)
		p.Kind, p.Arg = OpenPath, how.Flags
		return p, true, err
	}
	return p, true, nil
}
