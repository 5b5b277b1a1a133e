// Package pagetest reads the data of a report, which is a page with a script.
package pagetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Text returns all names and values of the data of a page, one in a line.
func Text(t testing.TB, page []byte) string {
	t.Helper()
	_, data, begins := bytes.Cut(page, []byte(`<script type="application/json" id="data">`))
	data, _, ends := bytes.Cut(data, []byte("</script>"))
	var v any
	if err := json.Unmarshal(data, &v); err != nil || !begins || !ends {
		t.Fatalf("the page has no data: %v: %.200s", err, page)
	}
	rest := bytes.ReplaceAll(page, data, nil)
	for _, other := range []string{`src="`, `href="http`} {
		if bytes.Contains(rest, []byte(other)) {
			t.Errorf("the page needs another file: it has %s", other)
		}
	}
	var b strings.Builder
	say(&b, v)
	return b.String()
}

func say(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			fmt.Fprintln(b, k)
			say(b, x)
		}
	case []any:
		for _, x := range v {
			say(b, x)
		}
	default:
		fmt.Fprintln(b, v)
	}
}
