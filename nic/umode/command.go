package umode

import (
	"encoding/binary"
	"fmt"

	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
)

// Commands of a uverbs file (linux/include/uapi/rdma/ib_user_verbs.h). Numbers
// are in the order of the machine.
const (
	cmdGetContext        = 0
	cmdQueryDevice       = 1
	cmdQueryPort         = 2
	cmdAllocPD           = 3
	cmdDeallocPD         = 4
	cmdRegMR             = 9
	cmdReregMR           = 11
	cmdDeregMR           = 13
	cmdAllocMW           = 14
	cmdDeallocMW         = 16
	cmdCreateCompChannel = 17
	cmdCreateCQ          = 18
	cmdResizeCQ          = 19
	cmdDestroyCQ         = 20
	cmdPollCQ            = 21
	cmdReqNotifyCQ       = 23
	cmdCreateQP          = 24
	cmdQueryQP           = 25
	cmdModifyQP          = 26
	cmdDestroyQP         = 27
	cmdPostSend          = 28
	cmdPostRecv          = 29
	cmdCreateSRQ         = 32
	cmdModifySRQ         = 33
	cmdQuerySRQ          = 34
	cmdDestroySRQ        = 35
	cmdPostSRQRecv       = 36
)

const commandHeader = 8

var native = binary.NativeEndian

// fields encodes values one after the other; their types are their widths.
func fields(values ...any) []byte {
	b := make([]byte, commandHeader, 256)
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			b = native.AppendUint64(b, v)
		case uint32:
			b = native.AppendUint32(b, v)
		case uint16:
			b = native.AppendUint16(b, v)
		case uint8:
			b = append(b, v)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

// response stands for the address of the answer in fields.
const response = uint64(proxy.Base)

// execute sends a command made by fields and returns the n octets of the
// answer, and the driver's in call.Answer.
func (c *Context) execute(call *Call, number uint32, b []byte, n int) ([]byte, error) {
	if len(call.Private)%4 != 0 || len(call.Answer)%4 != 0 {
		return nil, fmt.Errorf("private buffer of %d octets, answer of %d: not whole words: %w", len(call.Private), len(call.Answer), verbs.ErrInvalid)
	}
	b = append(b, call.Private...)
	memory := make([]byte, n+len(call.Answer))
	putHeader(b, number, len(memory))
	err := c.dev.command(b, memory)
	copy(call.Answer, memory[n:])
	return memory[:n], err
}

func putHeader(b []byte, number uint32, answer int) {
	native.PutUint32(b, number)
	native.PutUint16(b[4:], uint16(len(b)/4))
	native.PutUint16(b[6:], uint16(answer/4))
}
