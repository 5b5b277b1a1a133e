package nvm

import (
	"bytes"
	"strings"
	"testing"

	"tapir/nic/fastlinq/status"
)

// MF-42 The factory's image holds what its directory says.
func TestFactory(t *testing.T) {
	im, err := Parse(Factory(0x01020304))
	if err != nil || im.Check() != nil || len(im.Entries()) != 6 {
		t.Fatalf("%v, %v", err, im.Entries())
	}
	e, ok := im.Find(TypeMFW)
	if v, _ := MFWVersion(im.Bytes(e)); !ok || v != 0x01020304 {
		t.Errorf("version %#x", v)
	}
	if _, ok := im.Find(0x99); ok {
		t.Error("an image that there is not")
	}
	list := []Option{{ID: 7, Entity: 1, Value: []byte("seven")}, {ID: 8, Value: []byte{}}}
	if err := im.SetOptions(list); err != nil {
		t.Fatal(err)
	}
	again, err := Parse(im.Raw())
	if err != nil || again.Check() != nil {
		t.Fatalf("after a change: %v", err)
	}
	got, err := again.Options(TypeConfig)
	if err != nil || len(got) != 2 || string(got[0].Value) != "seven" || got[1].ID != 8 {
		t.Errorf("%+v, %v", got, err)
	}
	if status.Of(im.Replace(0x99, nil)) != status.NoEnt || status.Of(im.Replace(TypeVPD, make([]byte, 1000))) != status.Inval {
		t.Error("Replace takes anything")
	}
	var many []Option
	for i := range uint16(20) {
		many = append(many, Option{ID: i, Value: make([]byte, MaxOption)})
	}
	if status.Of(im.SetOptions(many)) != status.NoResources {
		t.Error("too many options")
	}
	if _, err := New(100, []Part{{TypeMFW, make([]byte, 100)}}); status.Of(err) != status.NoResources {
		t.Errorf("too small: %v", err)
	}
}

// Every prefix of an image, and every image with an octet turned round, is
// refused with one clear line, or is whole where it counts.
func TestDamagedImage(t *testing.T) {
	whole := Factory(1)
	for n := range whole {
		if _, err := Parse(whole[:n]); status.Of(err) != status.IO || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "offset 0x") {
			t.Fatalf("%d octets: %v", n, err)
		}
	}
	covered := 0
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 0xff
		im, err := Parse(b)
		if err == nil {
			err = im.Check()
		}
		if err != nil {
			covered++
		}
	}
	if room := 16 + 4 + 6*16 + 4 + 512 + 256 + 512 + 512 + 128 + 1024; covered != room {
		t.Errorf("damage was found at %d places of %d that count", covered, room)
	}
}

func FuzzImage(f *testing.F) {
	f.Add(Factory(1))
	f.Add(Factory(1)[:60])
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := Parse(b)
		if err != nil {
			if status.Of(err) != status.IO {
				t.Fatalf("%v", err)
			}
			return
		}
		_ = im.Check()
		list, err := im.Options(TypeConfig)
		if err == nil && im.SetOptions(list) == nil {
			again, err := Parse(im.Raw())
			if err != nil {
				t.Fatalf("its own image is refused: %v", err)
			}
			if got, err := again.Options(TypeConfig); err != nil || len(got) != len(list) {
				t.Fatalf("%d options were %d, %v", len(list), len(got), err)
			}
		}
	})
}
