package cli

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/usage"
)

// Spaced marks a flag that is on or off and whose older spelling has the value as the next word.
const Spaced = "tapir older spelling"

// Old adds flags of an older spelling, which help does not list.
func Old(cmd *cobra.Command, flags ...Flag) *cobra.Command {
	With(cmd, flags...)
	for _, f := range flags {
		cmd.Flags().Lookup(f.name).Hidden = true
	}
	return cmd
}

// Target takes the name of the command's target from args: the first, unless other says that it
// is something else. old is the name by an older spelling, a flag.
func Target(args []string, old string, other func(string) bool) (name string, rest []string, err error) {
	if len(args) == 0 || other(args[0]) {
		return old, args, nil
	}
	if old != "" {
		return "", nil, usage.Errorf("%s and %s: name one", args[0], old)
	}
	return args[0], args[1:], nil
}

// IsAddress tells whether an argument is an IP address.
func IsAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// IsURL tells whether an argument is a URL.
func IsURL(s string) bool { return strings.Contains(s, "://") }

// Join writes `--name 0` of flags that are marked Spaced as `--name=0`.
func Join(root *cobra.Command, args []string) (joined []string) {
	cmd, _, err := root.Find(args)
	if err != nil {
		return args
	}
	for i := 0; i < len(args); i++ {
		name, dashes := strings.CutPrefix(args[i], "--")
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		f := cmd.Flags().Lookup(name)
		if dashes && f != nil && f.Annotations[Spaced] != nil && i+1 < len(args) &&
			slices.Contains([]string{"0", "1", "true", "false"}, args[i+1]) {
			joined = append(joined, args[i]+"="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}
