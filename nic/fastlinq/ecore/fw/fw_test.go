package fw

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
)

// equal compares two images but for the form of their files and, where one is
// zipped, for how arrays are kept.
func equal(a, b *Image) bool {
	x, y := *a, *b
	x.Form, y.Form = 0, 0
	x.Program, y.Program = &rt.Program{}, &rt.Program{}
	return reflect.DeepEqual(x, y) && reflect.DeepEqual(a.Program.Zip(deflate), b.Program.Zip(deflate))
}

// Each form is read as what was written, under its own name; the zipped are
// smaller.
func TestForms(t *testing.T) {
	size := map[Form]int{}
	for f := range NumForms {
		im := Builtin()
		im.Overlays = []byte{1, 2, 3, 4}
		b := im.Encode(f)
		got, err := Decode(b)
		if err != nil || got.Form != f || !equal(got, im) || got.Check(BB) != nil || got.Check(AH) != nil {
			t.Fatalf("%v: %v, %+v", f, err, got)
		}
		if got.Program.Zipped() > 0 != f.Zipped() {
			t.Errorf("%v: %d zipped arrays", f, got.Program.Zipped())
		}
		if sniffed, err := FormOf(b); err != nil || sniffed != f {
			t.Errorf("%v looks like %v, %v", f, sniffed, err)
		}
		if again, err := ParseForm(f.String()); err != nil || again != f {
			t.Errorf("%v: %v, %v", f, again, err)
		}
		if !bytes.Equal(b, got.Encode(f)) {
			t.Errorf("%v: written again it is another file", f)
		}
		size[f] = len(b)
	}
	if size[ZippedBinary] >= size[Binary] || size[ZippedHeader] >= size[Header] {
		t.Errorf("sizes: %v", size)
	}
	if n := FileName(Wanted, ZippedBinary); n != "init_values_zipped-8.40.33.0.bin" {
		t.Error(n)
	}
	if _, err := ParseForm("zip"); status.Of(err) != status.Inval {
		t.Error(err)
	}
}

// A header is C.
func TestHeaderCompiles(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: cc is not there")
	}
	dir := t.TempDir()
	main := filepath.Join(dir, "main.c")
	for _, f := range []Form{Header, ZippedHeader} {
		name := FileName(Wanted, f)
		text := "#include \"" + name + "\"\nint main(void) { return sizeof init_ops % 8 + sizeof fw_ver_info - 40 + sizeof iro_arr % 12 +\n" +
			"init_val[0] * 0 + modes_tree_buf[0] * 0 + fw_overlays[0]; }\n"
		if err := os.WriteFile(filepath.Join(dir, name), Builtin().Encode(f), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(main, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(cc, "-Wall", "-Werror", "-o", filepath.Join(dir, "a"), main).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := exec.Command(filepath.Join(dir, "a")).Run(); err != nil {
			t.Errorf("%v: %v", f, err)
		}
	}
}

// refused looks at an error: one line, INVAL, with a place.
func refused(t *testing.T, what string, err error, where string) {
	t.Helper()
	if status.Of(err) != status.Inval || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), where) {
		t.Fatalf("%s: %v, want a place like %q", what, err, where)
	}
}

// Prefixes of a file, of a binary all, are refused, and the error names a place.
func TestTruncated(t *testing.T) {
	for f := range NumForms {
		whole, where, step := Builtin().Encode(f), "line ", 11
		if f.IsBinary() {
			where, step = "offset 0x", 1
		}
		for n := 0; n < len(whole)-1; n += step { // a header's last octet is a line feed, which nobody misses
			place := where
			if !f.IsBinary() && n < len(headerComment) {
				place = "offset 0"
			}
			if n == 0 {
				place = "empty"
			}
			_, err := Decode(whole[:n])
			refused(t, f.String(), err, place)
		}
		if f.IsBinary() {
			_, err := Decode(whole[:len(whole)-1])
			refused(t, "the last octet is missing", err, where)
			_, err = Decode(append(bytes.Clone(whole), 0))
			refused(t, "an octet too many", err, where)
		}
	}
}

