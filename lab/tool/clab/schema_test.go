package clab

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// A rule finds what is wrong with a value. The rules below state what the schema of containerlab
// asks of the keys that an export has, without those that none has: derived from the file
// schemas/clab.schema.json of github.com/srl-labs/containerlab, commit 7908573, which is published
// as https://containerlab.dev/clab.schema.json.
type rule func(at string, v any) []string

func wrong(at, format string, args ...any) []string {
	return []string{at + ": " + fmt.Sprintf(format, args...)}
}

// text is a string that matches a pattern.
func text(pattern string) rule {
	re := regexp.MustCompile(pattern)
	return func(at string, v any) []string {
		if s, ok := v.(string); !ok || !re.MatchString(s) {
			return wrong(at, "%#v: want a string like %s", v, pattern)
		}
		return nil
	}
}

func oneOf(words ...string) rule {
	return func(at string, v any) []string {
		if s, ok := v.(string); !ok || !slices.Contains(words, s) {
			return wrong(at, "%#v: want one of %q", v, words)
		}
		return nil
	}
}

func integer(least, most uint64) rule {
	return func(at string, v any) []string {
		if n, ok := v.(uint64); !ok || n < least || n > most {
			return wrong(at, "%#v: want an integer, %d to %d", v, least, most)
		}
		return nil
	}
}

func address(at string, v any) []string {
	if _, err := netip.ParseAddr(fmt.Sprint(v)); err != nil {
		return wrong(at, "%v", err)
	}
	return nil
}

// list has at least so many items; unique: none twice.
func list(item rule, least, most int, unique bool) rule {
	return func(at string, v any) (bad []string) {
		all, ok := v.([]any)
		if !ok || len(all) < least || most > 0 && len(all) > most {
			return wrong(at, "%#v: want a list of %d to %d", v, least, most)
		}
		for i, x := range all {
			bad = append(bad, item(fmt.Sprintf("%s[%d]", at, i), x)...)
			if unique && slices.Contains(all[:i], x) {
				bad = append(bad, wrong(at, "%v is there twice", x)...)
			}
		}
		return bad
	}
}

// object has no other keys than those of the table, and each of needs.
func object(keys map[string]rule, needs ...string) rule {
	return func(at string, v any) (bad []string) {
		m, ok := v.(map[string]any)
		if !ok {
			return wrong(at, "%#v: want an object", v)
		}
		for _, key := range needs {
			if _, ok := m[key]; !ok {
				bad = append(bad, wrong(at, "%s is missing", key)...)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if check, ok := keys[key]; ok {
				bad = append(bad, check(at+"."+key, m[key])...)
			} else {
				bad = append(bad, wrong(at, "there is no key %s", key)...)
			}
		}
		return bad
	}
}

// named is an object whose keys are names.
func named(check rule) rule {
	return func(at string, v any) (bad []string) {
		m, ok := v.(map[string]any)
		if !ok {
			return wrong(at, "%#v: want an object", v)
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			bad = append(bad, check(at+"."+key, m[key])...)
		}
		return bad
	}
}

// The definitions of the schema.
var (
	anyText  = text("")
	nodeRule = object(map[string]rule{
		"image": anyText,
		"kind":  oneOf("linux"), // of 65
		"cmd":   anyText,
		"exec":  list(anyText, 1, 0, false),
		"binds": list(anyText, 1, 0, true),
	})
	briefLink = object(map[string]rule{"endpoints": list(text(`^\S+:\S+$`), 2, 2, true)}, "endpoints")
	vxlanLink = object(map[string]rule{
		"type":     oneOf("vxlan"),
		"endpoint": object(map[string]rule{"node": anyText, "interface": anyText}, "node", "interface"),
		"remote":   address,
		"vni":      integer(1, 1<<24-1),
		"dst-port": integer(1, 65535),
	}, "type", "endpoint", "remote", "vni", "dst-port")
	topologyFile = object(map[string]rule{
		"name": anyText,
		"topology": object(map[string]rule{
			"defaults": nodeRule,
			"nodes":    named(nodeRule),
			"links": list(func(at string, v any) []string {
				if m, ok := v.(map[string]any); ok && m["type"] != nil {
					return vxlanLink(at, v)
				}
				return briefLink(at, v)
			}, 1, 0, false),
		}, "nodes"),
	}, "name", "topology")
)

// breaches are what a file does against the schema.
func breaches(t *testing.T, file []byte) []string {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	return topologyFile("file", v)
}

// The table finds what the schema refuses.
func TestSchema(t *testing.T) {
	const good = `
name: x
topology:
  defaults: {kind: linux, image: i, cmd: sleep infinity}
  nodes: {a: {binds: ['/run/tapir:/run/tapir'], exec: [ip link]}, b: {exec: [ip link]}}
  links:
    - endpoints: [a:eth1, b:eth1]
    - {type: vxlan, endpoint: {node: a, interface: eth2}, remote: 192.0.2.1, vni: 100, dst-port: 14789}
`
	if bad := breaches(t, []byte(good)); bad != nil {
		t.Fatal(bad)
	}
	for _, c := range [][3]string{
		{"name: x", "nam: x", "file: name is missing; file: there is no key nam"},
		{"kind: linux", "kind: Linux", `want one of ["linux"]`},
		{"cmd: sleep infinity", "cmd: [sleep, infinity]", "want a string"},
		{"cmd: sleep", "command: sleep", "there is no key command"},
		{"exec: [ip link]}}", "exec: []}}", "want a list"},
		{"['/run/tapir:/run/tapir']", "[a:/a, a:/a]", "a:/a is there twice"},
		{"endpoints: [a:eth1, b:eth1]", "endpoints: [a:eth1]", "want a list"},
		{"b:eth1", "b", "want a string like"},
		{"type: vxlan", "type: vxlam", "want one of"},
		{"dst-port: 14789", "udp-port: 14789", "dst-port is missing"},
		{"dst-port: 14789", "dst-port: 65536", "want an integer, 1 to 65535"},
		{"vni: 100", "vni: 16777216", "want an integer, 1 to 16777215"},
		{"remote: 192.0.2.1", "remote: 192.0.2", "ParseAddr"},
		{"interface: eth2", "iface: eth2", "interface is missing"},
	} {
		bad := strings.Join(breaches(t, []byte(strings.Replace(good, c[0], c[1], 1))), "; ")
		if !strings.Contains(bad, c[2]) {
			t.Errorf("%s: %q, want %q", c[1], bad, c[2])
		}
	}
}
