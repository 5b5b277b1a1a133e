package inspect

import (
	"fmt"
	"io"
)

// WriteRules lists the rules with their clauses.
func WriteRules(w io.Writer) error {
	for _, r := range Rules() {
		remark := ""
		switch {
		case r.Siw:
			remark = " (siw is known for it)"
		case r.Should:
			remark = " (SHOULD: a note)"
		}
		if _, err := fmt.Fprintf(w, "%-27s %s%s\n", r.Clause, r.Says, remark); err != nil {
			return err
		}
	}
	return nil
}
