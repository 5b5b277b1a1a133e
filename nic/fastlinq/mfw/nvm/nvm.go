// Package nvm has the image in the NIC's flash: a header, a directory and the
// images that it names, each with a checksum. All words are big-endian.
//
//	0   signature 0x669955aa, version, directory offset, size of the whole
//	    directory: count, then 16 octets per image (type, offset, length, CRC32),
//	    then the directory's own CRC32
package nvm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"tapir/nic/fastlinq/status"
)

// Type is what an image is for.
type Type uint32

// The types.
const (
	Whole       Type = 0x00 // not an image: all of the flash
	TypeMFW     Type = 0x01 // the management firmware's own
	TypeMBI     Type = 0x03 // boot code
	TypeConfig  Type = 0x1a // NVM_CFG1: the options
	TypeVPD     Type = 0x0d // vital product data
	TypeDefault Type = 0x1b // the options as delivered
	TypeMdump   Type = 0x1f // room for crash dumps
	TypeInitHW  Type = 0x19 // the firmware of the storms
)

var typeNames = map[Type]string{TypeMFW: "MFW", TypeMBI: "MBI", TypeConfig: "NVM_CFG1", TypeVPD: "VPD",
	TypeDefault: "DEFAULT_CFG", TypeMdump: "MDUMP", TypeInitHW: "INIT_HW"}

func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return fmt.Sprintf("image type %#x", uint32(t))
}

// Geometry of an image.
const (
	Signature = 0x669955aa
	Size      = 4096 // octets of the factory's image
	MaxSize   = 1 << 24

	headerLen  = 16
	entryLen   = 16
	maxEntries = 64
	version    = 1
)

// Entry is a line of the directory.
type Entry struct {
	Type          Type
	Offset, Len   uint32
	CRC           uint32
	indexedOffset int // of the line
}

// Image is the content of a flash.
type Image struct {
	b       []byte
	entries []Entry
}

// refuse says what is wrong with an image, and where.
func refuse(at uint32, format string, args ...any) error {
	return status.IO.Errorf("NVM image, offset %#x: %s", at, fmt.Sprintf(format, args...))
}

// Parse takes b as the content of a flash. The error says what is damaged, and
// where.
func Parse(b []byte) (*Image, error) {
	n := uint32(min(len(b), MaxSize+1))
	switch {
	case n < headerLen:
		return nil, refuse(n, "it ends within the header, which has %d octets", headerLen)
	case word(b, 0) != Signature:
		return nil, refuse(0, "signature %#08x, not %#08x", word(b, 0), uint32(Signature))
	case word(b, 4) != version:
		return nil, refuse(4, "version %d is not known, %d is", word(b, 4), version)
	case word(b, 12) != n || n > MaxSize:
		return nil, refuse(12, "it has %d octets, the header says %d", len(b), word(b, 12))
	}
	im := &Image{b: b}
	return im, im.directory(word(b, 8))
}

func word(b []byte, at uint32) uint32 { return binary.BigEndian.Uint32(b[at:]) }

// directory reads the directory at offset at.
func (im *Image) directory(at uint32) error {
	n := uint32(len(im.b))
	if at < headerLen || at > n-8 {
		return refuse(8, "the directory lies at %#x, outside", at)
	}
	count := word(im.b, at)
	if count > maxEntries || at+4+count*entryLen > n-4 {
		return refuse(at, "a directory of %d images does not fit", count)
	}
	end := at + 4 + count*entryLen
	if sum := crc32.ChecksumIEEE(im.b[at:end]); sum != word(im.b, end) {
		return refuse(end, "the directory's checksum is %#08x, not %#08x", word(im.b, end), sum)
	}
	for i := range count {
		line := at + 4 + i*entryLen
		e := Entry{Type(word(im.b, line)), word(im.b, line+4), word(im.b, line+8), word(im.b, line+12), int(line)}
		if e.Offset < headerLen || e.Offset > n || e.Len > n-e.Offset {
			return refuse(line, "%v lies at %#x+%d, outside", e.Type, e.Offset, e.Len)
		}
		im.entries = append(im.entries, e)
	}
	return nil
}

// Check compares all images with their checksums.
func (im *Image) Check() error {
	for _, e := range im.entries {
		if sum := Sum(im.Bytes(e)); sum != e.CRC {
			return refuse(e.Offset, "%v has the checksum %#08x, not %#08x", e.Type, sum, e.CRC)
		}
	}
	return nil
}

