// Package param holds the tables of named settings. A package that has settings
// exports its rows, bound to the fields of its configuration; others gather them.
package param

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where the names of the settings are known from.
const (
	Siw      = "siw"       // parameters of the Linux siw driver
	SiwBuild = "siw build" // constants of a build of siw
	FastLinQ = "FastLinQ"  // of the FastLinQ driver core
	Tapir    = "Tapir"
)

// Row is one setting that has a name: in `tapir nic`, in a nics.yaml, in
// `tapir set` and in docs/reference/parameters.md.
type Row struct {
	Name    string
	Type    string // "bool", "number", "time", "list" or "choice"
	Expect  string // what a value looks like, for errors
	Help    string // the effect, one line
	Origin  string // where the name is known from
	Runtime bool   // may change while the NIC runs, for new connections
	Host    bool   // of the host function: without a host TAP there is none

	get func() string
	set func(v string) error // ErrValue: not as Expect says
}

// Get is the setting's value, with the default filled in, as Set reads it.
func (r *Row) Get() string { return r.get() }

// Set changes the setting. The error names the setting and what was expected.
func (r *Row) Set(v string) error {
	if r.set(strings.TrimSpace(v)) != nil {
		return fmt.Errorf("%s: %q: expected %s", r.Name, v, r.Expect)
	}
	return nil
}

// Wrap lets a setting treat some values in its own way: get and set take the
// original functions' place and may call them.
func (r *Row) Wrap(get func(was func() string) string, set func(v string, was func(string) error) error) *Row {
	wasGet, wasSet := r.get, r.set
	r.get = func() string { return get(wasGet) }
	r.set = func(v string) error { return set(v, wasSet) }
	return r
}

// Find returns the setting called name (`-` and `_` are the same), or nil.
func Find(rows []*Row, name string) *Row {
	name = strings.ReplaceAll(name, "-", "_")
	if i := slices.IndexFunc(rows, func(r *Row) bool { return r.Name == name }); i >= 0 {
		return rows[i]
	}
	return nil
}

// Alias is another name of a setting, under which it is set and shown too.
type Alias struct {
	Name, Of string
	Origin   string // where the name is known from
	Inverse  bool   // of a bool: 1 stands for 0
}

// Row is the setting under its other name.
func (a *Alias) Row(rows []*Row) *Row {
	r := *Find(rows, a.Of)
	r.Name, r.Origin, r.Help = a.Name, a.Origin, "same as "+a.Of
	if !a.Inverse {
		return &r
	}
	r.Help = "inverse of " + a.Of
	return r.Wrap(func(of func() string) string { return Bit(of() == Bit(false)) },
		func(v string, of func(string) error) error {
			on, err := strconv.ParseBool(v)
			if err != nil {
				return err
			}
			return of(Bit(!on))
		})
}

// Change changes a setting of something that runs.
func Change(rows []*Row, name, value string) error {
	r := Find(rows, name)
	switch {
	case r == nil:
		return &Unknown{name, rows}
	case !r.Runtime:
		return fmt.Errorf("%s: cannot change while the NIC runs: give it when the NIC starts, as --%s", r.Name,
			Flag(r.Name))
	}
	return r.Set(value)
}

// Unknown says that there is no setting of that name.
type Unknown struct {
	Name string
	rows []*Row
}

func (u *Unknown) Error() string {
	return fmt.Sprintf("%s: unknown setting; known are %s", u.Name, Names(u.rows))
}

// Known are the names of all settings.
func (u *Unknown) Known() []string { return strings.Split(Names(u.rows), ", ") }

// Values are those of a choice or truth, none if any other value is good, too.
func (r *Row) Values() []string {
	switch r.Type {
	case "bool":
		return []string{Bit(false), Bit(true)}
	case "choice":
		return strings.Split(strings.ReplaceAll(r.Expect, " or ", ", "), ", ")
	}
	return nil
}

// Names lists the names of all settings, for messages.
func Names(rows []*Row) string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return strings.Join(names, ", ")
}

// Flag is the name of a setting as a flag of the command line.
func Flag(name string) string { return strings.ReplaceAll(name, "_", "-") }
