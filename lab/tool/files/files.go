// Package files opens what commands read and write: files, or standard input
// and output where the name is -.
package files

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Read calls read with the file of that name, or with in.
func Read(name string, in io.Reader, read func(io.Reader) error) error {
	if name == "-" {
		return read(in)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f)
}

// Write calls write with a new file of that name, or with out. A file in which
// an error has left nothing is removed. what says in errors what is written.
func Write(name string, out io.Writer, what string, write func(io.Writer) error) error {
	if name == "-" {
		return write(out)
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("cannot write the %s: %w", what, err)
	}
	err = write(f)
	if fi, serr := f.Stat(); err != nil && serr == nil && fi.Mode().IsRegular() && fi.Size() == 0 {
		os.Remove(f.Name())
	}
	if cerr := f.Close(); err == nil {
		return cerr
	}
	return err
}

// Terminal tells whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0 && fi.Mode()&os.ModeDevice != 0 && f.Name() != os.DevNull
}

// Regular tells whether w is a regular file.
func Regular(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	if !ok {
		return nil, false
	}
	fi, err := f.Stat()
	return f, err == nil && fi.Mode().IsRegular()
}

// Same tells whether name is the regular file r.
func Same(r io.Reader, name string) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	a, err := f.Stat()
	b, other := os.Stat(name)
	return errors.Join(err, other) == nil && a.Mode().IsRegular() && os.SameFile(a, b)
}