// Verify tells why a file cannot replace the image of a type, or the whole flash.
func Verify(t Type, file []byte) error {
	switch t {
	case Whole:
		im, err := Parse(file)
		if err != nil {
			return err
		}
		return im.Check()
	case TypeMFW:
		if v, ok := MFWVersion(file); !ok || v == 0 || v == 0xffffffff {
			return status.Inval.Errorf("offset 0: no version of a management firmware")
		}
	}
	return nil
}

// Entries is the directory, borrowed.
func (im *Image) Entries() []Entry { return im.entries }

// Bytes is what lies in an image, borrowed.
func (im *Image) Bytes(e Entry) []byte { return im.b[e.Offset : e.Offset+e.Len] }

// Find is the image of a type.
func (im *Image) Find(t Type) (Entry, bool) {
	i := slices.IndexFunc(im.entries, func(e Entry) bool { return e.Type == t })
	if i < 0 {
		return Entry{}, false
	}
	return im.entries[i], true
}

// Raw is the whole, borrowed.
func (im *Image) Raw() []byte { return im.b }

// Replace writes other content into the image of a type, with a new checksum.
// What is shorter than the image is filled with ones, as flash is when erased.
func (im *Image) Replace(t Type, data []byte) error {
	i := slices.IndexFunc(im.entries, func(e Entry) bool { return e.Type == t })
	switch {
	case i < 0:
		return status.NoEnt.Errorf("NVM image: there is no %v", t)
	case len(data) > int(im.entries[i].Len):
		return status.Inval.Errorf("NVM image: %d octets for %v, which has room for %d", len(data), t,
			im.entries[i].Len)
	}
	room := im.Bytes(im.entries[i])
	for j := copy(room, data); j < len(room); j++ {
		room[j] = 0xff
	}
	im.seal(i)
	return nil
}

// seal renews the checksums after a change of image i.
func (im *Image) seal(i int) {
	e := &im.entries[i]
	e.CRC = Sum(im.Bytes(*e))
	binary.BigEndian.PutUint32(im.b[e.indexedOffset+12:], e.CRC)
	at := word(im.b, 8)
	end := at + 4 + uint32(len(im.entries))*entryLen
	binary.BigEndian.PutUint32(im.b[end:], crc32.ChecksumIEEE(im.b[at:end]))
}

// Put returns the content of a flash in which the image of a type is data, of
// just that length; the flash grows if it has to. The image itself stays as it
// is.
func (im *Image) Put(t Type, data []byte) ([]byte, error) {
	var parts []Part
	need := headerLen + 8 + 15
	for _, e := range im.entries {
		if e.Type != t {
			parts = append(parts, Part{e.Type, im.Bytes(e)})
		}
	}
	parts = append(parts, Part{t, data})
	for _, p := range parts {
		need += entryLen + (len(p.Data)+15)&^15
	}
	return New(max(Size, (need+Size-1)/Size*Size), parts)
}

// Is tells whether b looks like the content of a flash.
func Is(b []byte) bool { return len(b) >= 4 && word(b, 0) == Signature }

// Part is an image for New.
type Part struct {
	Type Type
	Data []byte
}

// New makes an image of size octets with the parts, one behind the other.
func New(size int, parts []Part) ([]byte, error) {
	b := make([]byte, size)
	at := uint32(headerLen)
	end := at + 4 + uint32(len(parts))*entryLen + 4
	entries := make([]Entry, len(parts))
	next := (end + 15) &^ 15
	for i, p := range parts {
		entries[i] = Entry{Type: p.Type, Offset: next, Len: uint32(len(p.Data)), CRC: Sum(p.Data)}
		next = (next + uint32(len(p.Data)) + 15) &^ 15
	}
	if len(parts) > maxEntries || int64(next) > int64(size) || size > MaxSize {
		return nil, status.NoResources.Errorf("NVM image: %d images of %d octets in all do not fit into %d", len(parts),
			next, size)
	}
	words := []uint32{Signature, version, at, uint32(size), uint32(len(parts))}
	for i, e := range entries {
		words = append(words, uint32(e.Type), e.Offset, e.Len, e.CRC)
		copy(b[e.Offset:], parts[i].Data)
	}
	if _, err := binary.Encode(b, binary.BigEndian, words); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(b[end-4:], crc32.ChecksumIEEE(b[at:end-4]))
	return b, nil
}

// Sum is the checksum of an image, that of its line in the directory.
func Sum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }
