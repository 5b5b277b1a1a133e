package eventpipe

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const size = 8 // octets of an event

// However events are raised, read and taken back, and if the program closes its
// end, a source is told to have had as many read as were, those of others come
// in their order, and none of a source that was forgotten comes.
func TestEventAccounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, r, err := New(size)
		okay(t, err)
		t.Cleanup(func() {
			p.Close()
			_ = unix.Close(r)
		})
		okay(t, unix.SetNonblock(r, true))
		if rapid.Bool().Draw(t, "small") { // a pipe of one page: events wait for room
			_, err := unix.FcntlInt(uintptr(r), unix.F_SETPIPE_SZ, 4096)
			okay(t, err)
		}
		m := newModel(p, r)
		some := rapid.IntRange(0, len(m.sources)-1)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(t, "events") {
					m.push(some.Draw(t, "source"))
				}
			},
			"read": func(t *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(t, "events") {
					m.read(t)
				}
			},
			"settle": func(*rapid.T) { p.CountRead() },
			"forget": func(t *rapid.T) { m.forget(t, some.Draw(t, "source")) },
		})
		if rapid.Bool().Draw(t, "closed") {
			okay(t, unix.Close(r))
			r, m.pending = -1, nil
			m.push(0) // finds that nobody reads
			m.pending = nil
		}
		p.Flush()
		for r >= 0 && m.read(t) {
			p.Flush()
		}
		for i := range m.sources {
			m.forget(t, i)
		}
	})
}

func okay(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// model is what a program knows of the events that it is sent.
type model struct {
	pipe    *Pipe
	fd      int
	sources [8]*Source
	names   [8]uint64
	pending []uint64 // names of the events not read
	got     map[uint64]uint32
	next    uint64
}

func newModel(p *Pipe, fd int) *model {
	m := &model{pipe: p, fd: fd, got: map[uint64]uint32{}}
	for i := range m.sources {
		m.renew(i)
	}
	return m
}

func (m *model) renew(i int) {
	m.next++
	m.sources[i], m.names[i] = &Source{}, m.next
}

func (m *model) push(i int) {
	n := Note{Of: m.sources[i]}
	binary.NativeEndian.PutUint64(n.Data[:], m.names[i])
	if !slices.Contains(m.pipe.notes[m.pipe.inside:], n) { // else it is one with its equal
		m.pending = append(m.pending, m.names[i])
	}
	m.pipe.Push(n)
}

func (m *model) read(t *rapid.T) bool {
	var b [size]byte
	n, err := unix.Read(m.fd, b[:])
	if err == unix.EAGAIN {
		return false
	}
	name := binary.NativeEndian.Uint64(b[:])
	if err != nil || n != len(b) || len(m.pending) == 0 || name != m.pending[0] {
		t.Fatalf("read %d octets, %v: event %d, expected %v", n, err, name, m.pending)
	}
	m.pending = m.pending[1:]
	m.got[name]++
	return true
}

func (m *model) forget(t *rapid.T, i int) {
	m.pipe.Forget(m.sources[i])
	if m.sources[i].Read != m.got[m.names[i]] {
		t.Fatalf("%d events counted as read, %d were", m.sources[i].Read, m.got[m.names[i]])
	}
	m.pending = slices.DeleteFunc(m.pending, func(name uint64) bool { return name == m.names[i] })
	m.renew(i)
}
