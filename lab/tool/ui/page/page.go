// Package page writes the page of `tapir ui`, whose files are beside it, as one file.
package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"tapir"
)

// Dir is where the files of the page are.
const Dir = "lab/tool/ui/page/"

// Write writes the page with its data as one document that needs nothing else: no other
// file, no network. data is {"records": [record.Record...]}.
func Write(w io.Writer, title string, data any) error {
	octets, err := json.Marshal(data) // which escapes <
	if err != nil {
		return err
	}
	all, err := tapir.Files()
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	read := func(name string) string {
		text, is := all[Dir+name]
		if !is {
			err = fmt.Errorf("page: %s%s is not in the program", Dir, name)
		}
		return string(text)
	}
	var modules []string
	for name := range all {
		if name, in := strings.CutPrefix(name, Dir); in && strings.HasSuffix(name, ".js") {
			modules = append(modules, name)
		}
	}
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
		return err
	}
	_, err = io.WriteString(w, document)
	return err
}
