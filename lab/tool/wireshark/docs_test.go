package wireshark

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestDocumentedFields: the manual names all fields of packets, and none that
// is not there.
func TestDocumentedFields(t *testing.T) {
	text, err := os.ReadFile("../../../docs/howto/opa-wireshark.md")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, m := range regexp.MustCompile(`(?:ProtoField\.\w+|ProtoExpert\.new)\("(opa(?:16b|9b)\.[a-z0-9_.]+)"`).FindAllStringSubmatch(Script, -1) {
		made = append(made, m[1])
	}
	var said []string
	for _, m := range regexp.MustCompile("`(opa(?:16b|9b)\\.[a-z0-9_.]+)`").FindAllStringSubmatch(string(text), -1) {
		said = append(said, m[1])
	}
	if len(made) < 30 {
		t.Fatalf("only %d fields found", len(made))
	}
	for _, name := range made {
		if !slices.Contains(said, name) {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, name := range said {
		if !slices.Contains(made, name) && name != "opa16b.verify" {
			t.Errorf("%s does not exist", name)
		}
	}
}
