package timewait

import (
	"net/netip"
	"testing"
	"unsafe"

	"tapir/wire/frame"
)

func TestRecordIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Record{}); n > 96 {
		t.Fatalf("a record takes %d octets", n)
	}
}

type port struct{ users int }

func (p *port) Drop() { p.users-- }

// TestOrder adds, renews and removes records and lets the rest expire: in the
// order of their ends, each port given back once.
func TestOrder(t *testing.T) {
	var l List
	held := &port{}
	at := func(i int) (local, remote netip.AddrPort) {
		return netip.MustParseAddrPort("[2001:db8::1]:1"), netip.AddrPortFrom(netip.MustParseAddr("2001:db8::2"), uint16(i))
	}
	for i := range 100 {
		w := Record{At: frame.Time(i), Port: held}
		local, remote := at(i)
		w.SetConn(local, remote, false)
		held.users++
		l.Add(w)
	}
	for i := 1; i < 100; i += 3 {
		l.Remove(l.Find(at(i)))
		l.Renew(l.Find(at(i+1)), frame.Time(100+i))
	}
	if l.Len() != 67 || held.users != 67 || l.Find(at(1)) != nil {
		t.Fatalf("%d records, %d hold the port", l.Len(), held.users)
	}
	for last := frame.Time(-1); l.Len() > 0; {
		now := l.Deadline()
		if now <= last {
			t.Fatalf("%v follows %v", now, last)
		}
		before := l.Len()
		if l.Expire(now); l.Len() != before-1 {
			t.Fatalf("%d records ended at once", before-l.Len())
		}
		last = now
	}
	if held.users != 0 || l.recs != nil || l.Deadline() != frame.Never {
		t.Fatalf("%d hold the port, %d records are left", held.users, len(l.recs))
	}
}
