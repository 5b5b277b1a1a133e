package script

import (
	"regexp"
	"strings"
)

// swap exchanges one word of a line for another.
func swap(pattern, from, to string) func(string) (string, bool) {
	return func(line string) (string, bool) {
		return edit(line, pattern, func(m []string) string { return strings.Replace(m[0], from, to, 1) })
	}
}

// toggle takes a word out of a line that holds it, and adds it to one that
// matches where.
func toggle(word, where string) func(string) (string, bool) {
	have := regexp.MustCompile(` ` + word + `\b`)
	return func(line string) (string, bool) {
		switch {
		case !regexp.MustCompile(where).MatchString(line):
			return line, false
		case have.MatchString(line):
			return have.ReplaceAllString(line, ""), true
		}
		return line + " " + word, true
	}
}

const outPDU = `> (write|atomic-request|atomic-response|immediate|send|send-inv|send-se|read-request|read-response|terminate) `

// messageMutations change what a message of iWARP out of the NIC must be.
var messageMutations = []mutation{
	{"error code", bump(`terminate \d+/\d+/(\d+)()`, 1)},
	{"error type", bump(`terminate \d+/(\d+)(/)`, 1)},
	{"error layer", bump(`terminate (\d+)(/)`, 1)},
	{"quoted segment", toggle("segment", `> terminate [^r]*$`)},
	{"quoted Read Request", toggle("read", `> terminate .*segment`)},
	{"DDP version", toggle("dv 2", outPDU)},
	{"RDMAP version", toggle("rv 2", outPDU)},
	{"reserved bits", toggle("rsvd 1", outPDU)},
	{"flag L", toggle("more", outPDU)},
	{"message number", toggle("msn 9", `> (send|read-request|terminate) `)},
	{"message offset", toggle("mo 9", `> (send|read-request|terminate) `)},
	{"queue", toggle("qn 3", `> (send|read-request|terminate) `)},
	{"STag", bump(`> (?:write|read-response) stag (\d+)()`, 1)},
	{"tagged offset", bump(`> .* to (\d+)()`, 1)},
	{"region", swap(`> read-request [a-z]+ `, "read-request ", "read-request no")},
	{"size", bump(`> read-request .*size (\d+)()`, 1)},
	{"source", toggle("src-to 77", `> read-request `)},
	{"payload length", bump(`> .* len (\d+)( from)`, 1)},
	{"payload", swap(`> .* from [a-z]+`, " from ", " from no")},
	{"text", swap(`> .* text "[a-z]`, `text "`, `text "x`)},
	{"opcode", swap(`> send `, "send", "send-se")},
	{"kind of start-up frame", swap(`> mpa request`, "request", "reply")},
	{"revision", toggle("rev 3", `> mpa .*\d$`)},
	{"CRC", toggle("nocrc", `> mpa `)},
	{"markers", toggle("markers", `> mpa `)},
	{"reject", toggle("reject", `> mpa `)},
	{"words", toggle("plain", `> mpa .*ird`)},
	{"IRD", bump(`> mpa .*ird (\d+)()`, 1)},
	{"ORD", bump(`> mpa .*ord (\d+)()`, 1)},
	{"peer to peer", toggle("p2p", `> mpa .*ird`)},
	{"indications", swap(`> mpa .*rtr [a-z,]+`, "rtr ", "rtr none,write,read,send")},
	{"operand", bump(`> atomic-request .*add (\d+)()`, 1)},
	{"identifier", bump(`> atomic.* id (\d+)()`, 1)},
	{"original", bump(`> atomic-response .*original (\d+)()`, 1)},
	{"end", swap(`> fin$`, "fin", "rst")},
	{"reset", swap(`> rst$`, "rst", "fin")},
}

// happeningMutations change what the application must have seen.
var happeningMutations = []mutation{
	{"event", swap(`event [a-z]+`, "event ", "event no")},
	{"error of an event", bump(`(?:event|async) .*/(\d+)()`, 1)},
	{"error of an event: none", func(l string) (string, bool) {
		return edit(l, `(event|async) ([a-z-]+) \d/\d/\S+`, func(m []string) string { return m[1] + " " + m[2] })
	}},
	{"depth", bump(`event .*ird (\d+)()`, 1)},
	{"other depth", bump(`event .*ord (\d+)()`, 1)},
	{"private data", swap(`event .*private text "`, `text "`, `text "x`)},
	{"asynchronous event", swap(`async [a-z-]+`, "async ", "async no")},
	{"work request", bump(`completion [a-z-]+ (\d+)()`, 1)},
	{"operation", swap(`completion (recv|send|write|read) `, "completion ", "completion local-inv")},
	{"status", func(l string) (string, bool) {
		return edit(l, `(success|flushed|remote-access|local-protection|local-length|remote-invalid-request)`, func(m []string) string {
			if m[1] == "fatal" {
				return "success"
			}
			return "fatal"
		})
	}},
	{"length", bump(`completion .*len (\d+)()`, 1)},
	{"solicited event", toggle("se", `completion recv .*success`)},
	{"invalidated STag", toggle("inv 7", `completion recv .*success [^i]*$`)},
	{"immediate data", toggle("imm 7", `completion recv.*success`)},
	{"state", swap(`expect (@\d )?qp (ERROR|RTS|CLOSING)`, "qp ", "qp IDLE #")},
	{"length in memory", bump(`memory [a-z]+\S* len (\d+)()`, -1)},
	{"pattern in memory", toggle("fill 77", `memory \S+ len \d+$`)},
	{"validity", swap(`region [a-z]+ (valid|invalid)`, "valid", "")},
	{"counter", bump(`counter [a-z_]+ (\d+)()`, 1)},
	{"line: none", func(l string) (string, bool) {
		return "", regexp.MustCompile(`^\+0 +(@\d )?expect (event|async|completion|memory [a-z]+\S* len )`).MatchString(l)
	}},
}
