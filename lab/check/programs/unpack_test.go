package programs

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// copyPlain copies a file to a directory, uncompressed if its name ends in .gz.
func copyPlain(file, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	name := filepath.Base(file)
	if plain, ok := strings.CutSuffix(name, ".gz"); ok {
		name = plain
		if r, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), text, 0o644)
}
