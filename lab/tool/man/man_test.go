package man

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Commands stand under the titles of their groups, those without one at the end.
func TestGroups(t *testing.T) {
	root := &cobra.Command{Use: "x"}
	root.AddGroup(&cobra.Group{ID: "b", Title: "Second:"}, &cobra.Group{ID: "empty", Title: "None:"})
	run := func(*cobra.Command, []string) {}
	root.AddCommand(&cobra.Command{Use: "alone", Short: "A", Run: run}, &cobra.Command{Use: "grouped", Short: "B", GroupID: "b", Run: run})
	got := string(page(root, "v1"))
	if want := ".SH COMMANDS\n.SS Second\n.TP\n.B grouped\nB\n.TP\n.B alone\nA\n"; !strings.Contains(got, want) {
		t.Error(got)
	}
}
