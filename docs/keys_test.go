package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/topo"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/settings"
)

// value is what the schema of a lab's file says of one.
type value struct {
	Description          string
	Enum                 []string
	Properties           map[string]*value
	AdditionalProperties json.RawMessage // false, or a value
	Items                *value
	AnyOf                []*value
	Required             []string
}

// forms are all mappings that a value may be, with how a key below it is written.
func (v *value) forms(path string) (all []*value, paths []string) {
	add := func(v *value, path string) {
		more, morePaths := v.forms(path)
		all, paths = append(all, more...), append(paths, morePaths...)
	}
	if v.Properties != nil {
		all, paths = append(all, v), append(paths, path+".")
	}
	for _, a := range v.AnyOf {
		add(a, path)
	}
	if v.Items != nil {
		add(v.Items, path+"[]")
	}
	named := new(value)
	if json.Unmarshal(v.AdditionalProperties, named) == nil {
		add(named, path+".NAME")
	}
	return all, paths
}

// text says what a value is.
func (v *value) text() string {
	switch {
	case v.Description != "":
		return v.Description
	case len(v.Enum) > 0:
		return strings.Join(v.Enum, ", ")
	}
	for _, a := range v.AnyOf {
		if t := a.text(); t != "" {
			return t
		}
	}
	if v.Items != nil {
		return "a list"
	}
	return "keys as below"
}

// keyTable writes the keys of a mapping, and of those in it. effects are by key; skip leaves
// keys out, whole lists only those below.
func keyTable(b *bytes.Buffer, v *value, path string, effects map[string]string, skip, whole []string) {
	for _, key := range slices.Sorted(maps.Keys(v.Properties)) {
		if slices.Contains(skip, key) {
			continue
		}
		in := v.Properties[key]
		cell := strings.NewReplacer("|", `\|`, "<", `\<`)
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", path, key, cell.Replace(in.text()), cell.Replace(effects[key]))
		if slices.Contains(whole, key) {
			continue
		}
		seen := map[string]bool{}
		forms, paths := in.forms(path + key)
		for i, f := range forms {
			if at := fmt.Sprint(paths[i], slices.Sorted(maps.Keys(f.Properties))); !seen[at] {
				seen[at] = true
				keyTable(b, f, paths[i], nil, skip, whole)
			}
		}
	}
}

// flagHelp is the help of each flag of a command, by the key of the same name.
func flagHelp(t *testing.T, tapir string, command ...string) map[string]string {
	out, err := exec.Command(tapir, append(command, "--help")...).Output()
	testenv.Must(t, err)
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)(?: \S+)? {2,}(.*)$`).FindAllStringSubmatch(string(out), -1) {
		all[strings.ReplaceAll(m[1], "-", "_")] = m[2]
	}
	return all
}

// labKeys are the keys of a lab's file, by its schema.
func labKeys(t *testing.T, tapir string) string {
	var file value
	testenv.Must(t, json.Unmarshal(topo.JSONSchema(), &file))
	var b bytes.Buffer
	b.WriteString("# Keys of lab.yaml\n\nWritten from the program by `go test ./docs -run TestReference -update`: every key of " +
		"[a lab's file](lab.md),\nits values, and its effect where a flag of a command has the same. `tapir lab schema` prints the " +
		"keys as a JSON\nSchema for editors. `a[].b` is key `b` of each entry of the list `a`.\n")
	section := func(title string, v *value, effects map[string]string, skip ...string) {
		fmt.Fprintf(&b, "\n## %s\n\n| key | value | effect |\n|---|---|---|\n", title)
		keyTable(&b, v, "", effects, skip, []string{"ptp", "rules", "from", "after", "wait", "expect"})
	}
	top := file
	top.Properties = maps.Clone(file.Properties)
	for key, what := range map[string]string{"nodes": "nodes by their names", "links": "a list", "steps": "a list"} {
		top.Properties[key] = &value{Description: what + ", as below"}
	}
	section("The file", &top, nil)

	named := new(value)
	testenv.Must(t, json.Unmarshal(file.Properties["nodes"].AdditionalProperties, named))
	var parameters []string
	for _, p := range (&nic.Config{Hardware: &fastlinq.Config{}}).Params() {
		parameters = append(parameters, p.Name)
	}
	for _, a := range settings.Aliases {
		parameters = append(parameters, a.Name)
	}
	commands := map[string][]string{"nic": {"nic"}, "card": {"nic"}, "switch": {"sw"}, "hfi": {"vnic"}, "gateway": {"vnic"}, "manager": {"em"}}
	ptp := map[string]*value{}
	for _, n := range named.AnyOf {
		kind := n.Properties["kind"].Enum[0]
		effects := map[string]string{}
		if c := commands[kind]; c != nil {
			effects = flagHelp(t, tapir, c...)
		}
		ptp[kind] = n.Properties["ptp"]
		skip := []string{"kind"}
		ofNIC := kind == "nic" || kind == "card"
		if ofNIC {
			skip = append(skip, parameters...)
		}
		section("Nodes of kind `"+kind+"`", n, effects, skip...)
		if ofNIC {
			b.WriteString("\nAnd all [parameters](parameters.md) of a NIC.\n")
		}
	}
	section("`ptp` of a node", ptp["nic"], flagHelp(t, tapir, "ptp", "run"))

	links, paths := file.Properties["links"].forms("links")
	for i, l := range links {
		if paths[i] != "links[]." {
			continue
		}
		section("Links", l, nil)
		rules, _ := l.Properties["rules"].forms("")
		section("`rules` of a link", rules[0], nil)
	}
	for _, s := range file.Properties["steps"].Items.AnyOf {
		section("Step `"+s.Required[0]+"`", s, nil)
		if s.Required[0] == "expect" {
			conditions, _ := s.Properties["expect"].forms("")
			section("Conditions of `expect`, `wait` and `after`", conditions[0], nil)
		}
	}
	if n := strings.Count(b.String(), "\n| `"); n < 300 {
		t.Errorf("found %d keys", n)
	}
	return b.String()
}
