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

// cell is the first cell of a table of docs/reference/scripts.md.
type cell struct {
	text     string
	protocol string // whose part it is in
}

// script is a script with the cell as a line.
func (c cell) script() string {
	head, first := "protocol "+c.protocol+"\n", "0 listen"
	switch c.protocol {
	case "tcp":
		head = ""
	case "16b", "ptp", "roce":
		first = "0 expect quiet"
	}
	if strings.ContainsAny(c.text[:1], "0123456789+*&") {
		return head + first + "\n" + c.text
	}
	return head + c.text + "\n" + first
}

// reference returns docs/reference/scripts.md: its fenced blocks, each with the words
// behind its fence, and the first cells of its tables.
func reference(t *testing.T) (blocks [][2]string, cells []cell) {
	t.Helper()
	b, err := os.ReadFile("../../../docs/reference/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```([a-z ]*)\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		blocks = append(blocks, [2]string{m[1], m[2]})
	}
	protocol := "tcp"
	for _, l := range strings.Split(string(b), "\n") {
		switch l {
		case "# Scripts of iWARP":
			protocol = "iwarp"
		case "# Scripts of 16B packets":
			protocol = "16b"
		case "# Scripts of PTP messages":
			protocol = "ptp"
		case "# Scripts of RoCE":
			protocol = "roce"
		}
		if m := regexp.MustCompile("^\\| `(.*?)` \\|").FindStringSubmatch(l); m != nil {
			cells = append(cells, cell{m[1], protocol})
		}
	}
	if protocol != "roce" {
		t.Error("docs/reference/scripts.md lacks the part of a protocol")
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
	of := map[string]map[string]bool{"16b": {}, "ptp": {}, "roce": {}}
	for _, c := range cells {
		if _, err := Parse("docs/reference/scripts.md", c.script()); err != nil {
			t.Errorf("%v", err)
		}
		for _, w := range strings.FieldsFunc(c.text, func(r rune) bool { return strings.ContainsRune(" ,[]<>", r) }) {
			words[w] = true
			if of[c.protocol] != nil {
				of[c.protocol][w] = true
			}
		}
	}
	for name, p := range map[string]*protocol{"16b": fabricProtocol, "ptp": ptpProtocol, "roce": roceProtocol} {
		for _, w := range p.words() {
			if !of[name][w] {
				t.Errorf("no table of docs/reference/scripts.md about %s has %q", name, w)
			}
		}
	}
	var all []string
	for _, names := range [][]string{
		slices.Collect(maps.Keys(commands)), slices.Collect(maps.Keys(new(settings).table())), slices.Collect(maps.Keys(grammars)), icmpNames,
		slices.Collect(maps.Keys(rdmaCommands)), slices.Collect(maps.Keys(streamWords)), slices.Collect(maps.Keys(ddpFields)),
		slices.Collect(maps.Keys(headerFields)), slices.Collect(maps.Keys(atomicNames)), slices.Collect(maps.Keys(payloadWords)),
		slices.Collect(maps.Keys(rdmaExpectations)), slices.Collect(maps.Keys(postOps)), formWords(framingForms), formWords(startupForms),
		frameKinds, kindNames(), {"segment", "read", "order", "reserved", "m", "d", "r", "fill", "from", "any", "extra", "trim", "more"},
		slices.Collect(maps.Keys(tcpExpects)),
		{"mss", "sackOK", "wscale", "TS", "sack", "nop", "eol", "opt", "...", "noecn", "ce", "tos", "ttl", "gso", "badsum", "trunc"},
	} {
		all = append(all, names...)
	}
	for _, w := range all {
		if !words[w] {
			t.Errorf("no table of docs/reference/scripts.md has %q", w)
		}
	}
	whole, _ := os.ReadFile("../../../docs/reference/scripts.md")
	prose := slices.AppendSeq(slices.Collect(maps.Keys(errorKinds)), maps.Keys(eventNames))
	prose = slices.AppendSeq(prose, maps.Keys(asyncNames))
	prose = slices.AppendSeq(prose, maps.Keys(qpStates))
	prose = slices.AppendSeq(prose, maps.Keys(accessBits))
	for _, w := range append(prose, tcpExpectations...) {
		if !strings.Contains(string(whole), "`"+w+"`") {
			t.Errorf("docs/reference/scripts.md does not have %q", w)
		}
	}
}

// words are all of a protocol's language.
func (p *protocol) words() []string {
	list := slices.AppendSeq(slices.Collect(maps.Keys(p.settings(&settings{ptp: defaultPTP()}))), maps.Keys(p.commands))
	list = slices.AppendSeq(list, maps.Keys(p.expects))
	for name, kind := range p.messages {
		list = append(list, name)
		for _, f := range kind.fields {
			list = append(list, f.name)
		}
	}
	return list
}

// formWords are the words of a list of forms such as "mss N, sackOK or nop".
func formWords(forms string) (words []string) {
	for _, form := range strings.FieldsFunc(forms, func(r rune) bool { return r == ',' }) {
		for _, alternative := range strings.Split(form, " or ") {
			words = append(words, strings.Fields(alternative)[0])
		}
	}
	return words
}

func kindNames() (names []string) {
	for i := range pduKinds {
		names = append(names, pduKinds[i].name)
	}
	return names
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
		{"choice", "cc vegas\n0 listen", 1, 4, `"vegas": expected cc: cubic, reno, dctcp`},
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

// TestSyntaxErrorsOfRDMA has lines of iWARP that cannot be read.
func TestSyntaxErrorsOfRDMA(t *testing.T) {
	for _, c := range []struct {
		name, text string
		col        int
		msg        string
	}{
		{"command", "0 shout", 3, `"shout": expected <, > or a command: abort, accept, connect`},
		{"message", "0 < sendd len 5", 5, "or a message: atomic-request"},
		{"framing", "0 < [badcrc, bent] send", 14, `"bent": expected badcrc, crc N`},
		{"framing out", "0 > [badcrc] send", 5, "the NIC's output is framed as RFC 5044 says"},
		{"framing of fin", "0 < [badcrc] fin", 5, "fin has no octets"},
		{"cut", "0 < [cut 0] send", 6, `"cut 0": expected badcrc`},
		{"field", "0 < send mns 5", 10, `"mns": expected dv, inv`},
		{"field too wide", "0 < send dv 4", 13, `"4": expected dv: a number of 2 bits`},
		{"open in", "0 < send msn *", 14, "what goes into the NIC is not open"},
		{"region", "0 < write 5x len 5", 11, `"5x": expected a region such as buf or buf+100`},
		{"region with an offset that is none", "0 < write buf+x len 5", 11, `"buf+x": expected`},
		{"payload out", "0 > send len 5", 10, "what the NIC sends is not the peer's"},
		{"payload", "0 < send len many", 14, `"many": expected a number of octets`},
		{"digits", "0 < send hex 123", 14, "an even number of hexadecimal digits"},
		{"text", "0 < send text hello", 15, `expected a text in ""`},
		{"hidden out", "0 > send hidden", 10, "must be stated"},
		{"code", "0 > terminate 1/1", 15, `"1/1": expected an error as layer/type/code`},
		{"code too wide", "0 > terminate 1/1/256", 15, "expected an error as layer/type/code"},
		{"open code in", "0 < terminate 1/1/*", 15, "is not open; expected a code"},
		{"segment", "0 > terminate 1/1/1 segment-x", 21, "expected segment (the last one)"},
		{"start-up frame", "0 < mpa answer", 9, `"answer": expected a start-up frame: request, reply`},
		{"start-up field", "0 < mpa request five", 17, `"five": expected rev N, crc`},
		{"indications", "0 < mpa request rtr write,fax", 21, `"write,fax": expected ready-to-receive`},
		{"key", `0 < mpa request key "short"`, 21, "a key has 16 octets, not 5"},
		{"lie out", "0 > mpa reply pd-length 5", 15, "cannot be forged"},
		{"raw out", "0 > raw hex 00", 5, "octets go into the NIC only"},
		{"region name", "0 mr len 5", 6, "none of the words of messages"},
		{"rights", "0 mr buf 5 rx", 12, `"rx": expected rights such as lw,rw,rr out of lr, lw, ra, rr, rw`},
		{"post", "0 post sand 1", 8, `"sand": expected an operation: `},
		{"piece", "0 post send 1 buf", 18, "expected len N behind a region"},
		{"modify", "0 modify RTS", 10, `"RTS": expected a state: RESET, INIT, SQD, ERR`},
		{"part", "0 establish both", 13, `"both": expected the NIC's part: passive, active`},
		{"expect", "0 expect cwnd 5", 10, `"cwnd": expected one of async, completion`},
		{"event", "0 expect event party", 16, `"party": expected an event: closed`},
		{"status", "0 expect completion recv 1 fine", 28, `"fine": expected a status: `},
		{"memory", "0 expect memory 5", 17, "expected untouched, or a region"},
		{"octets", "0 expect memory buf full", 21, `"full": expected octets`},
		{"answer", "0 accept fast", 10, `"fast": expected ird N, ord N`},
	} {
		_, err := Parse("x.wire", "protocol iwarp\n"+c.text)
		var e *Error
		if !errors.As(err, &e) || !e.Syntax || e.Line != 2 || e.Col != c.col || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("%s: %v\nwant 2:%d ... %s", c.name, err, c.col, c.msg)
		}
	}
	if _, err := Parse("x.wire", "markers on\n0 listen"); err == nil || !strings.Contains(err.Error(), "expected the line before: protocol iwarp") {
		t.Errorf("a setting of iWARP in a script of TCP: %v", err)
	}
}

// TestSyntaxErrorsOfBenches has mistakes in scripts of 16B packets and of PTP.
func TestSyntaxErrorsOfBenches(t *testing.T) {
	for _, c := range []struct {
		protocol, text string
		col            int
		msg            string
	}{
		{"16b", "mtuu 5", 1, `"mtuu": expected a time (of a step) or a setting: closed`},
		{"16b", "unknown fax", 9, `"fax": expected treatment of frames`},
		{"16b", "0 < 17b", 5, `"17b": expected a message: 16b`},
		{"16b", "0 < 16b slid", 13, "the line ends; expected a number of 24 bits"},
		{"16b", "0 < 16b sc 32", 12, `"32": expected sc: a number of 5 bits`},
		{"16b", "0 < 16b sc *", 12, "what goes into the NIC is not open"},
		{"16b", "0 > 16b badicrc", 9, `"badicrc": expected age`},
		{"16b", "0 < 16b dst 5", 13, `"5": expected dst: an Ethernet address`},
		{"16b", "0 shout", 3, `"shout": expected <, > or a command: close`},
		{"16b", "0 expect peace", 10, `"peace": expected one of counter, dropped, frame, quiet`},
		{"16b", "0 mac 5 5", 7, `"5": expected an Ethernet address`},
		{"ptp", "profile none", 9, "none"},
		{"ptp", "offset soon", 8, `"soon": expected a time`},
		{"ptp", "0 < sync time soon", 15, `"soon": expected time: a time`},
		{"ptp", "0 < sync source 2", 17, `"2": expected source: a port as CLOCK/PORT`},
		{"ptp", "0 < sync interval 200", 19, `"200": expected interval: a number from -128 to 127`},
		{"ptp", "0 step soon", 8, `"soon": expected a time`},
	} {
		_, err := Parse("x.wire", "protocol "+c.protocol+"\n"+c.text)
		var e *Error
		if !errors.As(err, &e) || !e.Syntax || e.Line != 2 || e.Col != c.col || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("%s: %v\nwant 2:%d ... %s", c.text, err, c.col, c.msg)
		}
	}
}

