package keys

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"tapir/wire/iscsi"
)

// CHAP is who has to prove what. Without User nobody has to.
type CHAP struct {
	User, Secret     string // of initiators
	MyUser, MySecret string // of the target, where an initiator asks
}

// Random is where challenges come from.
type Random interface{ Uint64() uint64 }

// Algorithms of CHAP, as IANA has numbered them.
const (
	chapMD5    = 5
	chapSHA256 = 7
)

// Auth is how far an authentication is (RFC 7143 section 12.1.3).
type Auth struct {
	Proved    bool
	chosen    bool // by AuthMethod
	algorithm int
	id        byte
	challenge []byte
}

// NotAuthenticated is the status of a login that does not prove who it is (section 11.13.5).
const NotAuthenticated = 0x0201

// Outcome is what came of security keys: a status, 0 if it goes on, whether CHAP has failed, and how many keys
// were refused.
type Outcome struct {
	Status uint16
	Failed bool
	Bad    uint64
}

// Answer answers security keys as a target, which wants what need has.
func (s *Auth) Answer(reply []byte, pairs []iscsi.Pair, need CHAP, random Random) (_ []byte, o Outcome) {
	get := func(key string) string {
		for _, p := range pairs {
			if p.Key == key {
				return p.Value
			}
		}
		return ""
	}
	if methods := get("AuthMethod"); methods != "" {
		want := "None"
		if s.chosen = need.User != ""; s.chosen {
			want = "CHAP"
		}
		if !slices.Contains(strings.Split(methods, ","), want) {
			return reply, Outcome{Status: NotAuthenticated}
		}
		reply = iscsi.AppendText(reply, "AuthMethod", want)
	}
	if algorithms := get("CHAP_A"); algorithms != "" {
		if reply, o.Status = s.ask(reply, algorithms, random); o.Status != 0 {
			return reply, o
		}
	}
	if response := get("CHAP_R"); response != "" {
		reply, o.Status = s.judge(reply, get("CHAP_N"), response, get("CHAP_I"), get("CHAP_C"), need)
		if o.Failed = o.Status != 0; o.Failed {
			return reply, o
		}
	}
	for _, p := range pairs {
		switch p.Key {
		case "InitiatorName", "InitiatorAlias", "TargetName", "SessionType", "AuthMethod":
		default:
			if !strings.HasPrefix(p.Key, "CHAP_") {
				o.Bad++
				reply = iscsi.AppendText(reply, p.Key, NotUnderstood)
			}
		}
	}
	return reply, o
}

// ask chooses an algorithm and asks.
func (s *Auth) ask(reply []byte, algorithms string, random Random) ([]byte, uint16) {
	for a := range strings.SplitSeq(algorithms, ",") {
		if n, _ := strconv.Atoi(a); n == chapMD5 || n == chapSHA256 {
			s.algorithm = n
			break
		}
	}
	if s.algorithm == 0 || !s.chosen {
		return reply, NotAuthenticated
	}
	s.draw(random)
	reply = iscsi.AppendText(reply, "CHAP_A", strconv.Itoa(s.algorithm))
	reply = iscsi.AppendText(reply, "CHAP_I", strconv.Itoa(int(s.id)))
	return iscsi.AppendText(reply, "CHAP_C", "0x"+hex.EncodeToString(s.challenge)), 0
}

// judge checks what the initiator answers, and answers what it asks in turn.
func (s *Auth) judge(reply []byte, name, response, id, challenge string, need CHAP) ([]byte, uint16) {
	got, ok := Binary(response)
	if s.challenge == nil || !ok || name != need.User ||
		subtle.ConstantTimeCompare(got, Response(s.algorithm, s.id, need.Secret, s.challenge)) != 1 {
		return reply, NotAuthenticated
	}
	if challenge != "" {
		theirs, ok := Binary(challenge)
		n, err := strconv.ParseUint(id, 0, 8)
		if !ok || err != nil || need.MySecret == "" || slices.Equal(theirs, s.challenge) {
			return reply, NotAuthenticated
		}
		reply = iscsi.AppendText(reply, "CHAP_N", need.MyUser)
		reply = iscsi.AppendText(reply, "CHAP_R",
			"0x"+hex.EncodeToString(Response(s.algorithm, byte(n), need.MySecret, theirs)))
	}
	s.Proved, s.challenge = true, nil
	return reply, 0
}

// Prove answers a challenge as an initiator, and asks the target in turn if it has to prove itself.
func (s *Auth) Prove(pairs []iscsi.Pair, own CHAP, random Random) (text []byte, err error) {
	values := map[string]string{}
	for _, p := range pairs {
		values[p.Key] = p.Value
	}
	if own.User == "" {
		return nil, errors.New("iscsi: the target does not go on without authentication: give user and secret")
	}
	if values["AuthMethod"] == "CHAP" {
		return iscsi.AppendText(nil, "CHAP_A", strconv.Itoa(chapSHA256)+","+strconv.Itoa(chapMD5)), nil
	}
	algorithm, _ := strconv.Atoi(values["CHAP_A"])
	id, err := strconv.ParseUint(values["CHAP_I"], 0, 8)
	challenge, ok := Binary(values["CHAP_C"])
	if err != nil || !ok || algorithm != chapMD5 && algorithm != chapSHA256 || s.Proved {
		return nil, errors.New("iscsi: the target's challenge cannot be read")
	}
	s.Proved, s.algorithm = true, algorithm
	text = iscsi.AppendText(nil, "CHAP_N", own.User)
	text = iscsi.AppendText(text, "CHAP_R",
		"0x"+hex.EncodeToString(Response(algorithm, byte(id), own.Secret, challenge)))
	if own.MySecret == "" {
		return text, nil
	}
	s.draw(random)
	text = iscsi.AppendText(text, "CHAP_I", strconv.Itoa(int(s.id)))
	return iscsi.AppendText(text, "CHAP_C", "0x"+hex.EncodeToString(s.challenge)), nil
}

// Knows tells whether the target has proved that it knows a secret.
func (s *Auth) Knows(pairs []iscsi.Pair, secret string) bool {
	want := Response(s.algorithm, s.id, secret, s.challenge)
	for _, p := range pairs {
		if got, ok := Binary(p.Value); strings.EqualFold(p.Key, "CHAP_R") && ok && s.Proved {
			return subtle.ConstantTimeCompare(got, want) == 1
		}
	}
	return false
}

// draw makes a challenge.
func (s *Auth) draw(random Random) {
	s.id, s.challenge = byte(random.Uint64()), nil
	for range 4 {
		s.challenge = binary.BigEndian.AppendUint64(s.challenge, random.Uint64())
	}
}

// Response is that of RFC 1994 section 4.1.
func Response(algorithm int, id byte, secret string, challenge []byte) []byte {
	b := append(append([]byte{id}, secret...), challenge...)
	if algorithm == chapSHA256 {
		sum := sha256.Sum256(b)
		return sum[:]
	}
	sum := md5.Sum(b)
	return sum[:]
}

// Binary reads a value in hexadecimal or base 64, of at most 1024 octets (RFC 7143
// section 6.1).
func Binary(v string) (b []byte, ok bool) {
	var err error
	switch {
	case len(v) < 3 || len(v) > 2050:
		return nil, false
	case strings.EqualFold(v[:2], "0x"):
		if len(v)%2 != 0 {
			v = "0x0" + v[2:]
		}
		b, err = hex.DecodeString(v[2:])
	case strings.EqualFold(v[:2], "0b"):
		b, err = base64.StdEncoding.DecodeString(v[2:])
	default:
		return nil, false
	}
	return b, err == nil
}
