package nic

import (
	"tapir/wire/frame"
	"tapir/wire/headers"
	"tapir/wire/ip"
)

// hostsOwn is the fast path: it tells from a frame's fixed places that the frame
// is the operating system's, whatever the stages would find. Only a PTP instance
// wants datagrams, and only the TCP engine the segments of its connections and
// listeners.
func (d *Device) hostsOwn(f *frame.Frame) bool {
	if d.host.link == nil || d.instance != nil {
		return false
	}
	switch proto, remote, local := headers.Peek(f.Bytes()); proto {
	case ip.ProtoUDP:
		return true
	case ip.ProtoTCP:
		return !d.toe.Owns(local, remote)
	}
	return false
}
