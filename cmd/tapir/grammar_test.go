package main

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/lab/tool/cli"
)

// faces are the commands that have the words and flags of another program, by its manual page.
var faces = map[string]string{
	"tapir ethtool": "ethtool(8)", "tapir devlink": "devlink(8)", "tapir dcb": "dcb(8)", "tapir vf": "ip-link(8)",
	"tapir rping": "rping(1)", "tapir ptp pmc": "pmc(8)", "tapir wireshark extcap": "extcap(4)",
}

func face(c *cobra.Command) bool {
	for name := range faces {
		if c.CommandPath() == name || strings.HasPrefix(c.CommandPath(), name+" ") {
			return true
		}
	}
	return false
}

// each calls see for each command that help lists, tapir's own grammar or not.
func each(c *cobra.Command, see func(c *cobra.Command)) {
	if c.Hidden {
		return
	}
	see(c)
	for _, below := range c.Commands() {
		each(below, see)
	}
}

func visible(c *cobra.Command, see func(f *pflag.Flag)) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			see(f)
		}
	})
}

// A command line is tapir [AREA] VERB [TARGET] [flags]: targets come first and are no flags.
func TestGrammar(t *testing.T) {
	each(newRoot(), func(c *cobra.Command) {
		if face(c) {
			return
		}
		words := strings.Fields(strings.NewReplacer("{", " ", "}", " ", "[", " ", "]", " ", "|", " ").Replace(c.Use))
		afterFlag := ""
		for i, w := range words {
			switch {
			case i == 0 && w != c.Name():
				t.Errorf("%s: the usage begins with %s", c.CommandPath(), w)
			case strings.HasPrefix(w, "-") && w != "--":
				afterFlag = w
				if name, long := strings.CutPrefix(w, "--"); long && c.Flags().Lookup(name) == nil ||
					!long && c.Flags().ShorthandLookup(w[1:]) == nil {
					t.Errorf("%s: the usage has %s, which is no flag", c.CommandPath(), w)
				}
			case i > 0 && afterFlag != "" && !strings.HasPrefix(words[i-1], "-") && w != "--":
				t.Errorf("%s: %s: target %s comes after flag %s", c.CommandPath(), c.Use, w, afterFlag)
			}
		}
		visible(c, func(f *pflag.Flag) {
			if f.Name == "nic" || f.Name == "device" || f.Name == "lab" && c.Parent().Name() != "lab" {
				t.Errorf("%s: --%s names a target: make it an argument", c.CommandPath(), f.Name)
			}
		})
	})
}

// names are the commands whose --name is no target: they make what they name.
var names = regexp.MustCompile(`^tapir (nic|vnic|sw|(iscsi|nvme) initiator \w+|em)$`)

// shorts are what short flags mean.
var shorts = map[string][]string{
	"B": {"buffer"}, "D": {"duration"}, "P": {"private"}, "Q": {"srq"}, "R": {"receives"}, "S": {"sl"},
	"T": {"time", "patience"}, "W": {"settle"}, "X": {"reject"}, "c": {"config"}, "f": {"follow"}, "h": {"help"},
	"i": {"interval"}, "n": {"count", "iters", "connections"}, "o": {"out"}, "p": {"port"}, "q": {"qp"},
	"s": {"size", "snaplen"}, "t": {"depth", "tx-depth"}, "v": {"verbose"}, "w": {"write"},
}

