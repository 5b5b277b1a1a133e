// Package proxy is the NIC's end of a connection of nic/umode: what the HCA
// driver kit calls the kernel proxy. It receives the commands of a client as
// messages and hands them to the servers of the user ABI (nic/uapi/uverbs,
// nic/uapi/ucma) as if a thread of the client had written them into a device
// file: the client's memory is what came in the message and what it has
// shared. It alone ends what a client leaves behind.
package proxy

import (
	"encoding/binary"
	"errors"
)

// Kind says what a request asks for.
type Kind uint32

const (
	Open    Kind = 1 + iota // open the device named by Command as File
	Command                 // write Command into File
	Share                   // the memory in the file passed along has address Addr and Size octets
	Unshare                 // forget the memory at Addr
	Close                   // close File
	Bell                    // doorbell Size is to post Command; the first has Bells in its answer: memory, eventfd
)

// Base is the address of a message's memory; programs have nothing there.
const Base = 4096

// Limits of a message, in octets.
const (
	MaxMessage = 60 << 10
	MaxMemory  = 48 << 10
)

// Request is a message to the proxy. Numbers travel in the order of the
// machine.
type Request struct {
	Kind    Kind
	File    uint32 // numbered by the client
	Addr    uint64 // of Share and Unshare
	Size    uint64 // of Share; of Command: octets of memory at Base
	Command []byte
	Memory  []byte // the first octets of that memory; the others are 0
}

const requestLen = 32

var errMessage = errors.New("umode: malformed message")

// Append appends the encoded request to b.
func (r *Request) Append(b []byte) []byte {
	n := binary.NativeEndian
	b = n.AppendUint32(b, uint32(r.Kind))
	b = n.AppendUint32(b, r.File)
	b = n.AppendUint64(b, r.Addr)
	b = n.AppendUint64(b, r.Size)
	b = n.AppendUint64(b, uint64(len(r.Command)))
	b = append(b, r.Command...)
	return append(b, r.Memory...)
}

// ParseRequest decodes a request, whose slices are part of b.
func ParseRequest(b []byte) (r Request, err error) {
	n := binary.NativeEndian
	if len(b) < requestLen {
		return r, errMessage
	}
	r = Request{Kind: Kind(n.Uint32(b)), File: n.Uint32(b[4:]), Addr: n.Uint64(b[8:]), Size: n.Uint64(b[16:])}
	command, rest := n.Uint64(b[24:]), b[requestLen:]
	if command > uint64(len(rest)) {
		return r, errMessage
	}
	r.Command, r.Memory = rest[:command], rest[command:]
	if r.Kind == Command && (r.Size > MaxMemory || uint64(len(r.Memory)) > r.Size) {
		return r, errMessage
	}
	return r, nil
}

// Answer is a message from the proxy. Files that it installs travel with it.
type Answer struct {
	Errno  uint32
	First  uint32 // number of the first file, the others follow
	Memory []byte // as the command left it, up to the last octet written
}

const answerLen = 8

// Append appends the encoded answer to b.
func (a *Answer) Append(b []byte) []byte {
	b = binary.NativeEndian.AppendUint32(b, a.Errno)
	b = binary.NativeEndian.AppendUint32(b, a.First)
	return append(b, a.Memory...)
}

// ParseAnswer decodes an answer, whose memory is part of b.
func ParseAnswer(b []byte) (a Answer, err error) {
	if len(b) < answerLen {
		return a, errMessage
	}
	return Answer{binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:]), b[answerLen:]}, nil
}
