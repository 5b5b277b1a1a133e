package fw

import (
	"encoding/binary"
	"hash/crc32"

	"tapir/nic/fastlinq/ecore/rt"
)

// Sections of a file, in their order.
const (
	secInfo  = iota // FW_VER_INFO
	secOps          // CMD
	secArray        // VAL
	secTrees        // MODE_TREE
	secIRO
	secOverlays
	numSections
)

var sectionNames = [numSections]string{"FW_VER_INFO", "CMD", "VAL", "MODE_TREE", "IRO", "OVERLAYS"}

// FW_VER_INFO, little endian: version of the tools (2 octets), chips, flags,
// version (4), time stamp and a reserved word (0), the CRC-32 of each other
// section, and that of what is in front of it here.
const (
	toolsVersion = 1
	infoChips    = 2
	infoFlags    = 3
	infoVersion  = 4
	infoCRCs     = 16
	infoCRC      = infoCRCs + 4*(numSections-1)
	infoLen      = infoCRC + 4

	flagZipped = 1
)

// iroLen is an entry of the IRO: base, then four times 16 bits.
const iroLen = 12

// sections are the content of a file of any form, and where each of them lies
// in it, for messages.
type sections struct {
	isBinary bool // that file is no C
	data     [numSections][]byte
	where    [numSections]string
}

// sections of an image; sealed.
func (im *Image) sections(zipped bool) *sections {
	p, flags := im.Program, byte(0)
	if zipped {
		p, flags = p.Zip(deflate), flagZipped
	}
	var s sections
	s.data[secOps], s.data[secArray] = p.Sections()
	s.data[secTrees], s.data[secOverlays] = p.Trees, im.Overlays
	le := binary.LittleEndian
	for _, e := range im.IRO {
		b := le.AppendUint32(s.data[secIRO], e.Base)
		for _, v := range []uint16{e.M1, e.M2, e.M3, e.Size} {
			b = le.AppendUint16(b, v)
		}
		s.data[secIRO] = b
	}
	info := le.AppendUint16(nil, toolsVersion)
	info = append(info, byte(im.Chips), flags)
	info = binary.BigEndian.AppendUint32(info, uint32(im.Version))
	info = le.AppendUint64(info, 0)
	for _, b := range s.data[secOps:] {
		info = le.AppendUint32(info, crc32.ChecksumIEEE(b))
	}
	s.data[secInfo] = le.AppendUint32(info, crc32.ChecksumIEEE(info))
	return &s
}

// check compares the sections with their checksums, FW_VER_INFO first.
func (s *sections) check() error {
	le, info := binary.LittleEndian, s.data[secInfo]
	if len(info) != infoLen {
		return refuse(s.where[secInfo], "FW_VER_INFO has %d octets, not %d", len(info), infoLen)
	}
	if sum := crc32.ChecksumIEEE(info[:infoCRC]); sum != le.Uint32(info[infoCRC:]) {
		return refuse(s.where[secInfo], "FW_VER_INFO is damaged: its checksum is %#08x, not %#08x", sum,
			le.Uint32(info[infoCRC:]))
	}
	if v := le.Uint16(info); v != toolsVersion {
		return refuse(s.where[secInfo], "FW_VER_INFO: layout %d is not known, %d is", v, toolsVersion)
	}
	for i := secOps; i < numSections; i++ {
		want := le.Uint32(info[infoCRCs+4*(i-1):])
		if sum := crc32.ChecksumIEEE(s.data[i]); sum != want {
			return refuse(s.where[i], "section %s is damaged: its checksum is %#08x, not %#08x", sectionNames[i], sum,
				want)
		}
	}
	return nil
}

// image is what the sections hold.
func (s *sections) image() (*Image, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	info := s.data[secInfo]
	zipped := info[infoFlags]&flagZipped != 0
	im := &Image{Version: Version(binary.BigEndian.Uint32(info[infoVersion:])), Chips: Chips(info[infoChips]),
		Overlays: s.data[secOverlays]}
	im.Form = formOf(s.isBinary, zipped)
	var err error
	if im.Program, err = rt.ParseProgram(s.data[secOps], s.data[secArray], s.data[secTrees]); err != nil {
		return nil, refuse(s.where[secOps], "%v", err)
	}
	if n := im.Program.Zipped(); n > 0 && !zipped {
		return nil, refuse(s.where[secArray], "a plain firmware with %d zipped arrays", n)
	}
	if err = im.Program.CheckZipped(Inflate); err != nil {
		return nil, refuse(s.where[secArray], "%v", err)
	}
	return im, s.iro(im)
}

func (s *sections) iro(im *Image) error {
	b, le := s.data[secIRO], binary.LittleEndian
	if len(b)%iroLen != 0 || len(b) < numIRO*iroLen {
		return refuse(s.where[secIRO], "section IRO of %d octets: want %d entries or more of %d", len(b), numIRO,
			iroLen)
	}
	for ; len(b) > 0; b = b[iroLen:] {
		im.IRO = append(im.IRO, IRO{le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:]),
			le.Uint16(b[10:])})
	}
	if e := im.IRO[IROVersion]; e.Base%4 != 0 || e.Base > maxRAM-4 || e.Size != 4 {
		return refuse(s.where[secIRO],
			"section IRO: the version of %d octets at %#x lies outside the memory of a storm", e.Size, e.Base)
	}
	return nil
}

// maxRAM is what of a storm's memory lies behind its fixed window.
const maxRAM = 0x1000
