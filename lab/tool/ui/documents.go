package ui

import (
	"cmp"
	"maps"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"tapir"
	"tapir/lab/tool/ui/page"
)

// shell is the page that shows a document; its script asks for the texts.
const shell = "lab/tool/ui/documents/documents.html"

// files serves the documents by their path in the repository, so that links among them
// are those of the repository, and beside them the files of the live page, which have no directory.
func files() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := tapir.Files()
		if err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		name := strings.Trim(r.URL.Path, "/")
		text, is := all[name]
		if live := page.Dir + cmp.Or(name, "index.html"); !is && all[live] != nil {
			text, is, name = all[live], true, live
		}
		switch ext := path.Ext(name); {
		case is && ext == ".md" || directory(all, name):
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			text = all[shell]
		case is:
			w.Header().Set("Content-Type", cmp.Or(kinds[ext], mime.TypeByExtension(ext), "text/plain; charset=utf-8"))
		default:
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(text) // a client that left needs nothing
	})
}

// kinds are types that the tables of the system may have otherwise.
var kinds = map[string]string{".yaml": "text/plain; charset=utf-8", ".yml": "text/plain; charset=utf-8",
	".js": "text/javascript; charset=utf-8"}

// directory tells whether files lie below a name.
func directory(all map[string][]byte, name string) bool {
	for other := range all {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

// Documents are the texts that a page lists and searches, and the names of all files
// that it can lead to.
type Documents struct {
	Schema int               `json:"schema"`
	Pages  map[string]string `json:"pages"` // Markdown
	Files  []string          `json:"files"`
}

func (s *Server) documents(*http.Request) (any, error) {
	all, err := tapir.Files()
	if err != nil {
		return nil, err
	}
	d := Documents{Schema: schema, Pages: map[string]string{}, Files: slices.Sorted(maps.Keys(all))}
	for name, text := range all {
		if path.Ext(name) == ".md" {
			d.Pages[name] = string(text)
		}
	}
	return d, nil
}