// TestFailuresOfBenches has scripts of 16B packets and of PTP that do not hold.
func TestFailuresOfBenches(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		msg  string
	}{
		{"protocol 16b\n0.1 < 16b", 2, "more has happened than the script says"},
		{"protocol 16b\n0.1 < 16b\n+0 expect frame len 61", 3, "not so"},
		{"protocol 16b\n0.1 send len 60", 2, "more than the script says"},
		{"protocol 16b\n0.1 send len 60\n+0 > 16b dlid 3", 3, "wrong dlid"},
		{"protocol 16b\n0.1 < 16b badicrc\n+0 expect dropped icrc 2", 3, "not so"},
		{"protocol 16b\n0.1 < 16b badicrc\n+0 expect dropped nothing 2", 3, "not so"},
		{"protocol ptp\n0 expect port MASTER", 2, "not so"},
		{"protocol ptp\n9 expect port MASTER", 2, "more before this line"},
		{"protocol ptp\n6~8 > sync", 2, "wrong message: not sync"},
		{"protocol ptp\n6~8 > announce priority1 127", 2, "wrong priority1"},
		{"protocol ptp\ndomain 7\n6~8 > announce", 3, "wrong domain"},
	} {
		var e *Error
		if err := runText(c.text); !errors.As(err, &e) || e.Syntax || e.Line != c.line || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("%q: %v\nwant line %d: %s", c.text, err, c.line, c.msg)
		}
	}
}

