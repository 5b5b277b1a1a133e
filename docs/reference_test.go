package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/param"
	"tapir/nic/settings"
)

// TestReference holds the pages that are written from the program against it; with
// -update it writes them.
func TestReference(t *testing.T) {
	tapir, err := testenv.Build(t.TempDir())
	testenv.Must(t, err)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for page, text := range map[string]string{
		"reference/command-line.md": commandLine(t, tapir), "reference/counters.md": counterPage(t, tapir),
		"reference/json.md": jsonPage(t, tapir), "reference/schemas.json": output(t, tapir, "schema", "--all"),
		"reference/lab-keys.md": labKeys(t, tapir), "reference/parameters.md": parameterPage(t),
	} {
		if *update {
			testenv.Must(t, os.WriteFile(page, []byte(text), 0o644))
		}
		if now, err := os.ReadFile(page); err != nil || string(now) != text {
			t.Errorf("%s is not what the program has: go test ./docs -run TestReference -update", page)
		}
	}
}

func output(t *testing.T, name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	testenv.Must(t, err)
	return string(out)
}

// jsonPage lists the documents that commands print with --json.
func jsonPage(t *testing.T, tapir string) string {
	var b strings.Builder
	b.WriteString("# JSON\n\nWritten from the program by `go test ./docs -run TestReference -update`.\n\n" +
		"Each command below prints, with `--json`, documents of the kind beside it. `tapir schema COMMAND` prints the\n" +
		"JSON Schema, [schemas.json](schemas.json) has all of them, made from the types that the program prints. The number\n" +
		"is the version: it grows when a member goes, or changes its type or meaning. New members do not change it.\n" +
		"A row of a table, such as `tapir show nic0 qp 2 --json`, is an element of the table's list. `tapir ptp run`\n" +
		"and `--follow` print one document a line.\n\n" +
		"`tapir devlink -j`, `tapir dcb -j` and `tapir vf show -j` print what devlink(8), dcb(8) and ip(8) do, and so do\n" +
		"the tools themselves under `tapir run`, such as `rdma -j`: see their documents.\n\n| command | document |\n|---|---|\n")
	for line := range strings.Lines(output(t, tapir, "schema")) {
		words := strings.Fields(line)
		if last := len(words) - 1; words[0] != "COMMAND" {
			fmt.Fprintf(&b, "| `tapir %s` | `%s` |\n", strings.Join(words[:last], " "), words[last])
		}
	}
	return b.String()
}

