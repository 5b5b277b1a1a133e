package inspect

import (
	"fmt"
	"io"
)

// WriteRules lists the rules with their clauses.
func WriteRules(w io.Writer) error {
	for _, r := range Rules() {
		siw := ""
		if r.Siw {
			siw = " (siw is known for it)"
		}
		if _, err := fmt.Fprintf(w, "%-27s %s%s\n", r.Clause, r.Says, siw); err != nil {
			return err
		}
	}
	return nil
}
