package serve

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tapir/lab/conf/nicconf"
	"tapir/lab/tool/ctl"
)

// reading is a file that was read again: what it said before and says now of the
// nodes that run, in their order, and the names of those that came or went.
type reading[C any] struct {
	old, now    []C
	names       []string
	added, gone []string
}

// reread reads the file of nodes that run, which were started as all says.
func reread[C any](o *Options, all []C, load func(string) ([]C, error),
	name func(*C) string) (f reading[C], err error) {
	list, err := load(o.File)
	if err != nil {
		return f, err
	}
	named := func(list []C, want string) int {
		return slices.IndexFunc(list, func(c C) bool { return name(&c) == want })
	}
	for i := range all {
		at := named(list, name(&all[i]))
		if at < 0 {
			f.gone = append(f.gone, name(&all[i]))
			continue
		}
		f.names, f.old, f.now = append(f.names, name(&all[i])), append(f.old, all[i]), append(f.now, list[at])
	}
	for i := range list {
		if named(all, name(&list[i])) < 0 {
			f.added = append(f.added, name(&list[i]))
		}
	}
	return f, nil
}

// report says what takes no effect while the nodes run: changed returns the keys
// of node i.
func (f *reading[C]) report(o *Options, changed func(i int) []string) {
	for i, name := range f.names {
		if keys := changed(i); len(keys) > 0 {
			fmt.Fprintf(o.Log, "%s: %s: %s needs a restart\n", o.File, name, strings.Join(keys, ", "))
		}
	}
	for _, name := range f.added {
		fmt.Fprintf(o.Log, "%s: %s is new: it needs a restart\n", o.File, name)
	}
	for _, name := range f.gone {
		fmt.Fprintf(o.Log, "%s: %s is not there any more: it runs on until a restart\n", o.File, name)
	}
}

// differing are the keys of the fields that differ: of a field's tag, else its
// name.
func differing[C any](a, b *C) (keys []string) {
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		f := va.Type().Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || key == "-" || reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			continue
		}
		if key == "" {
			key = strings.ToLower(f.Name)
		}
		keys = append(keys, key)
	}
	return keys
}

// reloadNICs applies the settings that may change at run time and that the file
// says otherwise than it did, as `tapir set` does, and names the others. What
// `tapir set` has changed meanwhile stays, unless the file changes it, too.
func reloadNICs(o *Options, all []nicconf.Config, nodes []*NIC) error {
	f, err := reread(o, all, nicconf.Load, func(c *nicconf.Config) string { return c.Name })
	if err != nil {
		return err
	}
	fixed := make([][]string, len(f.names))
	var failed error
	for i := range f.names {
		var set []ctl.Setting
		set, fixed[i] = changes(&f.old[i], &f.now[i])
		n := nodes[slices.IndexFunc(nodes, func(n *NIC) bool { return n.Name() == f.names[i] })]
		if len(set) > 0 {
			if err := n.Served(nil).Set(set); err != nil {
				failed = fmt.Errorf("%s: %w", n.Name(), err)
				continue
			}
		}
		at := slices.IndexFunc(all, func(c nicconf.Config) bool { return c.Name == f.names[i] })
		for _, s := range set {
			_ = all[at].Set(s.Name, s.Value) // it was right in the file
		}
	}
	f.report(o, func(i int) []string { return fixed[i] })
	return failed
}

// changes are the settings of a NIC that differ: those that can be set while it
// runs, and the keys of the others.
func changes(old, now *nicconf.Config) (set []ctl.Setting, fixed []string) {
	fixed = differing(old, now)
	if reflect.TypeOf(old.NIC.Hardware) != reflect.TypeOf(now.NIC.Hardware) {
		return nil, append(fixed, "hardware")
	}
	was := map[string]string{}
	for _, p := range old.Params() {
		was[p.Name] = p.Get()
	}
	for _, p := range now.Params() {
		switch value := p.Get(); {
		case value == was[p.Name]:
		case p.Runtime:
			set = append(set, ctl.Setting{Name: p.Name, Value: value})
		default:
			fixed = append(fixed, p.Name)
		}
	}
	return set, fixed
}
