package rdmap

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// seeds returns the inputs of a seed file.
func seeds(t testing.TB, file string) (out [][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}
