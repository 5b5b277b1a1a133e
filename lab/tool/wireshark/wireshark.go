// Package wireshark gives Wireshark what it lacks: a dissector for Omni-Path
// packets, written in Lua, and the running NICs of this user as interfaces to
// capture on.
package wireshark

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Script is the dissector.
//
//go:embed tapir_opa.lua
var Script string

// Names of the files that are installed.
const (
	scriptName = "tapir_opa.lua"
	extcapName = "tapir-extcap"
	// mark is in every file of ours: nothing else is overwritten or removed.
	mark = "tapir wireshark install"
)

// Dirs are the directories in which Wireshark looks for what a user has
// installed.
type Dirs struct {
	Plugins string // Lua scripts
	Extcap  string // programs that capture
}

// Fill finds the directories that are not named.
func (d *Dirs) Fill(ctx context.Context) error {
	if d.Plugins != "" && d.Extcap != "" {
		return nil
	}
	found, err := Find(ctx)
	*d = Dirs{Plugins: cmp.Or(d.Plugins, found.Plugins), Extcap: cmp.Or(d.Extcap, found.Extcap)}
	return err
}

// Find asks tshark or wireshark for the directories; without them it returns
// those of Wireshark 4.0.
func Find(ctx context.Context) (Dirs, error) {
	for _, program := range []string{"tshark", "wireshark"} {
		if out, err := exec.CommandContext(ctx, program, "-G", "folders").Output(); err == nil {
			if d := parseFolders(string(out)); d.Plugins != "" && d.Extcap != "" {
				return d, nil
			}
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return Dirs{}, fmt.Errorf("cannot tell where Wireshark looks for plugins: %w", err)
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return Dirs{}, fmt.Errorf("cannot tell where Wireshark looks for plugins: %w", err)
	}
	return Dirs{Plugins: filepath.Join(home, ".local/lib/wireshark/plugins"),
		Extcap: filepath.Join(config, "wireshark/extcap")}, nil
}

// parseFolders reads what -G folders prints. Up to version 4.0 the folder for
// extcap programs is not among it, but below that of the configuration.
func parseFolders(out string) (d Dirs) {
	for line := range strings.Lines(out) {
		name, path, _ := strings.Cut(line, ":")
		switch path = strings.TrimSpace(path); strings.ToLower(name) {
		case "personal lua plugins":
			d.Plugins = path
		case "personal extcap path":
			d.Extcap = path
		case "personal configuration":
			if d.Extcap == "" {
				d.Extcap = filepath.Join(path, "extcap")
			}
		}
	}
	return d
}

// Install writes the dissector and the extcap program, which runs the command
// at tapir, an absolute path, and returns the names of both files. A file of
// another origin is left alone and is an error.
func Install(d Dirs, tapir string) ([]string, error) {
	files := d.files()
	for _, name := range files {
		if err := ours(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	launcher := "#!/bin/sh\n# By: " + mark + "\nexec " + quote(tapir) + " wireshark extcap \"$@\"\n"
	if err := place(files[0], Script, 0o644); err != nil {
		return nil, err
	}
	return files, place(files[1], launcher, 0o755)
}

// Uninstall removes what Install has written and returns the names of the
// files that were there.
func Uninstall(d Dirs) (removed []string, err error) {
	for _, name := range d.files() {
		switch err := ours(name); {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return removed, err
		}
		if err := os.Remove(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

func (d Dirs) files() []string {
	return []string{filepath.Join(d.Plugins, scriptName), filepath.Join(d.Extcap, extcapName)}
}

// ours returns nil if the file name is there and was installed by us.
func ours(name string) error {
	b, err := os.ReadFile(name)
	if err == nil && !strings.Contains(string(b), mark) {
		return fmt.Errorf("%s is not Tapir's: remove it first", name)
	}
	return err
}

// place writes the file by its name, so that Wireshark never sees half of it.
func place(name, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".tapir-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
