package disk

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/conf/targetconf"
)

// Flags adds the flags of a verb to those of a command.
func (w *Work) Flags(f *pflag.FlagSet) {
	if w.Verb == Discover {
		return
	}
	f.IntVarP(&w.Depth, "depth", "t", w.Depth, "commands outstanding, 1 to 64")
	if w.Verb == Write || w.Verb == Verify {
		f.Uint64Var(&w.Seed, "seed", 0, "`number` that the octets follow from")
	}
	if w.Verb == Bench {
		f.BoolVar(&w.Writes, "write", false, "write instead of reading")
		f.DurationVarP(&w.Duration, "duration", "D", w.Duration, "how long")
	}
	octets := func(name, short, usage string, set func(int64)) {
		f.VarP(&amount{set: set}, name, short, usage)
	}
	octets("offset", "", "first `octet`, such as 1M (default 0)", func(n int64) { w.Offset = n })
	octets("length", "", "`octets` (default to the end, at most 64M)", func(n int64) { w.Length = n })
	octets("size", "s", "`octets` of a command, 512 to 1M (default 64K)", func(n int64) { w.Size = int(min(n, 1<<30)) })
}

// amount is a flag of octets, which may have K, M, G or T behind them.
type amount struct {
	text string
	set  func(int64)
}

// String implements pflag.Value.
func (a *amount) String() string { return a.text }

// Type implements pflag.Value.
func (a *amount) Type() string { return "octets" }

// Set implements pflag.Value.
func (a *amount) Set(text string) (err error) {
	n := int64(0)
	if text != "0" {
		if n, err = targetconf.ParseSize(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	a.text = text
	a.set(n)
	return nil
}

// Execute runs a subcommand of tapir. What it prints goes to out.
func Execute(command *cobra.Command, argv []string, out io.Writer) error {
	root := &cobra.Command{Use: "tapir", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(command)
	root.SetArgs(append([]string{command.Name()}, argv...))
	root.SetOut(out)
	root.SetErr(out)
	return root.Execute()
}
