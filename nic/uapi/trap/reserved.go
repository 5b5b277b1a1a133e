package trap

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Range is a range of descriptor numbers. A filter can compare numbers only,
// so write(2) and dup(2) are trapped on the numbers of one range alone, where
// files whose writes are served are placed.
type Range struct{ First, Last uint32 }

// Place says which number a descriptor gets.
type Place uint8

const (
	Lowest     Place = iota // the lowest free one, as open(2) gives
	InReserved              // a free one of the reserved range
)

const (
	reservedFirst = 900 // below 1024, which select(2) can wait for
	reservedCount = 64
)

// Reserved is the range that programs which this process starts have reserved:
// the highest numbers below 964 that their limit allows.
func Reserved() Range {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max >= reservedFirst+reservedCount {
		return Range{reservedFirst, reservedFirst + reservedCount - 1}
	}
	count := min(reservedCount, uint32(limit.Max)/2)
	return Range{uint32(limit.Max) - count, uint32(limit.Max) - 1}
}

// Cond holds if argument arg is a number of the range.
func (r Range) Cond(arg uint8) Cond {
	return Cond{Arg: arg, Mask: ^uint32(0), Value: r.First, Last: r.Last}
}

// writeRules trap write(2) on the reserved range, and what would make a
// descriptor of it another one outside, or put another file into it.
func writeRules() (rules []Rule) {
	fd, onto, atLeast := Reserved().Cond(0), Reserved().Cond(1), Reserved().Cond(2)
	for _, nr := range dupOnto {
		rules = append(rules, Rule{Nr: nr, When: []Cond{onto}})
	}
	for _, nr := range []uint32{unix.SYS_WRITE, unix.SYS_DUP} {
		rules = append(rules, Rule{Nr: nr, When: []Cond{fd}})
	}
	for _, cmd := range []uint32{unix.F_DUPFD, unix.F_DUPFD_CLOEXEC} {
		dup := Cond{Arg: 1, Mask: ^uint32(0), Value: cmd}
		rules = append(rules, Rule{Nr: unix.SYS_FCNTL, When: []Cond{fd, dup}},
			Rule{Nr: unix.SYS_FCNTL, When: []Cond{dup, atLeast}})
	}
	return rules
}

// dup serves dup(2) and fcntl(2) F_DUPFD of a descriptor that belongs into the
// reserved range: so does the new one, unless the caller wants a higher number.
func (c *Call) dup() Answer {
	flags := 0
	if c.Nr() == unix.SYS_FCNTL {
		if c.Int(2) < 0 || c.Int(2) > int(c.l.terms.Reserved.First) {
			return Pass()
		}
		if c.Int(1) == unix.F_DUPFD_CLOEXEC {
			flags = unix.O_CLOEXEC
		}
	}
	fd, err := c.Fd(c.Int(0))
	if err != nil {
		return Fail(err)
	}
	return InstallReserved(fd, flags)
}

// free finds a number of the range that the caller does not use. If its soft
// limit is below, it is raised until restore. Error: EMFILE.
func (r Range) free(c *Call) (n int, restore func(), err error) {
	for n := int(r.First); n <= int(r.Last); n++ {
		if unix.Lstat(c.proc("fd/"+strconv.Itoa(n)), new(unix.Stat_t)) == unix.ENOENT {
			restore, err := r.raise(c)
			return n, restore, err
		}
	}
	return -1, nil, unix.EMFILE
}

// raise raises the caller's soft limit to reach the range, if it is below.
func (r Range) raise(c *Call) (restore func(), err error) {
	var old unix.Rlimit
	pid := c.Thread()
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return nil, err
	}
	need := uint64(r.Last) + 1
	if old.Cur >= need {
		return func() {}, nil
	}
	if old.Max < need || unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: need, Max: old.Max}, nil) != nil {
		return nil, unix.EMFILE
	}
	return func() { _ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil) }, nil // who is gone has none
}
