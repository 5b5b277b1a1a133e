package pcapng

import (
	"bytes"
	"strconv"
)

// Journal is the systemd Journal Export Block, section 4.7: a line that
// somebody said between two packets. Wireshark numbers and shows it like a
// packet, of protocol systemd_journal; tcpdump and others skip it.
type Journal struct {
	// Stamp is in nanoseconds since the Unix epoch. The format has microseconds:
	// they are rounded up, and a field of our own keeps the exact time.
	Stamp   int64
	Host    string // who said it: _HOSTNAME; not written if empty
	Topic   string // SYSLOG_IDENTIFIER; not written if empty
	Message []byte // one line, borrowed
}

// Names of the fields.
const (
	journalMicros  = "__REALTIME_TIMESTAMP"
	journalNanos   = "TAPIR_NANOSECONDS"
	journalHost    = "_HOSTNAME"
	journalTopic   = "SYSLOG_IDENTIFIER"
	journalMessage = "MESSAGE"
)

// AppendTo appends the block to b. It allocates only to grow b. What ends a
// line in the message becomes a space.
func (j *Journal) AppendTo(b []byte) []byte {
	b, start := begin(b, typeJournal)
	text := len(b)
	ns := max(j.Stamp, 0)
	us := ns / 1000
	if ns%1000 > 0 {
		us++
	}
	b = appendNumber(b, journalMicros, us)
	b = appendNumber(b, journalNanos, ns)
	b = appendLine(b, journalHost, j.Host)
	b = appendLine(b, journalTopic, j.Topic)
	b = append(append(b, journalMessage...), '=')
	from := len(b)
	b = append(b, j.Message[:min(len(j.Message), maxOption)]...)
	for i, c := range b[from:] {
		if c == '\n' {
			b[from+i] = ' '
		}
	}
	b = append(b, '\n')
	b = pad(b, len(b)-text)
	return finish(b, start, len(b))
}

// Size is an upper bound for the octets that AppendTo adds.
func (j *Journal) Size() int { return 160 + len(j.Host) + len(j.Topic) + len(j.Message) }

func appendNumber(b []byte, name string, n int64) []byte {
	b = strconv.AppendInt(append(append(b, name...), '='), n, 10)
	return append(b, '\n')
}

func appendLine(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(b, name...), '=')
	b = append(b, value...)
	return append(b, '\n')
}

// parseJournal reads an entry of anyone's journal. Of fields that are no text
// it reads nothing, and no more fields.
func parseJournal(b []byte) *Journal {
	j := &Journal{}
	exact := false
	for b = bytes.TrimRight(b, "\x00"); len(b) > 0; {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		name, value, ok := bytes.Cut(line, []byte{'='})
		if !ok {
			break
		}
		switch string(name) {
		case journalMicros:
			if us, ok := parseNumber(value); ok && us < maxOffset*1e6 && !exact {
				j.Stamp = us * 1000
			}
		case journalNanos:
			if ns, ok := parseNumber(value); ok {
				j.Stamp, exact = ns, true
			}
		case journalHost:
			j.Host = string(value)
		case journalTopic:
			j.Topic = string(value)
		case journalMessage:
			if len(value) > 0 {
				j.Message = value[:min(len(value), maxOption)]
			}
		}
	}
	return j
}

func parseNumber(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && n >= 0
}