// TestFailuresOfRDMA has scripts of iWARP that do not hold.
func TestFailuresOfRDMA(t *testing.T) {
	const up = "protocol iwarp\n0 mr buf 100\n0.1 establish passive\n"
	for _, c := range []struct {
		name, text string
		line, col  int
		msg, got   string
	}{
		{"unclaimed", "+0 post recv 1 buf len 9\n+0 < send len 5\n+0 expect memory buf len 5", 6, 1, "more has happened than the script says", "expect completion recv 1 success len 5"},
		{"memory", "+0 < write buf len 5", 4, 1, "more has happened", "memory changed: buf len 5"},
		{"memory in the middle", "+0 < write buf+10 len 5\n+0 expect memory untouched", 5, 11, "not so", "memory changed: buf+10 len 5"},
		{"other octets", "+0 < write buf len 5\n+0 expect memory buf len 5 fill 1", 5, 11, "not so", "payload: octet 0 is "},
		{"another message", "+0 < read-request buf size 5\n+0 > send", 5, 6, "wrong opcode", "0.1 > read-response"},
		{"a field", "+0 < read-request buf size 5\n+0 > read-response stag 1 to 0x10000 len 5 from buf", 5, 20, "wrong stag", "0.1 > read-response"},
		{"payload", "+0 < read-request buf size 5\n+0 > read-response stag 0x5151 to 0x10000 len 5 from buf+1", 5, 43, "wrong payload: octet 0", "0.1 > read-response"},
		{"no region", "+0 < write nuf len 5", 4, 12, `no region is called "nuf"`, ""},
		{"nothing lost", "+0 resend", 4, 1, "0 segments are lost", ""},
		{"no marker", "+0 < [badmarker] send", 4, 18, "no marker falls into this FPDU", ""},
		{"nothing hidden", "+0 < send hidden", 4, 11, "nothing is hidden", ""},
		{"no such segment", "+0 < terminate 1/1/0 segment", 4, 22, "there is no such segment", ""},
		{"region too short", "+0 expect memory buf+90 len 20", 4, 11, "not so", "region buf has 100 octets only"},
		{"region twice", "+0 mr buf 5", 4, 1, "there is a region of that name", ""},
		{"stream too short", "+0 < . 99:100(1) ack 1", 4, 8, "the peer's stream holds only 24 octets", ""},
		{"counter", "+0 expect counter none 1", 4, 11, "not so", "no counter is called none"},
		{"NIC", "", 1, 1, "MTU 20000: want 576 to 16000", ""},
	} {
		text := up + c.text
		if c.name == "NIC" {
			text = "protocol iwarp\nmtu 20000\n0 listen"
		}
		var e *Error
		if err := runText(text); !errors.As(err, &e) || e.Syntax || e.Line != c.line || e.Col != c.col ||
			!strings.Contains(e.Msg, c.msg) || !strings.HasPrefix(e.Got, c.got) {
			t.Errorf("%s: %v\nwant %d:%d: %s; %s", c.name, err, c.line, c.col, c.msg, c.got)
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
		f.Add(c.script())
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
