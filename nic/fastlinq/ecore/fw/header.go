package fw

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// A header is C: an array of 32-bit words for each section, of octets for the
// mode trees.
const (
	headerComment = "/* Storm firmware "
	zippedRemark  = ", arrays zipped"
	headerEnd     = "#endif"
	perLine       = 8
)

var arrayNames = [numSections]string{"fw_ver_info", "init_ops", "init_val", "modes_tree_buf", "iro_arr", "fw_overlays"}

// width is the size of an element of a section's array in octets.
func width(section int) int {
	if section == secTrees {
		return 1
	}
	return 4
}

// header is the file.
func (s *sections) header(im *Image, f Form) []byte {
	var w strings.Builder
	remark := ""
	if f.Zipped() {
		remark = zippedRemark
	}
	fmt.Fprintf(&w, "%s%v for %v%s: what the init tool runs. */\n", headerComment, im.Version, im.Chips, remark)
	w.WriteString("#ifndef TAPIR_INIT_VALUES_H\n#define TAPIR_INIT_VALUES_H\n\n#include <stdint.h>\n")
	for i, data := range s.data {
		n := width(i)
		fmt.Fprintf(&w, "\nstatic const uint%d_t %s[] = {", 8*n, arrayNames[i])
		for at := 0; at < len(data); at += n {
			sep := " "
			if at/n%perLine == 0 {
				sep = "\n\t"
			}
			if n == 4 {
				fmt.Fprintf(&w, "%s%#010x,", sep, binary.LittleEndian.Uint32(data[at:]))
			} else {
				fmt.Fprintf(&w, "%s%#04x,", sep, data[at])
			}
		}
		if len(data) == 0 {
			w.WriteString("\n\t0") // C has no arrays of nothing
		}
		w.WriteString("\n};\n")
	}
	w.WriteString("\n" + headerEnd + "\n")
	return []byte(w.String())
}

// scanner reads the tokens of a header.
type scanner struct {
	text string
	at   int
	line int
	head int // where the line begins
}

func (c *scanner) where() string { return fmt.Sprintf("line %d, column %d", c.line, c.at-c.head+1) }

// skip leaves out white space, comments and lines of the preprocessor, but the
// last.
func (c *scanner) skip() {
	for c.at < len(c.text) {
		rest := c.text[c.at:]
		switch {
		case rest[0] == '\n':
			c.at++
			c.line, c.head = c.line+1, c.at
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			c.at++
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest, "*/")
			if end < 0 {
				c.at = len(c.text)
				return
			}
			c.line += strings.Count(rest[:end], "\n")
			if nl := strings.LastIndexByte(rest[:end], '\n'); nl >= 0 {
				c.head = c.at + nl + 1
			}
			c.at += end + 2
		case rest[0] == '#' && !strings.HasPrefix(rest, headerEnd):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			c.at += end
		default:
			return
		}
	}
}

// word takes the next token: a name, a number, or one other character; "" at
// the end.
func (c *scanner) word() string {
	c.skip()
	rest := c.text[c.at:]
	n := strings.IndexFunc(rest, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if n < 0 {
		n = len(rest)
	}
	if n == 0 && rest != "" {
		n = 1
	}
	c.at += n
	return rest[:n]
}

// expect takes tokens that have to come.
func (c *scanner) expect(section int, words ...string) error {
	for _, want := range words {
		c.skip()
		where := c.where()
		if got := c.word(); got == "" {
			return refuse(where, "it ends within %s", arrayNames[section])
		} else if got != want {
			return refuse(where, "%q, where %s needs %q", got, arrayNames[section], want)
		}
	}
	return nil
}

// parseHeader reads the arrays of a header.
func parseHeader(b []byte) (*sections, error) {
	c := &scanner{text: string(b), line: 1}
	var s sections
	for i := range numSections {
		typ := fmt.Sprintf("uint%d_t", 8*width(i))
		c.skip()
		if err := c.expect(i, "static", "const", typ, arrayNames[i], "[", "]", "=", "{"); err != nil {
			return nil, err
		}
		c.skip()
		s.where[i] = c.where()
		data, err := c.elements(i)
		if err != nil {
			return nil, err
		}
		s.data[i] = data
		if err := c.expect(i, ";"); err != nil {
			return nil, err
		}
	}
	c.skip()
	where := c.where()
	if rest := strings.TrimSpace(c.text[c.at:]); rest == "" || strings.HasPrefix(headerEnd, rest) && rest != headerEnd {
		return nil, refuse(where, "it ends before %s", headerEnd)
	} else if rest != headerEnd {
		return nil, refuse(where, "more than the six arrays")
	}
	return &s, nil
}

// elements reads an array up to its closing brace.
func (c *scanner) elements(section int) (data []byte, err error) {
	n := width(section)
	for {
		c.skip()
		where := c.where()
		switch w := c.word(); {
		case w == "":
			return nil, refuse(where, "it ends within %s", arrayNames[section])
		case w == "}":
			return data, nil
		case w == "0" && len(data) == 0: // nothing, in C
			return nil, c.expect(section, "}")
		default:
			v, err := strconv.ParseUint(w, 0, 8*n)
			if err != nil {
				return nil, refuse(where, "%q in %s is no number of %d bits", w, arrayNames[section], 8*n)
			}
			if err := c.expect(section, ","); err != nil {
				return nil, err
			}
			if n == 1 {
				data = append(data, byte(v))
			} else {
				data = binary.LittleEndian.AppendUint32(data, uint32(v))
			}
		}
	}
}
