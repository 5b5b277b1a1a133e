package params_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/params"
	"tapir/nic/param"
)

// rows are two settings: one that is on or off, and a number.
func rows(on *bool, n *int) []*param.Row {
	return []*param.Row{
		param.Bool(param.Row{Name: "mark_it", Help: "demand marks", Origin: param.Siw}, on, false),
		param.Number(param.Row{Name: "how_many", Help: "marks", Origin: param.Tapir}, n, 3, 1, 9),
	}
}

// run gives the command line to a command with these settings.
func run(args ...string) (set []string, rest []string, out string, err error) {
	on, n := false, 3
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true,
		RunE: func(_ *cobra.Command, left []string) error { rest = left; return nil }}
	params.Add(cmd, rows(&on, &n), func(name, value string) error { set = append(set, name+"="+value); return nil })
	var b bytes.Buffer
	cmd.SetOut(&b)
	cmd.SetArgs(cli.Join(cmd, args))
	err = cmd.Execute()
	return set, rest, b.String(), err
}

// Each way to give a setting means the same.
func TestSpellings(t *testing.T) {
	for line, want := range map[string]string{
		"--mark-it y":                 "mark_it=1 | y",
		"--mark-it=0":                 "mark_it=0 |",
		"--mark-it 0":                 "mark_it=0 |",
		"--mark-it 1 --how-many 1":    "mark_it=1 how_many=1 |",
		"--set mark_it":               "mark_it=1 |",
		"--set mark-it=0":             "mark-it=0 |",
		"--set how_many=4 --set a=b=": "how_many=4 a=b= |",
		"-- --mark-it 0":              "| --mark-it 0",
	} {
		set, rest, _, err := run(strings.Fields(line)...)
		if got := strings.Join(slices.Concat(set, []string{"|"}, rest), " "); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", line, got, err, want)
		}
	}
	if _, _, _, err := run("--set", "how_many"); err == nil || !strings.Contains(err.Error(), "name=value") {
		t.Error(err)
	}
}

// Help is short; all is there for who asks.
func TestHelp(t *testing.T) {
	if _, _, out, err := run("--help"); err != nil || strings.Contains(out, "mark-it") || !strings.Contains(out, "--help-all") {
		t.Errorf("%v\n%s", err, out)
	}
	_, _, out, err := run("--help-all")
	for _, want := range []string{"Parameters: iWARP", "--mark-it[=1]", "demand marks (default 0)", "Parameters: Tapir's own", "--how-many number"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q in %v\n%s", want, err, out)
		}
	}
}
