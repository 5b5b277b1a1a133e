package labs

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"tapir/lab/run/result"
	"tapir/lab/topo"
)

// archive writes what is needed to look into a lab that failed, and to run it again, into one file in its
// output directory: the topology file, the seed, versions, captures, log and reports. It returns the file's name.
func archive(lab *topo.Lab, r *result.Result, version, out string) (name string, err error) {
	name = filepath.Join(out, lab.Name+"-failed.tar.gz")
	files, err := os.ReadDir(out)
	if err != nil {
		return "", err
	}
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	zip := gzip.NewWriter(f)
	t := tar.NewWriter(zip)
	err = addText(t, lab.Name+"/README.txt", about(lab, r, version))
	err = errors.Join(err, addFile(t, lab.Name+"/lab.yaml", lab.File))
	for _, e := range files {
		if e.Type().IsRegular() && e.Name() != filepath.Base(name) {
			err = errors.Join(err, addFile(t, lab.Name+"/out/"+e.Name(), filepath.Join(out, e.Name())))
		}
	}
	return name, errors.Join(err, t.Close(), zip.Close(), f.Close())
}

// about is the first thing to read of an archive.
func about(lab *topo.Lab, r *result.Result, version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The lab %s failed. To run it again:\n\n", lab.Name)
	fmt.Fprintf(&b, "  tapir lab run --clock %s --seed %d --out out lab.yaml\n\n", lab.Clock, lab.Seed)
	fmt.Fprintf(&b, "tapir %s, %s, %s/%s\n", version, kernel(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "seed %d, %s clock, %d of %d steps\n", lab.Seed, lab.Clock, r.Done(), len(r.Steps))
	i := slices.IndexFunc(r.Steps, func(s *result.Step) bool { return s.Verdict == result.Failed })
	if i >= 0 {
		fmt.Fprintf(&b, "line %d: %s: %s\n", r.Steps[i].Line, r.Steps[i].Text, r.Steps[i].Error)
	}
	if r.Error != "" {
		fmt.Fprintln(&b, r.Error)
	}
	return b.String()
}

// kernel is the system's name and release.
func kernel() string {
	text, err := os.ReadFile("/proc/version")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 3 {
		return "unknown kernel"
	}
	return words[0] + " " + words[2]
}

func addText(t *tar.Writer, name, text string) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	_, err := io.WriteString(t, text)
	return err
}

func addFile(t *tar.Writer, name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: info.ModTime()})
	if err != nil {
		return err
	}
	_, err = io.CopyN(t, f, info.Size())
	return err
}

// keep archives a lab that failed, if its output is kept, and says so.
func keep(w io.Writer, lab *topo.Lab, r *result.Result, version, out string) error {
	if out == "" || r.Verdict == result.Passed || lab.File == "" {
		return nil
	}
	name, err := archive(lab, r, version, out)
	if err != nil {
		return fmt.Errorf("archive of lab %s: %w", lab.Name, err)
	}
	_, err = fmt.Fprintf(w, "to look into it, or to hand it on: %s\n", name)
	return err
}
