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
	"unsafe"

	"tapir/nic/uapi/abi"
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

// requestHeader is what a request begins with.
type requestHeader struct {
	Kind       Kind
	File       uint32
	Addr, Size uint64
	Command    uint64 // octets
}

const requestLen = int(unsafe.Sizeof(requestHeader{}))

var errMessage = errors.New("umode: malformed message")

// Append appends the encoded request to b.
func (r *Request) Append(b []byte) []byte {
	h := requestHeader{r.Kind, r.File, r.Addr, r.Size, uint64(len(r.Command))}
	return append(append(append(b, abi.Octets(&h)...), r.Command...), r.Memory...)
}

// ParseRequest decodes a request, whose slices are part of b.
func ParseRequest(b []byte) (r Request, err error) {
	if len(b) < requestLen {
		return r, errMessage
	}
	h, rest := abi.Get[requestHeader](b), b[requestLen:]
	if h.Command > uint64(len(rest)) {
		return r, errMessage
	}
	r = Request{h.Kind, h.File, h.Addr, h.Size, rest[:h.Command], rest[h.Command:]}
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
