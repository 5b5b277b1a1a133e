package result

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"clip":    clip,
	"seconds": func(s float64) string { return fmt.Sprintf("%.3f", s) },
	"time":    func(t time.Time) string { return t.Format("2006-01-02 15:04:05 -07:00") },
	"charts": func(s *Step) ([]template.HTML, error) {
		all, err := s.charts()
		return drawings(all), err
	},
	"topology": func(r *Result) (template.HTML, error) {
		var b bytes.Buffer
		if r.lab == nil {
			return "", nil
		}
		err := r.lab.SVG(&b)
		return template.HTML(b.String()), err
	},
	"svg": func(text string) template.HTML { return template.HTML(text) },
}).Parse(pageText))

// drawings marks SVG as trusted: this package writes it, with all text escaped.
func drawings(all []string) (trusted []template.HTML) {
	for _, svg := range all {
		trusted = append(trusted, template.HTML(svg))
	}
	return trusted
}

// HTML writes results as one page that needs nothing else: no script, no font,
// no network. It is XHTML, too.
func HTML(w io.Writer, all ...*Result) error { return page(w, false, all...) }

// page writes the page. If it lies in the directory of the captures (beside), it
// links to them.
func page(w io.Writer, beside bool, all ...*Result) error {
	data := struct {
		Title  string
		Labs   []*Result
		Beside bool
		Counts map[string]int
	}{Labs: all, Beside: beside, Counts: map[string]int{}}
	var names []string
	for _, r := range all {
		names = append(names, r.Lab+": "+r.Verdict)
		data.Counts[r.Verdict]++
	}
	data.Title = strings.Join(names, ", ")
	if len(all) > 3 {
		data.Title = fmt.Sprintf("%d labs: %d pass, %d fail", len(all), data.Counts[Passed], data.Counts[Failed])
	}
	return pageTemplate.Execute(w, data)
}