// Every octet that is turned round is noticed, or is of no consequence, as in
// a comment.
func TestDamaged(t *testing.T) {
	want := Builtin()
	for f := range NumForms {
		whole, same := Builtin().Encode(f), 0
		step := 1
		if !f.IsBinary() {
			step = 11
		}
		for i := 0; i < len(whole); i += step {
			b := bytes.Clone(whole)
			b[i] ^= 0x11
			got, err := Decode(b)
			if err != nil {
				refused(t, f.String(), err, "firmware, ")
				continue
			}
			if same++; f.IsBinary() || !equal(got, want) {
				t.Fatalf("%v: octet %#x may be anything", f, i)
			}
		}
		if same > 30 {
			t.Errorf("%v: %d changes were of no consequence", f, same)
		}
	}
}

// forge seals what change has made of a file's sections.
func forge(im *Image, zipped bool, change func(s *sections)) []byte {
	s := im.sections(zipped)
	change(s)
	info := s.data[secInfo][:infoCRCs]
	for _, b := range s.data[secOps:] {
		info = binary.LittleEndian.AppendUint32(info, crc32.ChecksumIEEE(b))
	}
	s.data[secInfo] = binary.LittleEndian.AppendUint32(info, crc32.ChecksumIEEE(info))
	return s.binary()
}

// What is whole may still be wrong.
func TestForged(t *testing.T) {
	for what, c := range map[string]struct {
		zipped bool
		change func(s *sections)
		want   string
	}{
		"layout":               {false, func(s *sections) { s.data[secInfo][0]++ }, "layout 2"},
		"no operations":        {false, func(s *sections) { s.data[secOps] = nil }, "init program"},
		"unknown operation":    {false, func(s *sections) { s.data[secOps][0] = 15 }, "no such operation"},
		"an array is cut":      {false, func(s *sections) { s.data[secArray] = s.data[secArray][:64] }, "init array"},
		"zipped, not said":     {true, func(s *sections) { s.data[secInfo][infoFlags] = 0 }, "plain firmware with 6 zipped"},
		"zip stream is broken": {true, func(s *sections) { s.data[secArray][9] ^= 0x40 }, "does not unpack"},
		"IRO is cut":           {false, func(s *sections) { s.data[secIRO] = s.data[secIRO][:12] }, "section IRO"},
		"version out of place": {false, func(s *sections) { s.data[secIRO][2] = 1 }, "outside the memory"},
	} {
		_, err := Decode(forge(Builtin(), c.zipped, c.change))
		if status.Of(err) != status.Inval || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	old := Builtin()
	old.Version = 8<<24 | 37<<16
	if got, err := Decode(old.Encode(Binary)); err != nil || !strings.Contains(got.Check(AH).Error(), "firmware 8.37.0.0: the driver wants 8.40.33.0") {
		t.Errorf("another version: %v", err)
	}
	bb := Builtin()
	bb.Chips = BB
	if got, err := Decode(bb.Encode(Header)); err != nil || got.Check(BB) != nil || !strings.Contains(got.Check(AH).Error(), "is for BB: the chip is AH") {
		t.Errorf("another chip: %v", err)
	}
	for _, junk := range []string{"MZ\x90", "#include <x.h>\n", "T", "/* Storm", "\x00\x00\x00\x00"} {
		_, err := Decode([]byte(junk))
		refused(t, junk, err, "offset ")
	}
}

// FuzzDecode: whatever it is, it is refused with a line that names a place, or
// can be written and read again.
func FuzzDecode(f *testing.F) {
	small := Builtin()
	small.Program = &rt.Program{Ops: []rt.Op{{0x201, 9}, {0x421, 0}}, Array: append([]uint32{16 << 4}, make([]uint32, 16)...)}
	for form := range NumForms {
		f.Add(small.Encode(form))
	}
	f.Add([]byte(marker))
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := Decode(b)
		if err != nil {
			refused(t, "input", err, "firmware, ")
			return
		}
		again, err := Decode(im.Encode(im.Form))
		if err != nil || !equal(im, again) {
			t.Fatalf("its own file: %v", err)
		}
	})
}
