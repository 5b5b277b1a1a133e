// Command pack writes the files that the program contains as one compressed file, with which
// .ci/program builds it: go run ./.ci/pack FILE
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"tapir"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// write writes the same octets for the same files. Builds may run
// at the same time: the file appears whole.
func write(file string) error {
	all, err := tapir.Files()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(all))
	// Files of one kind have more in common.
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(path.Ext(a), path.Ext(b)) })
	w := tar.NewWriter(gz)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(all[name]))}); err != nil {
			return err
		}
		if _, err := w.Write(all[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := gz.Close(); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(temporary, out.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}
