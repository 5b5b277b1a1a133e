package licenses

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write notices.txt")

// licenses are the files of a directory that tell of rights.
func licenses(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		for _, word := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"} {
			if !e.IsDir() && strings.HasPrefix(name, word) && !strings.HasSuffix(name, ".GO") {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files
}

// linked lists, for each module of the binary, the files with its licence: those
// in the directories of its packages and above.
func linked(t *testing.T) (modules []string, files map[string][]string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}\t{{.Dir}}",
		"tapir/cmd/tapir")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]string{}
	for l := range strings.Lines(string(out)) {
		part := strings.Split(strings.TrimSpace(l), "\t")
		if len(part) != 3 || strings.HasPrefix(part[0], "tapir ") {
			continue
		}
		if _, ok := files[part[0]]; !ok {
			modules = append(modules, part[0])
		}
		for dir := part[2]; ; dir = filepath.Dir(dir) {
			for _, f := range licenses(t, dir) {
				if !slices.Contains(files[part[0]], f) {
					files[part[0]] = append(files[part[0]], f)
				}
			}
			if dir == part[1] {
				break
			}
		}
	}
	slices.Sort(modules)
	return modules, files
}

// scripts are no modules: the pages of `tapir ui` have them. Each has a file with its licence.
var scripts = [][2]string{
	{"uPlot 1.6.32, https://github.com/leeoniya/uPlot, in the page of tapir ui", "../ui/page/uPlot.LICENSE"},
	{"marked 18.2.1, https://github.com/markedjs/marked, in the documents of tapir ui", "../ui/documents/marked.LICENSE"},
}

// TestNotices: each linked module is there, with all that its authors ask to be told.
func TestNotices(t *testing.T) {
	modules, files := linked(t)
	// Go's library has the licence of its other modules.
	users := map[string][]string{}
	var texts []string
	for _, m := range modules {
		if len(files[m]) == 0 {
			t.Errorf("%s has no file with a licence", m)
		}
		slices.Sort(files[m])
		for _, f := range files[m] {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n"))
			if users[text] == nil {
				texts = append(texts, text)
			}
			if !slices.Contains(users[text], m) {
				users[text] = append(users[text], m)
			}
			if strings.HasPrefix(m, "golang.org/x/sys ") && strings.HasPrefix(filepath.Base(f), "LICENSE") {
				users[text] = append(users[text], "the standard library of Go")
			}
		}
	}
	for _, s := range scripts {
		data, err := os.ReadFile(s[1])
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSpace(string(data))
		texts = append(texts, text)
		users[text] = append(users[text], s[0])
	}
	var b strings.Builder
	fmt.Fprintln(&b, "Tapir is linked with the modules below. Each list of modules is followed by the text of their licence.")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(users[text], "\n"), text)
	}
	if *update {
		if err := os.WriteFile("notices.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if now, err := Notices(); err != nil || b.String() != now {
		t.Error("notices.txt is not of the modules that go.mod names: run: go test ./lab/tool/licenses -update")
	}
}
