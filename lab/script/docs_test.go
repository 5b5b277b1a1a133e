package script

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reference returns docs/scripts.md: its fenced blocks, each with the words
// behind its fence, and the first cells of its tables.
func reference(t *testing.T) (blocks [][2]string, cells []string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```([a-z ]*)\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		blocks = append(blocks, [2]string{m[1], m[2]})
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(string(b), -1) {
		cells = append(cells, m[1])
	}
	return blocks, cells
}

func TestExamplesOfTheReference(t *testing.T) {
	blocks, _ := reference(t)
	held, failed := 0, 0
	for i, b := range blocks {
		switch b[0] {
		case "wire":
			held++
			if err := runText(b[1]); err != nil {
				t.Errorf("%v", err)
			}
		case "wire fails":
			failed++
			err := runText(b[1])
			if err == nil || i+1 == len(blocks) || err.Error()+"\n" != blocks[i+1][1] {
				t.Errorf("the reference says\n%s\nbut it is\n%v", blocks[i+1][1], err)
			}
		}
	}
	if held < 2 || failed < 2 {
		t.Errorf("only %d examples that hold and %d that fail", held, failed)
	}
}

func runText(text string) error {
	s, err := Parse("example.wire", text)
	if err != nil {
		return err
	}
	return s.Run(nil)
}

// TestTablesOfTheReference reads every line in the first column of a table,
// and wants each word of the language to be in one.
func TestTablesOfTheReference(t *testing.T) {
	_, cells := reference(t)
	words := map[string]bool{}
	for _, c := range cells {
		script := c + "\n0 listen"
		if strings.ContainsAny(c[:1], "0123456789+*&") {
			script = "0 listen\n" + c
		}
		if _, err := Parse("docs/scripts.md", script); err != nil {
			t.Errorf("%v", err)
		}
		for _, w := range strings.FieldsFunc(c, func(r rune) bool { return strings.ContainsRune(" ,[]<>", r) }) {
			words[w] = true
		}
	}
	var all []string
	for _, names := range [][]string{
		slices.Collect(maps.Keys(commands)), slices.Collect(maps.Keys(counts)), slices.Collect(maps.Keys(spans)),
		slices.Collect(maps.Keys(choices)), slices.Collect(maps.Keys(grammars)), icmpNames,
		strings.FieldsFunc(expectNames(), func(r rune) bool { return r == ',' || r == ' ' }),
		{"mss", "sackOK", "wscale", "TS", "sack", "nop", "eol", "opt", "...", "noecn", "ce", "tos", "ttl", "gso", "badsum", "trunc"},
	} {
		all = append(all, names...)
	}
	for _, w := range all {
		if !words[w] {
			t.Errorf("no table of docs/scripts.md has %q", w)
		}
	}
	whole, _ := os.ReadFile("../../docs/scripts.md")
	for w := range errorKinds {
		if !strings.Contains(string(whole), "`"+w+"`") {
			t.Errorf("docs/scripts.md does not have %q", w)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line, col  int
		msg        string
	}{
		{"empty", "# nothing\n", 1, 1, "the script has no step"},
		{"setting", "mtuu 5\n0 listen", 1, 1, `"mtuu": expected a time (of a step) or a setting: cc, delayed-ack`},
		{"setting late", "0 listen\nmtu 1500", 2, 1, "settings stand before the first step"},
		{"setting range", "mtu 100\n0 listen", 1, 5, `"100": expected mtu N, a number from 576 to 65535`},
		{"setting without value", "mtu", 1, 4, "the line ends; expected mtu N"},
		{"setting too long", "mtu 1500 9\n0 listen", 1, 10, `"9" is too much`},
		{"choice", "cc vegas\n0 listen", 1, 4, `"vegas": expected cc: cubic, reno`},
		{"time", "1.5x listen", 1, 1, `"1.5x": expected a time`},
		{"reversed range", "2~1 > . 1:1(0) ack 1", 1, 1, "expected a time"},
		{"any time of a command", "* close", 1, 1, "* stands before what is waited for"},
		{"batch out", "0 listen\n& > . 1:1(0) ack 1", 2, 1, "& stands before what the script does"},
		{"batch first", "& close", 1, 1, "& has no step before it"},
		{"range in", "1~2 < . 1:1(0) ack 1", 1, 1, "a range of times stands before a packet out only"},
		{"connection", "0 @0 close", 1, 3, "expected the number of a connection"},
		{"command", "0 shout", 1, 3, `"shout": expected <, > or a command: abort`},
		{"nothing", "0", 1, 2, "the line ends; expected < (into the NIC)"},
		{"flags", "0 < X 0:0(0)", 1, 5, `"X": expected flags out of FSRP.UEWe`},
		{"flag twice", "0 < SS 0:0(0)", 1, 5, "expected flags"},
		{"numbers", "0 < S 0", 1, 7, `"0": expected sequence numbers such as 1:1001(1000)`},
		{"sum", "0 < . 1:5(9) ack 1", 1, 7, "expected 10 behind the colon"},
		{"ack missing", "0 < . 1:1(0)", 1, 13, "the flag . but no number"},
		{"ack superfluous", "0 < S 1:1(0) ack 5", 1, 14, "ack without the flag ."},
		{"window", "0 < . 1:1(0) ack 1 win 70000", 1, 24, `"70000": expected win and a number`},
		{"open in", "0 < . 1:1(0) ack *", 1, 18, "what goes into the NIC is not open"},
		{"open option in", "0 < S 0:0(0) <mss 1460,...>", 1, 14, "has no open options"},
		{"field", "0 < S 0:0(0) wnd 5", 1, 14, "expected ack N, win N, urg N"},
		{"option", "0 < S 0:0(0) <mss 1460,nap>", 1, 24, `"nap": no option has this name; expected an option: mss N`},
		{"option number", "0 < S 0:0(0) <mss x>", 1, 15, "expected an option"},
		{"open list", "0 < S 0:0(0) <mss 1460", 1, 14, "< without >"},
		{"IP field", "0 < [cee] S 0:0(0)", 1, 6, `"cee": expected noecn, ect0`},
		{"bad checksum out", "0 > [badsum] S 0:0(0)", 1, 6, "expected noecn"},
		{"ICMP", "0 < icmp quench seq 1", 1, 10, `"quench": expected an ICMP error: net-unreachable`},
		{"ICMP out", "0 > icmp port-unreachable seq 1", 1, 10, "TCP sends no ICMP"},
		{"ICMP without number", "0 < icmp port-unreachable", 1, 26, "expected seq N"},
		{"write", "0 write many", 1, 9, "expected a number of octets"},
		{"expect", "0 expect sunshine", 1, 10, `"sunshine": expected one of acked`},
		{"state", "0 expect state OPEN", 1, 16, `"OPEN": expected a state: CLOSED, SYN-SENT`},
		{"error", "0 expect closed badly", 1, 17, "expected an error: aborted, refused"},
		{"reason", "0 expect dropped whim 1", 1, 18, "expected a reason: truncated, malformed"},
	} {
		_, err := Parse("x.wire", c.text)
		var e *Error
		if !errors.As(err, &e) || !e.Syntax || e.Line != c.line || e.Col != c.col || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("%s: %v\nwant %d:%d ... %s", c.name, err, c.line, c.col, c.msg)
		}
	}
}

const handshake = "0 listen\n0.1 < S 0:0(0) win 65535 <mss 1460>\n"

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line, col  int
		msg, got   string
	}{
		{"missing", handshake + "+0 > S. 0:0(0) ack 1\n+0.1 > . 1:1(0) ack 1", 4, 1, "missing: the NIC has sent nothing until 0.201", "nothing; state SYN-RECEIVED, the next timer runs at 1.1"},
		{"unexpected", handshake + "+0.1 < . 1:1(0) ack 1", 3, 1, "the NIC has sent more before this line", "0.1 > S. 0:0(0) ack 1 win 65535 <mss 1460>"},
		{"unexpected at the end", handshake, 2, 1, "the NIC has sent more than the script says", "0.1 > S."},
		{"early", handshake + "+0.3 > S. 0:0(0) ack 1", 3, 1, "wrong time: too early", "0.1 > S."},
		{"another connection", handshake + "+0 @2 > S. 0:0(0) ack 1", 3, 1, "another connection has sent", "0.1 > S."},
		{"several fields", handshake + "+0 > P. 5:5(0) ack 1 win 1", 3, 6, "wrong flags, sequence number, window", "0.1 > S."},
		{"option too much", handshake + "+0 > S. 0:0(0) ack 1 <>", 3, 22, "wrong options: mss 1460 is too much", "0.1 > S."},
		{"state", "0 listen\n0 expect state TIME-WAIT", 2, 16 - 6, "not so", "state CLOSED"},
		{"no connection", "0 close", 1, 1, "there is no connection yet", ""},
		{"nothing listens", "0 unlisten", 1, 1, "nothing listens", ""},
		{"listens twice", "0 listen\n0 listen", 2, 1, "already in use", ""},
		{"past", "5 listen\n1 listen 99", 2, 1, "the time has passed: it is 5 already", ""},
		{"never", "0 listen\n* expect established", 2, 10, "not so", "there is no connection"},
		{"super-frame", "gso 4\n" + handshake + "+0 > S. 0:0(0) ack 1\n+0 < . 1:1(0) ack 1\n+0 write 5000\n+0 > P. 1:5001(5000) ack 1", 7, 6,
			"wrong frame: a super-frame, [gso 1460]", "0.1 > [gso 1460] P. 1:5001(5000) ack 1"},
		{"no super-frame", handshake + "+0 > [gso 1460] S. 0:0(0) ack 1", 3, 7, "wrong gso 1460", "0.1 > S."},
		{"IP field", handshake + "+0 > [noecn, tos 4] S. 0:0(0) ack 1", 3, 14, "wrong tos 4", "0.1 > S."},
		{"foreign packet", "0 < S 0:0(0)\n+0 @2 < . 1:1(0) ack 7\n", 2, 1, "the NIC has sent more before this line", "0 > R."},
		{"connects twice", "0 connect\n+0 > S 0:0(0)\n0 connect", 3, 1, "already in use", ""},
	} {
		var e *Error
		if err := runText(c.text); !errors.As(err, &e) || e.Syntax || e.Line != c.line || e.Col != c.col ||
			!strings.Contains(e.Msg, c.msg) || !strings.HasPrefix(e.Got, c.got) {
			t.Errorf("%s: %v\nwant %d:%d: %s; %s", c.name, err, c.line, c.col, c.msg, c.got)
		}
	}
}

func TestTraceIsAScript(t *testing.T) {
	s, err := ReadFile("testdata/tcp/9293-3.5/passive-open.wire")
	if err != nil {
		t.Fatal(err)
	}
	var trace strings.Builder
	if err := s.Run(&trace); err != nil {
		t.Fatal(err)
	}
	if err := runText("0 listen\n" + trace.String()); err != nil {
		t.Errorf("%v\nin\n%s", err, trace.String())
	}
}

func TestReadFile(t *testing.T) {
	if _, err := ReadFile("testdata/none.wire"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	_, cells := reference(&testing.T{})
	for _, c := range cells {
		f.Add(c)
	}
	f.Add("0 listen\n0.1 < S 0:0(0) win 1 <mss 1>\n* > S. *:*(0) ack * win * <...>")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("x", text)
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) || !e.Syntax || e.Error() == "" {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if len(text) > 500 {
			return
		}
		if err := s.Run(nil); err != nil && !errors.As(err, new(*Error)) {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}
