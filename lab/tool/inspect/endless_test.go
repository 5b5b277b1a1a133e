package inspect

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"tapir/wire/ether"
	"tapir/wire/ip"
)

// Of a connection that has ended long ago an endless capture keeps what the
// report says of it.
func TestEndedConnectionsAreSmall(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	list, _ := withMarkers()
	i, before := New(Options{}), uint64(0)
	const cycles, most = 400, 4 << 10 // octets
	for n := range cycles {
		if n == cycles/2 {
			before = heap()
		}
		for k := range list {
			p := list[k]
			p.Data = bytes.Clone(p.Data)
			port := ether.HeaderLen + ip.HeaderLen4
			if p.Data[11] == 2 { // to the initiator
				port += 2
			}
			binary.BigEndian.PutUint16(p.Data[port:], uint16(20000+n))
			mendTCP(p.Data)
			p.Number, p.Time = n*len(list)+k+1, int64(n)*int64(5*time.Minute)+int64(k)*1000
			i.Packet(&p)
		}
	}
	after := heap()
	if each := int64(after-before) / (cycles / 2); each > most {
		t.Errorf("%d octets for each connection", each)
	} else {
		t.Logf("%d octets for each connection", each)
	}
	if r := i.Finish(); r.Verdict() != Clean || len(r.Flows) != cycles {
		t.Errorf("%v, %d flows", r.Verdict(), len(r.Flows))
	}
}
