package tunnel

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A tunnel with a key seals each frame by AES-256-GCM:
//
//	session of the sender, 8 octets; session of the receiver as the sender knows it, 8;
//	number of the datagram, 8, network order; the sealed frame; tag, 16
//
// The first 24 octets are authenticated, too. A session is a random number of one opening of
// the tunnel, and its key is HKDF-SHA256 of the shared key and that number, so that no nonce
// is used twice. A frame counts only if its sender knows the receiver's session: what was
// recorded before the receiver began is stale. Who hears of a new session tells its own by a
// datagram without a frame. Within a session a window of 960 numbers detects replays.
const (
	sealHeader = 24
	sealTag    = 16
	sealLen    = sealHeader + sealTag
	keyLen     = 32
	words      = 16
	window     = (words - 1) * 64 // the word of the highest number is only begun
	maxRetired = 16
)

// verdict is what became of a datagram.
type verdict uint8

const (
	accepted verdict = iota
	greeting         // it has no frame
	stale            // it is of the peer, who does not know this session
	forged
	replayed
)

// session is one opening of the tunnel at one end.
type session struct {
	id   uint64
	aead cipher.AEAD
}

// sealer seals what an end sends and opens what it receives.
type sealer struct {
	key     []byte
	own     session
	number  uint64 // of the last datagram that was sealed
	peer    session
	stale   session  // of a peer that did not know ours yet
	retired []uint64 // sessions of the peer that are over
	highest uint64   // number that was received
	seen    [words]uint64
	nonce   [12]byte
}

// newSealer reads the key, 64 hexadecimal digits, from a file that nobody else may read.
func newSealer(file string) (*sealer, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w; `(umask 077; openssl rand -hex 32 >%s)` makes one", err, file)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key: others may read %s: `chmod 600 %s`", file, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyLen {
		return nil, fmt.Errorf("key: %s: expected %d hexadecimal digits, as `openssl rand -hex 32` prints", file,
			2*keyLen)
	}
	s := &sealer{key: key}
	return s, s.begin()
}

// begin begins a session of this end.
func (s *sealer) begin() (err error) {
	var id [8]byte
	for s.number, s.retired = 0, nil; id == [8]byte{}; {
		_, _ = rand.Read(id[:]) // never fails
	}
	s.own, err = s.session(binary.BigEndian.Uint64(id[:]))
	return err
}

func (s *sealer) session(id uint64) (session, error) {
	key, err := hkdf.Key(sha256.New, s.key, binary.BigEndian.AppendUint64(nil, id), "tapir tunnel 1", keyLen)
	if err != nil {
		return session{}, fmt.Errorf("key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return session{}, fmt.Errorf("key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	return session{id, aead}, err
}

// seal appends a sealed frame for a receiver whose session is to.
func (s *sealer) seal(out, b []byte, to uint64) []byte {
	s.number++
	at := len(out)
	out = binary.BigEndian.AppendUint64(out, s.own.id)
	out = binary.BigEndian.AppendUint64(out, to)
	out = binary.BigEndian.AppendUint64(out, s.number)
	binary.BigEndian.PutUint64(s.nonce[4:], s.number)
	return s.own.aead.Seal(out, s.nonce[:], b, out[at:at+sealHeader])
}

// open opens a datagram in place.
func (s *sealer) open(b []byte) (plain []byte, v verdict) {
	if len(b) < sealLen {
		return nil, forged
	}
	id, to := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	number := binary.BigEndian.Uint64(b[16:])
	known := id == s.peer.id && id != 0
	if known && to == s.own.id && !s.fresh(number) || slices.Contains(s.retired, id) {
		return nil, replayed
	}
	from := s.peer
	switch {
	case known:
	case id == s.stale.id && id != 0:
		from = s.stale
	default:
		var err error
		if from, err = s.session(id); err != nil {
			return nil, forged
		}
	}
	binary.BigEndian.PutUint64(s.nonce[4:], number)
	plain, err := from.aead.Open(b[sealHeader:sealHeader], s.nonce[:], b[sealHeader:], b[:sealHeader])
	if err != nil {
		return nil, forged
	}
	if to != s.own.id {
		s.stale = from
		return nil, stale
	}
	if !known {
		s.adopt(from)
	}
	s.note(number)
	if len(plain) == 0 {
		return nil, greeting
	}
	return plain, accepted
}

// adopt begins with a new session of the peer. What was said in earlier ones is over; after
// many, so is the session of this end.
func (s *sealer) adopt(from session) {
	if s.peer.id != 0 {
		s.retired = append(s.retired, s.peer.id)
	}
	s.peer, s.stale = from, session{}
	s.highest, s.seen = 0, [words]uint64{}
	if len(s.retired) > maxRetired {
		_ = s.begin() // it worked before
	}
}

// fresh reports whether a number has not been there yet, as far as the window tells.
func (s *sealer) fresh(n uint64) bool {
	switch {
	case n > s.highest:
		return true
	case n+window <= s.highest:
		return false
	}
	return s.seen[n/64%words]>>(n%64)&1 == 0
}

// note enters a number into the window.
func (s *sealer) note(n uint64) {
	if n > s.highest {
		// Whole words between the two begin anew.
		for i := s.highest/64 + 1; i <= n/64 && i <= s.highest/64+words; i++ {
			s.seen[i%words] = 0
		}
		s.highest = n
	}
	s.seen[n/64%words] |= 1 << (n % 64)
}
