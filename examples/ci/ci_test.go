// Package ci tests the examples for the CI of other projects.
package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"tapir/lab/check/testenv"
)

// The tests of the Python project pass on NICs whose wires are UDP sockets, as an
// ordinary user without a TUN device.
func TestPython(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := testenv.PublicDir(t)
	built, err := testenv.Build(filepath.Join(dir, "bin"))
	testenv.Must(t, err)
	files, err := filepath.Glob("python/*")
	testenv.Must(t, err)
	for _, f := range files {
		if fi, err := os.Stat(f); err == nil && fi.Mode().IsRegular() {
			testenv.Copy(t, dir, f)
		}
	}
	cmd := testenv.UnprivilegedNoTUN(t, t.Context(), dir, "/usr/bin/python3", "-m", "unittest", "-v")
	cmd.Env = append(cmd.Env, "TAPIR="+built, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Ran 2 tests") {
		t.Errorf("%v: %s", err, out)
	}
}

// steps are the commands and actions of a GitHub job.
type step struct {
	Uses string         `yaml:"uses"`
	Run  string         `yaml:"run"`
	If   string         `yaml:"if"`
	With map[string]any `yaml:"with"`
}

func strict(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, to, yaml.Strict())
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// shell checks the syntax of a command.
func shell(t *testing.T, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-n")
	cmd.Stdin = strings.NewReader(line)
	if out, err := cmd.CombinedOutput(); err != nil || line == "" {
		t.Errorf("%q: %v: %s", line, err, out)
	}
}

// The workflows of GitHub, of the example and of Tapir, have the keys of their jobs and
// steps, and no others.
func TestGitHub(t *testing.T) {
	for _, file := range []string{"github.yml", "../../.github/workflows/test.yml"} {
		t.Run(file, func(t *testing.T) { workflow(t, file) })
	}
}

func workflow(t *testing.T, file string) {
	var w struct {
		Name        string            `yaml:"name"`
		On          []string          `yaml:"on"`
		Permissions map[string]string `yaml:"permissions"`
		Jobs        map[string]struct {
			RunsOn  string `yaml:"runs-on"`
			Timeout int    `yaml:"timeout-minutes"`
			Steps   []step `yaml:"steps"`
		} `yaml:"jobs"`
	}
	strict(t, file, &w)
	if len(w.Jobs) != 2 || len(w.On) == 0 {
		t.Errorf("%+v", w)
	}
	for name, j := range w.Jobs {
		if j.RunsOn == "" || j.Timeout == 0 {
			t.Errorf("%s: %+v", name, j)
		}
		for _, s := range j.Steps {
			if (s.Uses == "") == (s.Run == "") {
				t.Errorf("%s: a step uses an action or runs a command: %+v", name, s)
			}
			if s.Run != "" {
				shell(t, s.Run)
			}
		}
	}
}

// The pipeline of GitLab likewise.
func TestGitLab(t *testing.T) {
	type job struct {
		Stage     string         `yaml:"stage"`
		Image     string         `yaml:"image"`
		Timeout   string         `yaml:"timeout"`
		Before    []string       `yaml:"before_script"`
		Script    []string       `yaml:"script"`
		Artifacts map[string]any `yaml:"artifacts"`
	}
	var p struct {
		Stages   []string `yaml:"stages"`
		Programs job      `yaml:"programs"`
		Labs     job      `yaml:"labs"`
	}
	strict(t, "gitlab.yml", &p)
	for _, j := range []job{p.Programs, p.Labs} {
		if j.Image == "" || j.Stage != p.Stages[0] || len(j.Script) == 0 {
			t.Errorf("%+v", j)
		}
		for _, line := range append(j.Before, j.Script...) {
			shell(t, line)
		}
	}
}
