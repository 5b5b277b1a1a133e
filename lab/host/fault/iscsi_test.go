package fault

import (
	"fmt"
	"strings"
	"testing"

	"tapir/wire/iscsi"
	"tapir/wire/tcp"
)

// TestPDUs: rules strike PDUs of iSCSI, whatever segments they come in, and flip bits of fields where they are: with
// digests from the end of the login on, if the login has said so.
func TestPDUs(t *testing.T) {
	const none, both = "HeaderDigest=None\x00DataDigest=None\x00", "HeaderDigest=CRC32C\x00DataDigest=CRC32C\x00"
	flip := func(w What, field string) Rule { return with(Flip, w, func(r *Rule) { r.Field = field }) }
	for _, tt := range []struct {
		rule Rule
		text string
		want string // for each PDU its segments of 64 octets, and the octet of it that was flipped
	}{
		{NewRule(Drop, "iscsi"), none, "x xx x xx x xx x"},
		{NewRule(Drop, "iscsi-login"), none, "x .. . .. . .. ."},
		{NewRule(Drop, "iscsi-login-response"), none, ". xx . .. . .. ."},
		{with(Drop, "iscsi", func(r *Rule) { r.Nth, r.From = []int{2}, B }), none, ". .. . .. x .. ."},
		{NewRule(Drop, "iscsi-data-out"), none, ". .. . .. . xx ."},
		{NewRule(Drop, "iscsi-r2t"), none, ". .. . .. x .. ."},
		{with(Reset, "iscsi-r2t", nil), none, ". .. . .. x xx x"},
		{flip("iscsi-data-out", "datasn"), none, ". .. . .. . x36. ."},
		{flip("iscsi-command", "data"), none, ". .. . x56. . .. ."},
		{flip("iscsi-command", "data-digest"), none, ". .. . .. . .. ."},
		{flip("iscsi-command", "data-digest"), both, ". .. . .x72 . .. ."},
		{flip("iscsi-data-out", "header-digest"), both, ". .. . .. . x48. ."},
		{flip("iscsi-data-out", "data"), both, ". .. . .. . .x68 ."},
		{flip("iscsi-response", "statsn"), both, ". .. . .. . .. x24"},
		{flip("iscsi-response", "cmdsn"), both, ". .. . .. . .. ."},
		{NewRule(Drop, "fpdu"), both, ". .. . .. . .. ."},
	} {
		k := newTalk(t, engine(t, 1, tt.rule), 40000)
		k.shake()
		digests := iscsi.Digests{}
		var out []string
		say := func(from Side, op iscsi.Opcode, flags byte, data string) {
			var h iscsi.BHS
			h[0], h[1] = byte(op), flags
			h.SetDataLen(len(data))
			pdu := digests.Tail(append(digests.Head(nil, &h), data...), []byte(data))
			said := ""
			for at := 0; at < len(pdu); at += 64 {
				piece := pdu[at:min(at+64, len(pdu))]
				b := k.frame(from, k.seq[from], tcp.ACK|tcp.PSH, piece)
				k.seq[from] = k.seq[from].Add(len(piece))
				v := k.judge(from, b)
				if v == nil {
					said += "."
					continue
				}
				said += "x"
				v.Apply(b)
				for i, c := range b[len(b)-len(piece):] {
					if c != piece[i] {
						said += fmt.Sprint((at + i) &^ 3)
					}
				}
			}
			out = append(out, said)
		}
		say(A, 0x40|iscsi.LoginReq, iscsi.Transit|7, "")
		say(B, iscsi.LoginRsp, iscsi.Transit|7, tt.text)
		if tt.text == both {
			digests = iscsi.Digests{Header: true, Data: true}
		}
		say(A, iscsi.NopOut, iscsi.Final, "")
		say(A, iscsi.Command, iscsi.Final|iscsi.Write, strings.Repeat("w", 20))
		say(B, iscsi.R2T, iscsi.Final, "")
		say(A, iscsi.DataOut, iscsi.Final, strings.Repeat("d", 30))
		say(B, iscsi.Response, iscsi.Final, "")
		if got := strings.Join(out, " "); got != tt.want {
			t.Errorf("%v %s: %s, want %s", &tt.rule, tt.rule.Field, got, tt.want)
		}
	}
}
