package fip

import (
	"encoding/binary"
	"slices"
)

// order is the order of descriptors in a frame of an operation; others follow, in the order
// of their numbers.
var order = map[Op][]Kind{
	ClaimNotify: {MAC, Name, VNPort, Features, MaxSize},
	ClaimReply:  {MAC, Name, VNPort, Features, MaxSize},
	Request:     {FLOGI, FDISC, LOGO, ELP, MAC},
	Reply:       {FLOGI, FDISC, LOGO, ELP, MAC},
	KeepAlive:   {MAC, VNPort},
}

var ascending = []Kind{Priority, MAC, FCMap, Name, Fabric, MaxSize, VNPort, Period, Features}

// AppendTo appends the Ethernet payload: the header and the descriptors that were Set. A
// login is there if Login names it.
func (m *Message) AppendTo(b []byte) []byte {
	at := len(b)
	b = append(b, 0x10, 0, byte(m.Op>>16), byte(m.Op>>8), 0, byte(m.Op), 0, 0, byte(m.Flags>>8), byte(m.Flags))
	kinds := order[m.Op]
	for _, k := range kinds {
		if k == m.Login || m.Has(k) && !k.login() {
			b = m.put(b, k)
		}
	}
	for _, k := range ascending {
		if m.Has(k) && !slices.Contains(kinds, k) {
			b = m.put(b, k)
		}
	}
	return count(b, at)
}

// login tells that the descriptor holds a frame of Fibre Channel.
func (k Kind) login() bool { return k >= FLOGI && k <= ELP }

// count puts the length of the descriptors into the header at this place.
func count(b []byte, at int) []byte {
	binary.BigEndian.PutUint16(b[at+6:], uint16((len(b)-at-HeaderLen)/4))
	return b
}

// put appends one descriptor.
func (m *Message) put(b []byte, k Kind) []byte {
	be := binary.BigEndian
	b = append(b, byte(k), lengths[k])
	switch k {
	case Priority:
		b = append(b, 0, m.Priority)
	case MAC:
		b = append(b, m.MAC[:]...)
	case FCMap:
		b = append(b, 0, 0, 0, byte(m.Map>>16), byte(m.Map>>8), byte(m.Map))
	case Name:
		b = be.AppendUint64(append(b, 0, 0), uint64(m.Name))
	case Fabric:
		b = be.AppendUint16(b, m.FabricID)
		b = append(b, 0, byte(m.Map>>16), byte(m.Map>>8), byte(m.Map))
		b = be.AppendUint64(b, uint64(m.Fabric))
	case MaxSize:
		b = be.AppendUint16(b, m.MaxSize)
	case FLOGI, FDISC, LOGO, ELP:
		b[len(b)-1] = byte(1 + len(m.Frame)/4)
		b = append(append(b, 0, 0), m.Frame...)
	case VNPort:
		b = m.Port.put(b)
	case Period:
		quiet := byte(0)
		if m.Quiet {
			quiet = 1
		}
		b = be.AppendUint32(append(b, 0, quiet), m.Period)
	case Features:
		b = append(append(b, 0, 0), m.Types[:]...)
		at := len(b)
		b = append(b, make([]byte, 128)...)
		b[at+7] = m.FCP
	}
	return b
}

// put appends what follows type and length of the descriptor.
func (p Port) put(b []byte) []byte {
	b = append(b, p.MAC[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(p.ID))
	return binary.BigEndian.AppendUint64(b, uint64(p.Name))
}

// AppendPorts is AppendTo with more VN_Ports at the end, as a Clear Virtual Links has
// them.
func (m *Message) AppendPorts(b []byte, ports ...Port) []byte {
	at := len(b)
	b = m.AppendTo(b)
	for _, p := range ports {
		b = p.put(append(b, byte(VNPort), lengths[VNPort]))
	}
	return count(b, at)
}

// AppendVLANs is AppendTo with VLANs at the end.
func (m *Message) AppendVLANs(b []byte, ids ...uint16) []byte {
	at := len(b)
	b = m.AppendTo(b)
	for _, id := range ids {
		b = binary.BigEndian.AppendUint16(append(b, byte(VLAN), lengths[VLAN]), id)
	}
	return count(b, at)
}
