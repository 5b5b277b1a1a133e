// Package page has the files of the page of `tapir ui`, and writes it as one file.
package page

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"strings"
)

// Files are the files of the page.
//
//go:embed *.html *.css *.js uPlot.LICENSE
var Files embed.FS

// Write writes the page with its data as one document that needs nothing else: no other
// file, no network. data is {"records": [record.Record...]}.
func Write(w io.Writer, title string, data any) error {
	octets, err := json.Marshal(data) // which escapes <
	if err != nil {
		return err
	}
	read := func(name string) string {
		text, e := fs.ReadFile(Files, name)
		if e != nil {
			err = e
		}
		return string(text)
	}
	modules, _ := fs.Glob(Files, "*.js") // the pattern is good
	imports := map[string]string{}
	for _, name := range modules {
		text := read(name)
		for _, other := range modules { // a module in the document itself has no place to begin from
			text = strings.ReplaceAll(text, `"./`+other+`"`, `"tapir/`+other+`"`)
		}
		imports["tapir/"+name] = "data:text/javascript;base64," + base64.StdEncoding.EncodeToString([]byte(text))
	}
	plot := "uPlot.iife.min.js"
	delete(imports, "tapir/"+plot)
	table, _ := json.Marshal(map[string]any{"imports": imports})
	document := strings.NewReplacer(
		"<title>Tapir</title>", "<title>"+html.EscapeString(title)+"</title>",
		`<link rel="stylesheet" href="uPlot.min.css">`, "<style>"+read("uPlot.min.css")+"</style>",
		`<link rel="stylesheet" href="page.css">`, "<style>"+read("page.css")+"</style>",
		`<script src="`+plot+`"></script>`, "<script>"+read(plot)+"</script>",
		`<script type="module" src="app.js"></script>`, `<script type="importmap">`+string(table)+"</script>\n"+
			`<script type="application/json" id="data">`+string(octets)+"</script>\n"+
			`<script type="module">import "tapir/app.js";</script>`,
	).Replace(read("index.html"))
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err = io.WriteString(w, document)
	return err
}
