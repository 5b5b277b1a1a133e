package topo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf"
	"tapir/lab/host/fault"
)

// ruled is a lab of two NICs with rules on its link, and a step.
func ruled(rules, step string) string {
	return "nodes:\n  a: {kind: nic, ip: 10.0.0.1/24}\n  b: {kind: nic, ip: 10.0.0.2/24}\nlinks:\n" +
		"  - between: [a, b]\n    loss: 1%\n    from: {b: {loss: 2%, delay: 1ms}}\n    rules: [" + rules + "]\nsteps:\n  - " + step + "\n"
}

func TestRules(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(ruled(`{drop: fpdu, nth: [3, 5], from: b, connection: 2}, {drop: fpdu, every: 4},
      {flip: write, field: crc, bit: 31, checksum: stale}, {flip: sync, octet: -1, bit: 0}, {delay: read-response, nth: 2, by: 20ms, segment: last},
      {reset: tcp, after: 1MiB, to: a}, {reset: fpdu, to: both}, {duplicate: send, copies: 3, probability: 50%}, {reorder: data, behind: 7, times: 2},
      {drop: 16b, l4: 0x78, optional: true, name: packets}, {drop: fpdu, nth: 3, qp: 5, from: b, name: own}, {drop: send, qp: {nic: a, qpn: 7}, name: far}`,
		"{fault: a-b, from: {a: {loss: 3%}}, rules: [{drop: fpdu, port: 7174, transmissions: 4}]}\n  - expect: {link: a-b, counter: drop-fpdu-3}")))
	if err != nil {
		t.Fatal(err)
	}
	k := l.Links[0]
	if k.Fault[0].Loss != 10_000 || k.Fault[1].Loss != 20_000 || k.Fault[1].Delay != time.Millisecond || !k.Fault[1].All {
		t.Errorf("%+v", k.Fault)
	}
	names := ""
	for i := range k.Rules {
		names += k.Rules[i].Name + " "
	}
	if names != "drop-fpdu drop-fpdu-2 flip-write flip-sync delay-read-response reset-tcp reset-fpdu duplicate-send reorder-data packets own far " {
		t.Error(names)
	}
	r := k.Rules
	if r[0].From != fault.B || len(r[0].Nth) != 2 || r[0].Connection != 2 || r[1].From != fault.Either || r[1].Every != 4 || r[2].Bit != 31 || !r[2].Stale ||
		r[3].AnyOctet || r[3].Octet != -1 || r[4].By != 20*time.Millisecond || r[4].Segment != fault.LastSegment || r[5].After != 1<<20 || r[5].To != fault.A ||
		r[6].To != fault.Either || r[7].Copies != 3 || r[7].Probability != 500_000 || r[8].Behind != 7 || r[8].Times != 2 || r[9].L4 != 0x78 || !r[9].Optional ||
		r[10].NIC != "b" || r[10].QPN != 5 || r[11].NIC != "a" || r[11].QPN != 7 {
		t.Errorf("%+v", r)
	}
	s := l.Steps[0]
	if s.Fault[0].Loss != 30_000 || s.Fault[1].Loss != 0 || len(s.Rules) != 1 || s.Rules[0].Name != "drop-fpdu-3" || s.Rules[0].Transmissions != 4 || s.Rules[0].Port != 7174 {
		t.Errorf("%+v", s)
	}
}

// Mistakes in rules are told at their place.
func TestRuleMistakes(t *testing.T) {
	const ok = "wait: 1s"
	for _, tt := range []struct{ rules, step, want string }{
		{"{lose: fpdu}", ok, "8:13: a rule begins with one of drop, delay, duplicate, flip, reset, reorder"},
		{"{drop: unicorn}", ok, "8:20: drop: expected one of frame, arp, tcp"},
		{"{drop: fpdu, nth: 0}", ok, "8:31: nth: expected which one, from 1"},
		{"{drop: fpdu, nth: 1, every: 2}", ok, "8:26: nth: nth, every and probability exclude each other"},
		{"{drop: fpdu, by: 1ms}", ok, "8:26: by: unknown key; expected one of drop, nth"},
		{"{drop: fpdu, from: c}", ok, "8:32: from: expected the end of the link"},
		{"{delay: fpdu}", ok, "8:14: delay: say how long: by"},
		{"{reset: sync}", ok, "8:14: reset: only TCP connections can be reset"},
		{"{flip: fpdu, field: colour}", ok, "8:26: field: an FPDU has no field colour: choose one of length, ddp-control"},
		{"{flip: write, field: crc, bit: 32}", ok, "8:39: bit: there are bits 0 to 31"},
		{"{flip: write, checksum: none}", ok, "8:37: checksum: expected stale"},
		{"{drop: fpdu, name: lost}", ok, "8:13: lost: the link has another counter of that name"},
		{"{drop: fpdu, name: x}, {drop: send, name: x}", ok, "8:36: x: the link has another counter of that name"},
		{"{drop: fpdu, qp: 5}", ok, "8:26: qp: say whose it is: {nic: NAME, qpn: NUMBER}, or from which NIC: from"},
		{"{drop: fpdu, qp: 0, from: a}", ok, "8:30: qp: expected the number of a QP, from 1"},
		{"{drop: fpdu, qp: {nic: a}}", ok, "8:30: qp: say which: qpn"},
		{"{drop: fpdu, qp: {nic: c, qpn: 5}}", ok, "8:36: there is no node c"},
		{"{drop: fpdu, qp: {nic: a, qpn: 5000000000}}", ok, "8:44: qpn: expected the number of a QP"},
		{"{drop: data, qp: 5, from: a}", ok, "8:26: qp: is of FPDUs, messages and RoCE packets"},
		{"", "{fault: a-b, rules: 3}", "10:25: rules: expected a list of rules"},
		{"", "{fault: a-b, from: {c: {loss: 1%}}}", "10:25: c: the link's ends are a and b"},
		{"", "{fault: a-b, from: {a: {loss: 1}}}", "10:35: loss: expected a chance"},
		{"{drop: fpdu}", "expect: {link: a-b, counter: drop-send}", "10:5: drop-send: a link counts frames"},
		{"", "{run: date, on: a, kill_after_posts: 1}", "10:6: kill_after_posts: is of RDMA programs"},
		{"", "{perf: verify, server: a, client: b, error: '('}", "10:49: error: expected a regular expression"},
	} {
		_, err := Parse("lab.yaml", []byte(ruled(tt.rules, tt.step)))
		bad := (*conf.Error)(nil)
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "lab.yaml:"+tt.want) || !strings.HasSuffix(bad.Excerpt(), "^\n") {
			t.Errorf("%s %s\n  %v\n  want %s", tt.rules, tt.step, err, tt.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(ruled("", "{perf: verify, server: a, client: b, error: 'CRC .rror'}")))
	if err != nil {
		t.Fatal(err)
	}
	s := l.Steps[0]
	if s.Outcome(errors.New("the CRC error")) != nil || s.Outcome(nil) == nil || s.Outcome(errors.New("tired")) == nil {
		t.Error("it is not the error that decides")
	}
}