// A flag means one thing: --json and whatever is on or off are switches, and a short flag stands for one quantity.
func TestFlags(t *testing.T) {
	each(newRoot(), func(c *cobra.Command) {
		visible(c, func(f *pflag.Flag) {
			at := c.CommandPath() + ": --" + f.Name
			if f.Name == "json" && f.Value.Type() != "bool" {
				t.Errorf("%s is no switch", at)
			}
			if f.Value.Type() == "bool" && f.NoOptDefVal == "" {
				t.Errorf("%s takes the next word", at)
			}
			if f.Name == "name" && !names.MatchString(c.CommandPath()) {
				t.Errorf("%s names a target: make it an argument", at)
			}
			if f.Usage == "" {
				t.Errorf("%s: no help", at)
			}
			if f.Shorthand != "" && !face(c) && !slices.Contains(shorts[f.Shorthand], f.Name) {
				t.Errorf("%s: -%s means %s", at, f.Shorthand, shorts[f.Shorthand])
			}
		})
	})
	run, _, err := newRoot().Find([]string{"ptp", "run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ptpconf.Flags() {
		if flag := run.Flags().Lookup(strings.ReplaceAll(f.Name, "_", "-")); f.Switch && flag.NoOptDefVal == "" {
			t.Errorf("tapir ptp run --%s takes the next word", flag.Name)
		}
	}
}

// Commands stand in groups, have a sentence and an example, and the shell completes their targets.
func TestHelpOfCommands(t *testing.T) {
	targets := regexp.MustCompile(`\b(NIC|LAB|NAME|EM|DEVICE|DEV)\b`)
	each(newRoot(), func(c *cobra.Command) {
		grouped := c.HasParent() && len(c.Parent().Groups()) > 0
		switch {
		case grouped && c.GroupID == "":
			t.Errorf("%s stands in no group", c.CommandPath())
		case c.Short == "" || c.Name() != "help" && !face(c) && c.Example == "":
			t.Errorf("%s: no help or no example", c.CommandPath())
		case strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: %s", c.CommandPath(), c.Short)
		}
		arguments, _, _ := strings.Cut(strings.TrimPrefix(c.Use, c.Name()), "-")
		if c.Runnable() && !c.HasSubCommands() && targets.MatchString(arguments) && c.ValidArgsFunction == nil {
			t.Errorf("%s: %s: the shell cannot complete it", c.CommandPath(), c.Use)
		}
	})
}

// Every example is a command line that is understood.
func TestExamplesAreUnderstood(t *testing.T) {
	seen := 0
	each(newRoot(), func(c *cobra.Command) {
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			understood(t, c, line, &seen)
		}
	})
	if seen < 150 {
		t.Errorf("only %d examples", seen)
	}
}

func understood(t *testing.T, of *cobra.Command, line string, seen *int) {
	line, _, _ = strings.Cut(line, " # ")
	for _, part := range regexp.MustCompile(`[|&;<>]+`).Split(line, -1) {
		words, err := conf.Words(strings.TrimSpace(part))
		if err != nil || len(words) == 0 || words[0] != "tapir" {
			continue
		}
		*seen++
		root := newRoot()
		cmd, rest, err := root.Find(cli.Join(root, words[1:]))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %s: %v", of.CommandPath(), line, err)
		}
	}
}

// Older spellings are understood, and help does not list them.
func TestOlderSpellings(t *testing.T) {
	for line, flag := range map[string]string{
		"perf write-bw --nic nic0":                           "nic",
		"verify client 10.0.0.1 --nic nic0 write:8":          "nic",
		"verify client 10.0.0.1 -c 3 -i 1 -o 1 -S 8 write:8": "c",
		"verify server -i 1 -o 1 --nic nic0":                 "i",
		"rping -s --nic nic0":                                "nic",
		"run --nic nic0,nic1 -- rping -s":                    "nic",
		"iscsi initiator read iscsi://10.0.0.1 --nic nic0":   "nic",
		"nvme initiator read nvme://10.0.0.1 --nic nic0":     "nic",
		"em show --name em0 port":                            "name",
		"em query --name em0 vesw 2":                         "name",
		"em reload --name em0":                               "name",
		"peer exec --name g -t 1s true":                      "name",
		"peer stop --name g":                                 "name",
		"peer start --name g --bridge br0":                   "name",
		"capture nic0 -c 3 -w f.pcapng":                      "c",
	} {
		root := newRoot()
		cmd, rest, err := root.Find(strings.Fields(line))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if f := cmd.Flags().Lookup(flag); err != nil || f == nil || !f.Hidden || !f.Changed {
			t.Errorf("%s: %v", line, err)
		}
	}
}
