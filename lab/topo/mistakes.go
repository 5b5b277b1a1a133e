package topo

import (
	"cmp"
	"errors"
	"slices"

	"tapir/lab/conf"
)

// Mistakes are all that are found in a file already read, in the order of its lines. What refers to
// other parts of the file is looked at if nodes and links have none.
func Mistakes(path string, data []byte) (all []error) {
	if _, err := parse(path, data, &all); err != nil {
		all = append(all, err)
	}
	slices.SortStableFunc(all, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return slices.CompactFunc(all, func(a, b error) bool { return a.Error() == b.Error() })
}

func lineOf(err error) int {
	if e := (*conf.Error)(nil); errors.As(err, &e) {
		return e.Line
	}
	return 0
}

// note keeps a mistake, so that the others are found, too; it returns err where the first one ends the reading.
func (d *draft) note(err error) error {
	if err == nil || d.mistakes == nil {
		return err
	}
	*d.mistakes = append(*d.mistakes, err)
	return nil
}

// pending is something that has to wait until all of the file has been read.
type pending struct {
	part int
	do   func() error
}

func (d *draft) later(do func() error) { d.checks = append(d.checks, pending{d.part, do}) }

// atEnd is for what needs what others do later.
func (d *draft) atEnd(do func() error) { d.ends = append(d.ends, pending{d.part, do}) }

// check checks what had to wait until all was read. Of each part of the file the first mistake counts,
// as what else is to be checked builds on that.
func (d *draft) check() error {
	wrong := map[int]bool{}
	try := func(c pending) error {
		if wrong[c.part] {
			return nil
		}
		d.part = c.part
		err := c.do()
		wrong[c.part] = err != nil
		return d.note(err)
	}
	for i := 0; i < len(d.checks); i++ { // a check may add others
		if err := try(d.checks[i]); err != nil {
			return err
		}
	}
	for _, c := range d.ends {
		if err := try(c); err != nil {
			return err
		}
	}
	return nil
}
