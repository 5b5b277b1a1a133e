package vnic

import (
	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/headers"
)

// opaMinPayload is the payload of the shortest Ethernet frame without tag.
const opaMinPayload = opa.MinFrame - ether.HeaderLen

// inner is the Ethernet frame in hand, as far as a vport looks into it.
type inner struct {
	frame    []byte // borrowed
	dst, src ether.Addr
	flow     opa.Flow
	vid      uint16 // of the outer tag, 0 without
	typ      uint16
	at       int    // where the payload begins
	payload  []byte // behind up to two tags
}

// parse reads b, of at least 14 octets.
func (in *inner) parse(b []byte) {
	in.frame = b
	in.dst, in.src = ether.Addr(b), ether.Addr(b[6:])
	in.flow = opa.ParseFlow(b)
	var v headers.View
	v.Parse(b)
	in.vid, in.typ, in.at = v.TCI&0xfff, v.Type, v.L3
	in.payload = b[in.at:]
}

// tagLen is what the tags take.
func (in *inner) tagLen() int { return in.at - ether.HeaderLen }
