package targetconf

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Kinds of LUN.
const (
	Mem    = "mem"    // memory that is taken as it is written
	File   = "file"   // a file or block device as it is
	Sparse = "sparse" // a file with holes
)

// LUN is a disk.
type LUN struct {
	Kind     string `json:"kind"`
	Path     string `json:"path,omitempty"`
	Size     int64  `json:"size"` // octets; 0: that of the file
	Block    int    `json:"block"`
	ReadOnly bool   `json:"read_only"`
}

// Row is the kind, the size in octets, the block and the path, as columns of a table.
func (l *LUN) Row() string {
	kind := l.Kind
	if l.ReadOnly {
		kind += ",ro"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s", kind, l.Size, l.Block, l.Path)
}

// ParseLUN reads mem:SIZE, file:PATH or sparse:PATH:SIZE with options behind commas: ro,
// block=4096. Sizes have K, M, G or T behind them for powers of 1024.
func ParseLUN(text string) (l LUN, err error) {
	what, options, _ := strings.Cut(text, ",")
	kind, rest, _ := strings.Cut(what, ":")
	l = LUN{Kind: kind, Block: 512}
	size := ""
	switch kind {
	case Mem:
		size = rest
	case File:
		l.Path = rest
	case Sparse:
		at := strings.LastIndex(rest, ":")
		if at < 0 {
			return l, fmt.Errorf("%s: the size is missing: sparse:PATH:SIZE", text)
		}
		l.Path, size = rest[:at], rest[at+1:]
	default:
		return l, fmt.Errorf("%s: expected mem:SIZE, file:PATH or sparse:PATH:SIZE", text)
	}
	if kind != Mem {
		if l.Path == "" {
			return l, fmt.Errorf("%s: the path is missing", text)
		}
		if l.Path, err = filepath.Abs(l.Path); err != nil {
			return l, err
		}
	}
	if kind != File {
		if l.Size, err = ParseSize(size); err != nil {
			return l, fmt.Errorf("%s: %w", text, err)
		}
	}
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "":
		case "ro":
			l.ReadOnly = true
		case "block=512", "block=4096":
			l.Block, _ = strconv.Atoi(o[len("block="):])
		default:
			return l, fmt.Errorf("%s: unknown option %q: ro, block=512 or block=4096", text, o)
		}
	}
	if l.Size%int64(l.Block) != 0 {
		return l, fmt.Errorf("%s: the size is not a number of whole blocks of %d octets", text, l.Block)
	}
	return l, nil
}

// MaxSize is the largest LUN.
const MaxSize = 1 << 46

// ParseSize reads a number of octets, 1 to 64T, with K, M, G or T behind it.
func ParseSize(s string) (int64, error) {
	shift := 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMGT", s[n-1]); i >= 0 {
			s, shift = s[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > MaxSize>>shift {
		return 0, errors.New("the size is not a number from 1 to 64T, such as 64M or 10G")
	}
	return n << shift, nil
}
