package umode

import (
	"encoding/binary"
	"fmt"

	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
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

// execute sends the command of call's verb, made by fields, and returns the
// answer, and the driver's in call.Answer. A positive n is the answer's length
// in octets, where the verb alone does not say it.
func (c *Context) execute(call *Call, b []byte, n int) ([]byte, error) {
	row := &rows[call.Verb]
	n = max(n, row.answer)
	if len(call.Private)%4 != 0 || len(call.Answer)%4 != 0 {
		return nil, fmt.Errorf("private buffer of %d octets, answer of %d: not whole words: %w", len(call.Private),
			len(call.Answer), verbs.ErrInvalid)
	}
	b = append(b, call.Private...)
	memory := make([]byte, n+len(call.Answer))
	putHeader(b, row.command, len(memory))
	err := c.dev.command(b, memory)
	copy(call.Answer, memory[n:])
	return memory[:n], err
}

func putHeader(b []byte, number uint32, answer int) {
	native.PutUint32(b, number)
	native.PutUint16(b[4:], uint16(len(b)/4))
	native.PutUint16(b[6:], uint16(answer/4))
}
