// Package wiretest holds captured frames and reads fuzzing seeds for the tests
// of codecs.
package wiretest

import (
	_ "embed"
	"encoding/hex"
	"io/fs"
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

// Seeds returns the inputs of a seed file, one in hexadecimal on each line. It
// panics if the file cannot be read.
func Seeds(dir fs.FS, file string) (out [][]byte) {
	text, err := fs.ReadFile(dir, file)
	if err != nil {
		panic("wiretest: " + err.Error())
	}
	for line := range strings.Lines(string(text)) {
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			panic("wiretest: " + file + ": " + err.Error())
		}
		out = append(out, b)
	}
	return out
}
