// Package fw is the storm firmware as a file: what the init tool runs on the
// chip, in the four forms of the driver core.
//
//	plain header    init_values-8.40.33.0.h           C, arrays as they are
//	zipped header   init_values_zipped-8.40.33.0.h    C, arrays packed by zlib
//	plain binary    init_values-8.40.33.0.bin
//	zipped binary   init_values_zipped-8.40.33.0.bin
//
// All four hold the same six sections, each with a checksum. A file is taken
// whole or not at all; the error says which place of it is wrong.
package fw

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"strings"

	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Form is one of the four forms.
type Form uint8

// The forms, as the build flags CONFIG_ECORE_ZIPPED_FW and
// CONFIG_ECORE_BINARY_FW choose them.
const (
	Header Form = iota
	ZippedHeader
	Binary
	ZippedBinary
	NumForms
)

var formNames = [NumForms]string{"header", "zipped-header", "bin", "zipped-bin"}

// String is the form as ParseForm reads it.
func (f Form) String() string {
	return enum.Name(formNames[:], f, "Form(%d)")
}

// FormNames are those of all forms.
func FormNames() []string { return formNames[:] }

// ParseForm reads the name of a form.
func ParseForm(s string) (Form, error) {
	for f, name := range formNames {
		if s == name {
			return Form(f), nil
		}
	}
	return 0, status.Inval.Errorf("firmware form %q: use %s", s, strings.Join(formNames[:], ", "))
}

// Zipped tells whether arrays are packed.
func (f Form) Zipped() bool { return f == ZippedHeader || f == ZippedBinary }

// IsBinary tells whether the file is no C.
func (f Form) IsBinary() bool { return f == Binary || f == ZippedBinary }

func formOf(binary, zipped bool) Form {
	f := Header
	if binary {
		f = Binary
	}
	if zipped {
		f++
	}
	return f
}

// Version is that of a firmware: major, minor, revision, engineering, an octet
// each from the highest.
type Version uint32

// Wanted is the version that the driver core works with, and no other.
const Wanted Version = rt.Version

// String writes a.b.c.d.
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", v>>24, v>>16&0xff, v>>8&0xff, v&0xff)
}

// FileName is what a file of a version and form is called.
func FileName(v Version, f Form) string {
	name, ext := "init_values", ".h"
	if f.Zipped() {
		name += "_zipped"
	}
	if f.IsBinary() {
		ext = ".bin"
	}
	return name + "-" + v.String() + ext
}

// Chips are the chips that a firmware is for.
type Chips uint8

// The chips.
const (
	BB Chips = 1 << iota // QL45xxx
	AH                   // QL41xxx, K2
)

// String names them.
func (c Chips) String() string {
	return strings.ReplaceAll(enum.Bits([]string{"BB", "AH"}, c), ",", ", ")
}

// IRO says where in the memory of a storm something lies: the element of
// indices i and j is at Base + i*M1 + j*M2, and has Size octets.
type IRO struct {
	Base             uint32
	M1, M2, M3, Size uint16
}

// What the entries of the IRO are for.
const (
	IROVersion  = iota // of the firmware, in each storm
	IROBinTable        // of TStorm: the word of octet i in the table of CRC-32C
	numIRO
)

// Image is a firmware.
type Image struct {
	Version  Version
	Chips    Chips
	Form     Form // of the file that it was
	Program  *rt.Program
	IRO      []IRO
	Overlays []byte // that storms load at run time
}

// Builtin is the firmware that the driver core has with it.
func Builtin() *Image {
	return &Image{Version: Wanted, Chips: BB | AH, Program: rt.Standard(), IRO: []IRO{
		IROVersion:  {Base: rt.RAMVersion, Size: 4},
		IROBinTable: {Base: rt.RAMTable, M1: 4, Size: 4},
	}}
}

// Decode reads a firmware file of any form. INVAL: it is damaged, and where.
// Zipped arrays are unpacked once, by zlib, to see that they can be.
func Decode(b []byte) (*Image, error) {
	var s *sections
	var err error
	if f, ferr := FormOf(b); ferr != nil {
		return nil, ferr
	} else if f.IsBinary() {
		s, err = parseBinary(b)
	} else {
		s, err = parseHeader(b)
	}
	if err != nil {
		return nil, err
	}
	return s.image()
}

// FormOf tells by its beginning alone what form a file claims to have. INVAL: it is none.
func FormOf(b []byte) (Form, error) {
	binary := bytes.HasPrefix(b, []byte(marker))
	switch {
	case len(b) == 0:
		return 0, refuse("offset 0", "it is empty")
	case binary:
		zipped := len(b) > baseLen+infoFlags && b[baseLen+infoFlags]&flagZipped != 0
		return formOf(true, zipped), nil
	case len(b) < len(marker) && strings.HasPrefix(marker, string(b)):
		return 0, refuse(fmt.Sprintf("offset %#x", len(b)), "it ends within its marker")
	case !bytes.HasPrefix(b, []byte(headerComment)):
		return 0,
			refuse("offset 0", "neither the marker of a binary, %q, nor the comment that a header begins with, %q",
				marker, headerComment)
	}
	first, _, _ := bytes.Cut(b, []byte("\n"))
	return formOf(false, bytes.Contains(first, []byte(zippedRemark))), nil
}

// refuse says what is wrong with a file, and where.
func refuse(where, format string, args ...any) error {
	return status.Inval.Errorf("firmware, %s: %s", where, fmt.Sprintf(format, args...))
}

// Check says whether the firmware is one that the driver core can run on a
// chip. INVAL: another version, or for another chip.
func (im *Image) Check(chip Chips) error {
	switch {
	case im.Version != Wanted:
		return status.Inval.Errorf("firmware %v: the driver wants %v", im.Version, Wanted)
	case im.Chips&chip == 0:
		return status.Inval.Errorf("firmware %v is for %v: the chip is %v", im.Version, im.Chips, chip)
	}
	return nil
}

// Encode writes the file of a form.
func (im *Image) Encode(f Form) []byte {
	s := im.sections(f.Zipped())
	if f.IsBinary() {
		return s.binary()
	}
	return s.header(im, f)
}

// maxInflated is the most that an array has unpacked, in octets: the init
// tool's limit, and one more to see that it is exceeded.
const maxInflated = 4*8192 + 1

// Inflate unpacks an array: the hook that zipped forms need (OSAL_UNZIP_DATA).
func Inflate(packed []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxInflated))
}

func deflate(plain []byte) []byte {
	var b bytes.Buffer
	z, _ := zlib.NewWriterLevel(&b, zlib.BestCompression) // a level that there is
	_, _ = z.Write(plain)                                 // into memory
	_ = z.Close()
	return b.Bytes()
}
