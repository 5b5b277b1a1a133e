package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Between these lines of the document stands the table.
const (
	beginMark = "<!-- table begin: written by make attack -->"
	endMark   = "<!-- table end -->"
)

// result is how a trial ended.
type result struct {
	*trial
	skipped string
	err     error
}

func (r *result) outcome() string {
	switch {
	case r.skipped != "":
		return "skipped: " + r.skipped
	case r.err != nil:
		return "FAILED: " + strings.Join(strings.Fields(r.err.Error()), " ")
	case r.note != "":
		return "ok: " + r.note
	}
	return "ok"
}

// document is the table in Markdown.
func document(results []result, o options, took time.Duration, load string) []byte {
	var b strings.Builder
	var uts unix.Utsname
	_ = unix.Uname(&uts) // an empty name is one, too
	linux, _, _ := strings.Cut(unix.ByteSliceToString(uts.Release[:]), "-")
	fmt.Fprintf(&b, "%s, Linux %s, %d CPUs, load %s before; %v, seed %d.\n\n", time.Now().UTC().Format("2006-01-02"),
		linux, runtime.NumCPU(), load, took.Round(time.Second), o.seed)
	b.WriteString("| row | what | how often | MiB before | after | outcome |\n|---|---|--:|--:|--:|---|\n")
	for _, r := range results {
		often := fmt.Sprintf("%d %s", r.count, r.unit)
		if r.skipped != "" {
			often = "–"
		}
		text := []rune(strings.ReplaceAll(r.outcome(), "|", "\\|"))
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.name, r.what, often, mib(r.before), mib(r.after),
			string(text[:min(len(text), 400)]))
	}
	return []byte(b.String())
}

func mib(kib int) string {
	if kib == 0 {
		return "–"
	}
	return fmt.Sprint((kib + 512) >> 10)
}
