package msg_test

import (
	"fmt"

	"tapir/ptp/msg"
)

// A message is encoded, and read again with its TLVs.
func Example() {
	clock := msg.IdentityOf([6]byte{0x02, 0, 0, 0, 0, 1})
	announce := msg.Message{
		Header:      msg.Header{Type: msg.Announce, Source: msg.PortIdentity{Clock: clock, Port: 1}, Control: msg.Announce.Control(), LogInterval: 1},
		Grandmaster: msg.Grandmaster{Priority1: 128, Quality: msg.ClockQuality{Class: 6, Accuracy: 0x21, Variance: 0x4e5d}, Identity: clock},
		TLVs:        msg.AppendPathTrace(nil, nil, clock),
	}
	octets := announce.Append(nil)

	var m msg.Message
	if err := m.Parse(octets); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(octets), m.Type, m.Source, "class", m.Grandmaster.Quality.Class)
	for tlv := range m.TLVs.All() {
		if tlv.Type == msg.TLVPathTrace {
			path, err := msg.ParsePathTrace(tlv.Value)
			fmt.Println(path.Len(), path.At(0), err)
		}
	}
	// Output:
	// 76 Announce 020000.fffe.000001-1 class 6
	// 1 020000.fffe.000001 <nil>
}
