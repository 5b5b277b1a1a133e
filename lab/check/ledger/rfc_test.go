package main

import (
	"fmt"
	"regexp"
	"strings"
)

// sentence is one sentence of an RFC that holds a requirement.
type sentence struct{ id, level, text string }

var (
	keyword   = regexp.MustCompile(`\b(MUST NOT|MUST|SHALL NOT|SHALL|SHOULD NOT|SHOULD|REQUIRED|RECOMMENDED)\b`)
	pageFoot  = regexp.MustCompile(`\[Page \d+\]$`)
	pageHead  = regexp.MustCompile(`^RFC \d+ .*\d{4}$`)
	heading   = regexp.MustCompile(`^(?:Appendix )?([0-9A-Z](?:\.\d+)*)\.? +\S`)
	numbered  = regexp.MustCompile(`^(\d|Appendix |[A-Z]\.\d)`)
	listItem  = regexp.MustCompile(`^\s*(\*|o|-|\d+\.|\d+\))\s`)
	endOfText = regexp.MustCompile(`[.:;]$`)
)

// paragraph is text between blank lines, on one line.
type paragraph struct{ section, text string }

// paragraphs takes the text of an RFC apart: the table of contents is left
// out, items of lists stand by themselves, and a paragraph goes on behind a
// page break unless that comes at the end of a sentence.
func paragraphs(text string) (out []paragraph) {
	section, blank, broken := "", false, false // what was seen since the last text
	var lines []string
	flush := func() {
		if len(lines) > 0 && section != "" {
			out = append(out, paragraph{section, strings.Join(strings.Fields(strings.Join(lines, " ")), " ")})
		}
		lines = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimRight(line, " \r\n"), "\f")
		switch {
		case pageFoot.MatchString(line):
			broken = true
			continue
		case pageHead.MatchString(line):
			continue
		case strings.TrimSpace(line) == "":
			blank = true
			continue
		}
		wasBlank, wasBroken := blank, broken
		blank, broken = false, false
		if m := heading.FindStringSubmatch(line); m != nil && numbered.MatchString(line) {
			flush()
			if !strings.Contains(line, "....") {
				section = m[1]
				continue
			}
		}
		switch {
		case listItem.MatchString(line), wasBlank && !wasBroken:
			flush()
		case wasBroken && len(lines) > 0 && endOfText.MatchString(lines[len(lines)-1]):
			flush()
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	flush()
	return out
}

// sentences returns the sentences of an RFC's text that hold a requirement,
// with the ids they have in the ledger.
func sentences(rfc, text string) (out []sentence) {
	numbers := map[string]int{}
	for _, p := range paragraphs(text) {
		for _, s := range splitSentences(p.text) {
			words := keyword.FindAllString(s, -1)
			if len(words) == 0 || strings.Contains(s, "key words") || strings.Contains(s, "RFC 2119") {
				continue
			}
			level := "SHOULD"
			for _, w := range words {
				if !strings.HasPrefix(w, "SHOULD") && w != "RECOMMENDED" {
					level = "MUST"
				}
			}
			numbers[p.section]++
			out = append(out, sentence{fmt.Sprintf("%s-%s-%d", rfc, p.section, numbers[p.section]), level, s})
		}
	}
	return out
}

// splitSentences divides behind a full stop that a capital letter, a quote or
// a parenthesis follows.
func splitSentences(p string) (out []string) {
	start := 0
	for i := 0; i+2 < len(p); i++ {
		if p[i] == '.' && p[i+1] == ' ' && strings.IndexByte(`ABCDEFGHIJKLMNOPQRSTUVWXYZ"('`, p[i+2]) >= 0 {
			out = append(out, p[start:i+1])
			start = i + 2
		}
	}
	return append(out, p[start:])
}
