package labtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// block is the first fenced block of a language in docs/howto/ci.md.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/howto/ci.md has no block of %s", language)
	}
	return string(m[1])
}

// failing is a test whose lab is fine but for what it expects.
const failing = `
func TestUnverified(t *testing.T) {
	lab := labtest.Start(t, "testdata/pair.yaml")
	lab.Step("expect: {link: a-b, counter: lost}")
}

func TestOwn(t *testing.T) {
	labtest.Start(t, "testdata/pair.yaml")
	t.Error("of the test's own")
}
`

// TestModule does what docs/howto/ci.md says in a module of its own: as root, where
// tapir is built, and as an ordinary user with a program that is there. It does
// without network and so without `go mod tidy`: the module has the requirements
// that this one has.
func TestModule(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.PublicDir(t)
	for name, text := range map[string]string{
		"go.mod":             strings.Replace(content(t, root, "go.mod"), "module tapir", "module example.com/user", 1),
		"go.sum":             content(t, root, "go.sum"),
		"testdata/pair.yaml": block(t, "yaml"),
		"lab_test.go":        block(t, "go") + failing,
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	script := strings.Replace(block(t, "sh"), "../tapir", root, 1)
	script = strings.Replace(script, "go mod tidy\n", "", 1)
	script = strings.Replace(script, "go test ./...", "go test -c -o user.test && ./user.test -test.v", 1)
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-mod=mod", "GOWORK=off", "TAPIR=", "TAPIR_LABTEST_OUT="+out)
	check(t, cmd, out)

	// As nobody, in a user namespace that Main makes.
	tapir, err := testenv.Build(filepath.Join(dir, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	cmd = testenv.Unprivileged(t, t.Context(), dir, "./user.test", "-test.v")
	his := filepath.Join(dir, "his")
	cmd.Env = append(cmd.Env, "TAPIR="+tapir, "TAPIR_LABTEST_OUT="+his)
	check(t, cmd, his)
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// check runs the tests of which two fail, and reads their reports.
func check(t *testing.T, cmd *exec.Cmd, out string) {
	t.Helper()
	said, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("tests that fail pass")
	}
	for _, want := range []string{
		"--- PASS: TestLossyLink", "--- PASS: TestDevice", "--- FAIL: TestUnverified", "--- FAIL: TestOwn",
		"labtest: expect: a-b: lost: 1 or more: it is 0", "operations verified",
		"labtest: the lab's report is " + filepath.Join(out, "TestOwn-"),
	} {
		if !strings.Contains(string(said), want) {
			t.Errorf("%v: no %q:\n%s", err, want, said)
		}
	}
	for name, want := range map[string]string{"TestUnverified": "it is 0", "TestOwn": "TestOwn failed", "TestLossyLink": `"verdict":"pass"`} {
		pages, _ := filepath.Glob(filepath.Join(out, name+"-*", "report.html"))
		if len(pages) != 1 {
			t.Errorf("%d reports of %s", len(pages), name)
			continue
		}
		if page, err := os.ReadFile(pages[0]); err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %v: no %q", pages[0], err, want)
		}
	}
}
