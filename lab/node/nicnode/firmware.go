package nicnode

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tapir/nic/fastlinq"
)

// FirmwarePathEnv names directories, with colons between them, that are
// searched for firmware before FirmwareDirs.
const FirmwarePathEnv = "TAPIR_FIRMWARE_PATH"

// FirmwareDirs are the directories of firmware.
var FirmwareDirs = []string{"/lib/firmware/updates/tapir", "/lib/firmware/tapir"}

// maxFirmware bounds a firmware file in octets, maxFlash one for the flash.
const (
	maxFirmware = 1 << 20
	maxFlash    = 1 << 16
)

// ReadFirmware reads the firmware of the storms: spec is a form, whose file is
// searched for, or the path of a file. What is not the firmware that the driver
// wants is an error of one line, which says which version and form are wanted,
// and where they were searched or which place of the file is wrong.
func ReadFirmware(spec string) ([]byte, error) {
	form, err := fastlinq.ParseStormForm(spec)
	if err != nil {
		b, _, err := readStorm(spec)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("firmware %v: %s does not exist; nor is it a form to search for (%s): write the "+
				"file with: tapir firmware -w %s", fastlinq.Storm, spec, strings.Join(fastlinq.StormForms(), ", "),
				spec)
		case err != nil:
			return nil, fmt.Errorf("firmware %v: %s: %w", fastlinq.Storm, spec, err)
		}
		return b, nil
	}
	dirs := append(filepath.SplitList(os.Getenv(FirmwarePathEnv)), FirmwareDirs...)
	name := fastlinq.StormFile(form)
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		b, im, err := readStorm(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && im.Form != form {
			err = fmt.Errorf("it is the form %v", im.Form)
		}
		if err != nil {
			return nil, fmt.Errorf("firmware %v as %v: %s: %w", fastlinq.Storm, form, path, err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("firmware %v as %v: no %s in %s%s: write it with: tapir firmware --form %v -w %s, or "+
		"name its directory in %s", fastlinq.Storm, form, name, strings.Join(dirs, ", "), others(dirs), form,
		filepath.Join(FirmwareDirs[len(FirmwareDirs)-1], name), FirmwarePathEnv)
}

// others says what firmware there is instead.
func others(dirs []string) string {
	var names []string
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, "init_values*")) // the pattern is a good one
		for _, f := range found {
			names = append(names, filepath.Base(f))
		}
	}
	if names == nil {
		return ""
	}
	slices.Sort(names)
	return ", but " + strings.Join(slices.Compact(names), ", ")
}

// readStorm reads and checks the firmware in a file.
func readStorm(path string) (b []byte, im *fastlinq.StormFirmware, err error) {
	if b, err = readFirmware(path, maxFirmware); err != nil {
		return nil, nil, err
	}
	if im, err = fastlinq.DecodeStorm(b); err == nil {
		err = fastlinq.CheckStorm(im)
	}
	return b, im, err
}

// readFirmware reads a regular file of a size that firmware may have.
func readFirmware(path string, most int64) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case st.Size() > most:
		return nil, fmt.Errorf("%d octets, of at most %d", st.Size(), most)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// loadFirmware takes the firmware that the configuration names into it.
func loadFirmware(c *Config) error {
	if c.Firmware == "" {
		return nil
	}
	b, err := ReadFirmware(c.Firmware)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	f := c.FastLinQ()
	if f == nil {
		return fmt.Errorf("%s: firmware: only FastLinQ hardware has some", c.WithDefaults().Name)
	}
	f.Firmware.File = b
	if f.Firmware.Policy == fastlinq.LoadDriver {
		f.Firmware.Policy = fastlinq.LoadDisk
	}
	return nil
}

// ReadFlashFile reads a file that is to go into a flash.
func ReadFlashFile(path string) ([]byte, error) {
	b, err := readFirmware(path, maxFlash)
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return b, err
}
