package iscsi

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"

	"tapir/nic/iscsi/keys"
	"tapir/wire/iscsi"
)

// value is what a login response says for a key.
func value(t *testing.T, g pdu, key string) string {
	t.Helper()
	pairs, err := iscsi.ParseText(g.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if p.Key == key {
			return p.Value
		}
	}
	return ""
}

// TestCHAP: who knows the secret gets in, by either algorithm, and may ask the target for
// its own; who does not is refused.
func TestCHAP(t *testing.T) {
	for _, c := range []struct {
		what, methods, algorithms, user, secret string
		mutual                                  string // our challenge; "reflect": the target's
		want                                    uint16
	}{
		{"MD5", "CHAP,None", "5", "alice", "correct horse", "", 0},
		{"SHA-256", "CHAP", "7,5", "alice", "correct horse", "", 0},
		{"unknown algorithm first", "CHAP", "6,5", "alice", "correct horse", "", 0},
		{"both sides", "CHAP", "7", "alice", "correct horse", "0x00112233445566778899", 0},
		{"both sides, base 64", "CHAP", "5", "alice", "correct horse", "0bAAECAwQFBgc=", 0},
		{"wrong secret", "CHAP", "5", "alice", "battery staple", "", notAuthenticated},
		{"wrong user", "CHAP", "5", "bob", "correct horse", "", notAuthenticated},
		{"only None", "None", "", "", "", "", notAuthenticated},
		{"unknown algorithms", "CHAP", "6,8", "", "", "", notAuthenticated},
		{"challenge sent back", "CHAP", "5", "alice", "correct horse", "reflect", notAuthenticated},
	} {
		p := connect(t, newTestTarget(t, func(cfg *Config) {
			cfg.Nodes[0].CHAP = CHAP{User: "alice", Secret: "correct horse", MyUser: "disk", MySecret: "my own secret"}
		}))
		g := p.loginPDU(0x81, who+"AuthMethod="+c.methods)
		if status(g) == 0 {
			if g.BHS[1]&iscsi.Transit != 0 || value(t, g, "AuthMethod") != "CHAP" {
				t.Fatalf("%s: goes on without CHAP: %q", c.what, g.data)
			}
			g = p.loginPDU(0x00, "CHAP_A="+c.algorithms)
		}
		if status(g) == 0 {
			algorithm, _ := strconv.Atoi(value(t, g, "CHAP_A"))
			id, _ := strconv.Atoi(value(t, g, "CHAP_I"))
			challenge, _ := keys.Binary(value(t, g, "CHAP_C"))
			words := fmt.Sprintf("CHAP_N=%s CHAP_R=0x%x", c.user,
				keys.Response(algorithm, byte(id), c.secret, challenge))
			switch c.mutual {
			case "":
			case "reflect":
				words += " CHAP_I=9 CHAP_C=" + value(t, g, "CHAP_C")
			default:
				words += " CHAP_I=9 CHAP_C=" + c.mutual
			}
			g = p.loginPDU(0x81, words)
			if theirs, ok := keys.Binary(c.mutual); ok && status(g) == 0 {
				want := "0x" + hex.EncodeToString(keys.Response(algorithm, 9, "my own secret", theirs))
				if value(t, g, "CHAP_R") != want || value(t, g, "CHAP_N") != "disk" {
					t.Errorf("%s: the target does not prove itself: %q", c.what, g.data)
				}
			}
		}
		failed := uint64(0) // a login that names no method or algorithm has not failed at CHAP
		if c.want != 0 && c.user != "" {
			failed = 1
		}
		if p.count(BadCHAP) != failed || p.count(LoginRefused) != min(uint64(c.want), 1) {
			t.Errorf("%s: counted %d failures of CHAP, %d of logins", c.what, p.count(BadCHAP), p.count(LoginRefused))
		}
		if status(g) != c.want || (c.want == 0) == p.closed {
			t.Errorf("%s: status %04x, want %04x; closed %v", c.what, status(g), c.want, p.closed)
			continue
		}
		if c.want == 0 && status(p.loginPDU(0x87, "")) != 0 {
			t.Errorf("%s: no session", c.what)
		}
	}
}
