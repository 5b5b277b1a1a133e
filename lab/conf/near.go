package conf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

const (
	// near is how alike two names have to be for one to be meant by the other, 1 being
	// equal.
	near = 0.7
	// few names are listed whole.
	few = 8
)

// choice tells of the names that name could have been: those alike if there are many to
// choose from, else all, behind these words.
func choice(name, words string, all []string) string {
	type match struct {
		name  string
		alike float64
	}
	var found, begin []match
	for _, n := range all {
		m := levenshtein.Match(name, n, nil)
		slip := len(n) > 1 && len(name) > 1 && (levenshtein.Distance(name, n, nil) == 1 || letters(name) == letters(n))
		switch same := common(name, n); {
		case m >= near || slip || len(name) > 3 && same == len(name):
			found = append(found, match{n, m})
		case same > few/2 && 2*same > len(name):
			begin = append(begin, match{n, m})
		}
	}
	if found == nil {
		found = begin
	}
	if found == nil || len(all) <= few {
		return words + listed(all)
	}
	slices.SortStableFunc(found, func(a, b match) int { return int(100 * (b.alike - a.alike)) })
	var names []string
	for _, m := range found[:min(3, len(found))] {
		names = append(names, m.name)
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}

// letters are those of name in order, which are the same where two have changed places.
func letters(name string) string {
	b := []byte(name)
	slices.Sort(b)
	return string(b)
}

// common is the number of octets with which both begin.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// most is how many names are listed where none is near.
const most = 40

// OneOf tells what name, which is none of all, could have been: those that are near, else all.
func OneOf(name string, all []string) string {
	if hint := Near(name, all); hint != "" || len(all) == 0 {
		return cmp.Or(hint, "there are none")
	}
	return "choose one of " + listed(all)
}

// listed are all names, or the first ones of very many.
func listed(all []string) string {
	if len(all) > most {
		return strings.Join(all[:most], ", ") + " ..."
	}
	return strings.Join(all, ", ")
}

// Aside is what Near asks, behind a sentence; empty: none is near.
func Aside(name string, all []string) string {
	if hint := Near(name, all); hint != "" {
		return ": " + hint
	}
	return ""
}

// Near asks whether one of all was meant by a name that is none of them; empty: none is near.
func Near(name string, all []string) string {
	const others = "others: "
	if hint := choice(name, others, append(all, make([]string, few)...)); !strings.HasPrefix(hint, others) {
		return hint
	}
	return ""
}
