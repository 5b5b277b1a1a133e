// Package wiretest holds captured frames for the tests of the wire packages.
package wiretest

import (
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed testdata/frames.hex
var frames string

// Frame is one captured Ethernet frame.
type Frame struct {
	Name string
	Data []byte
}

// Frames returns all captured frames.
func Frames() []Frame {
	var all []Frame
	for line := range strings.Lines(frames) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		data, err := hex.DecodeString(digits)
		if err != nil {
			panic("wiretest: " + name + ": " + err.Error())
		}
		all = append(all, Frame{name, data})
	}
	return all
}

// Get returns the frame of that name; it panics if there is none.
func Get(name string) []byte {
	for _, f := range Frames() {
		if f.Name == name {
			return f.Data
		}
	}
	panic("wiretest: no frame " + name)
}
