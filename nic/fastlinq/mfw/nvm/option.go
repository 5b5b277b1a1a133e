package nvm

import (
	"bytes"
	"encoding/binary"

	"tapir/nic/fastlinq/status"
)

// Option is a setting that the board keeps, of one entity: a port or a
// function.
type Option struct {
	ID     uint16
	Entity uint8
	Value  []byte // up to MaxOption octets
}

// MaxOption is the longest value of an option.
const MaxOption = 32

const (
	optionHeader = 4
	endOfOptions = 0xffff // the identity that erased flash has
)

// Options reads the options of the image of type t: NVM_CFG1 or the default.
func (im *Image) Options(t Type) ([]Option, error) {
	e, ok := im.Find(t)
	if !ok {
		return nil, status.NoEnt.Errorf("NVM image: there is no %v", t)
	}
	b := im.Bytes(e)
	var list []Option
	for at := 0; len(b)-at >= optionHeader; {
		o := Option{ID: binary.BigEndian.Uint16(b[at:]), Entity: b[at+2]}
		n := int(b[at+3])
		if o.ID == endOfOptions {
			break
		}
		at += optionHeader
		if n > MaxOption || n > len(b)-at {
			return nil, refuse(e.Offset+uint32(at), "option %d of %d octets does not fit", o.ID, n)
		}
		o.Value = b[at : at+n]
		at += n
		list = append(list, o)
	}
	return list, nil
}

// SetOptions writes the options that there are.
func (im *Image) SetOptions(list []Option) error {
	b := encodeOptions(list)
	if len(b) > configLen {
		return status.NoResources.Errorf("NVM image: the options need %d octets of %d", len(b), configLen)
	}
	return im.Replace(TypeConfig, b)
}

func encodeOptions(list []Option) []byte {
	var b bytes.Buffer
	for _, o := range list {
		b.Write([]byte{byte(o.ID >> 8), byte(o.ID), o.Entity, byte(len(o.Value))})
		b.Write(o.Value)
	}
	for b.Len() < configLen {
		b.WriteByte(0xff)
	}
	return b.Bytes()
}
