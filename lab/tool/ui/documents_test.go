package ui

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tapir"
)

// away are links of the documents to what the program does not contain: sources and tests.
var away = regexp.MustCompile(`^\.ci/|\.wire$|\.go$|^examples/(ci/python|containerlab)$`)

// TestDocuments asks for each file that the program contains, and looks where the links of the documents lead.
func TestDocuments(t *testing.T) {
	all, err := tapir.Files()
	must(t, err)
	s := serve(t, Options{})
	c := visitor(t, s)
	get := func(name string) (kind string, text []byte) {
		resp, err := c.Get(s.at("/" + name))
		must(t, err)
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, resp.Status)
		}
		return resp.Header.Get("Content-Type"), text
	}
	var d Documents
	read(t, c, s.at("/api/v1/documents"), &d)
	if len(d.Files) != len(all) || len(d.Pages) < 90 {
		t.Errorf("%d files and %d pages of %d", len(d.Files), len(d.Pages), len(all))
	}
	link := regexp.MustCompile(`\]\(([a-zA-Z.][^):# ]*)(?:#[^)]*)?\)`)
	for name, want := range all {
		now, err := os.ReadFile(filepath.Join("../../..", name))
		if must(t, err); !bytes.Equal(now, want) {
			t.Errorf("%s is not that of the repository", name)
		}
		kind, text := get(name)
		if path.Ext(name) != ".md" {
			if !bytes.Equal(text, want) {
				t.Errorf("%s is served with other octets", name)
			}
			continue
		}
		if !strings.HasPrefix(kind, "text/html") || !bytes.Contains(text, []byte("documents.js")) || d.Pages[name] != string(want) {
			t.Errorf("%s is served as %s", name, kind)
		}
		for _, m := range link.FindAllSubmatch(want, -1) {
			to := path.Join(path.Dir(name), string(m[1]))
			if all[to] == nil && !directory(all, to) && !away.MatchString(to) {
				t.Errorf("%s: the program does not contain %s", name, to)
			}
		}
	}
	for name, want := range map[string]string{"docs/concepts/architecture.svg": "image/svg+xml", "docs/start": "text/html",
		"docs/howto/ui-record.png": "image/png", "examples/pair.yaml": "text/plain", shell: "text/html"} {
		if kind, _ := get(name); !strings.HasPrefix(kind, want) {
			t.Errorf("%s is %s, want %s", name, kind, want)
		}
	}
	resp, err := c.Get(s.at("/docs/absent.md"))
	must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a document that is not there: %s", resp.Status)
	}
}