// commandLine is the help of every command that has a man page.
func commandLine(t *testing.T, tapir string) string {
	dir := t.TempDir()
	testenv.Must(t, exec.Command(tapir, "man", dir).Run())
	var b bytes.Buffer
	b.WriteString("# Command line\n\nWritten from the program by `go test ./docs -run TestReference -update`: " +
		"what `--help` prints.\nThe man pages say the same. " +
		"[parameters.md](parameters.md) has the parameters of `tapir nic --set`.\n")
	verb := regexp.MustCompile(`(?m)^\.TP\n\.B ([a-z0-9\\-]+)$`)
	var add func(path []string)
	add = func(path []string) {
		help, err := exec.Command(tapir, append(path[1:], "--help")...).Output()
		testenv.Must(t, err)
		text, _, _ := strings.Cut(string(help), "\nUse \"tapir")
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", strings.Join(path, " "), strings.TrimSpace(text))
		man, err := os.ReadFile(filepath.Join(dir, strings.Join(path, "-")+".1"))
		testenv.Must(t, err)
		_, verbs, _ := strings.Cut(string(man), ".SH COMMANDS\n")
		verbs, _, _ = strings.Cut(verbs, ".SH ")
		for _, m := range verb.FindAllStringSubmatch(verbs, -1) {
			add(append(path[:len(path):len(path)], strings.ReplaceAll(m[1], `\`, "")))
		}
	}
	add([]string{"tapir"})
	if n := strings.Count(b.String(), "\n## "); n < 60 {
		t.Errorf("found %d commands", n)
	}
	return b.String()
}

// parameterPage is the page with its tables written from the parameters; the tests of each row
// are the page's own.
func parameterPage(t *testing.T) string {
	page, err := os.ReadFile("reference/parameters.md")
	testenv.Must(t, err)
	rows := (&nic.Config{Hardware: &fastlinq.Config{}}).Params()
	for i := range settings.Aliases {
		rows = append(rows, settings.Aliases[i].Row(rows))
	}
	lines := strings.Split(string(page), "\n")
	for i, line := range lines {
		cells := strings.Split(line, " | ")
		if name, row := strings.CutPrefix(cells[0], "| `"); row && len(cells) > 4 {
			if p := param.Find(rows, strings.TrimSuffix(name, "`")); p != nil {
				lines[i] = parameterRow(p) + cells[len(cells)-1]
			}
		}
	}
	return strings.Join(lines, "\n")
}

// parameterRow is the row of a parameter up to its tests.
func parameterRow(p *param.Row) string {
	runtime := map[bool]string{true: "yes", false: "no"}
	expect := strings.ReplaceAll(p.Expect, "|", `\|`)
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | ", p.Name, expect, p.Get(), runtime[p.Runtime], p.Help)
}

// counterPage lists the counters of each kind of node as it shows them.
func counterPage(t *testing.T, tapir string) string {
	cable := "shm:" + filepath.Join(t.TempDir(), "cable")
	var b bytes.Buffer
	b.WriteString("# Counters\n\nWritten from running nodes by `go test ./docs -run TestReference -update`. " +
		"`tapir show NODE counters` displays the values,\n`tapir capture` writes a frame's drop reason as its comment. " +
		"Options of a node add counters for ports, classes and functions.\n")
	why := dropMeanings(t)
	for _, n := range []struct {
		name, title string
		args        []string
	}{
		{"nic0", "NIC", []string{"nic", "--name", "nic0", "--wire", cable + "0", "--ip", "10.0.0.1/24"}},
		{"sw0", "Switch", []string{"sw", "--name", "sw0", "--port", cable + "1", "--port", cable + "2"}},
		{"hfi0", "Omni-Path HFI", []string{"vnic", "--name", "hfi0", "--wire", cable + "3", "--guid", "0x0011750101000001", "--managed"}},
	} {
		cmd := exec.Command(tapir, n.args...)
		testenv.Must(t, cmd.Start(), exec.Command(tapir, "wait", n.name).Run())
		out, err := exec.Command(tapir, "show", n.name, "counters").Output()
		testenv.Must(t, err, exec.Command(tapir, "stop", n.name).Run(), cmd.Wait())
		fmt.Fprintf(&b, "\n## %s\n", n.title)
		var drops, groups []string
		last := ""
		for line := range strings.Lines(string(out)) {
			name := strings.Replace(strings.Fields(line)[0], cable, "PORT", 1)
			reason := strings.TrimPrefix(strings.TrimPrefix(name, "rx_drop_"), "tx_drop_")
			group, _, _ := strings.Cut(name, "_")
			switch {
			case name == "NAME":
			case reason != name:
				drops = append(drops, fmt.Sprintf("| `%s` | %s |\n", name, why[reason]))
			case group == last:
				groups[len(groups)-1] += " `" + name + "`"
			default:
				groups, last = append(groups, "`"+name+"`"), group
			}
		}
		for _, g := range groups {
			fmt.Fprintf(&b, "\n* %s", g)
		}
		if len(drops) > 0 {
			fmt.Fprintf(&b, "\n\n| frames dropped | because |\n|---|---|\n%s", strings.Join(drops, ""))
		} else {
			b.WriteString("\n")
		}
	}
	if n := strings.Count(b.String(), "`"); n < 400 {
		t.Errorf("found %d counters", n/2)
	}
	return b.String()
}

// dropMeanings are the comments of the drop reasons, by the name of their counter.
func dropMeanings(t *testing.T) map[string]string {
	constant := regexp.MustCompile(`(?m)^\t[A-Z]\w+ .*?// (.*)$`)
	text := regexp.MustCompile(`"([^"]+)"`)
	all := map[string]string{}
	for _, file := range []string{"wire/drop/drop.go", "nic/nicdrop/nicdrop.go", "opa/drop.go", "lab/node/sw/drop.go"} {
		source, err := os.ReadFile("../" + file)
		testenv.Must(t, err)
		consts, names, _ := bytes.Cut(source, []byte("RegisterDrops("))
		why, said := constant.FindAllSubmatch(consts, -1), text.FindAllSubmatch(bytes.SplitN(names, []byte(")\n"), 2)[0], -1)
		if len(why) != len(said) || len(why) < 8 {
			t.Fatalf("%s: %d names of %d reasons", file, len(said), len(why))
		}
		for i := range why {
			key := strings.ReplaceAll(strings.ToLower(string(said[i][1])), " ", "_")
			if all[key] == "" {
				all[key] = string(why[i][1])
			}
		}
	}
	return all
}
