package nicnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/node"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore/fw"
)

// Firmware is found by its form, and an error says what is wanted and where it
// was searched, or what is wrong with the file.
//
// IN-18 IN-19 IN-20 IN-21. B 1
func TestReadFirmware(t *testing.T) {
	dir, second := t.TempDir(), t.TempDir()
	t.Setenv(FirmwarePathEnv, dir+":"+second)
	installed := FirmwareDirs
	FirmwareDirs = []string{filepath.Join(dir, "updates"), filepath.Join(dir, "installed")} // the machine may have some
	defer func() { FirmwareDirs = installed }()
	missing := func(f fw.Form, there string) {
		t.Helper()
		_, err := ReadFirmware(f.String())
		for _, want := range []string{"firmware 8.40.33.0 as " + f.String() + ": no " + fw.FileName(fw.Wanted, f) + " in " + dir + ", " + second + ", " + strings.Join(FirmwareDirs, ", ") + there,
			"tapir firmware --form " + f.String() + " -w " + FirmwareDirs[1] + "/"} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	write := func(dir, name string, b []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for f := range fw.NumForms {
		missing(f, ": write it")
	}
	write(dir, fw.FileName(0x08250000, fw.Binary), nil)
	for f := range fw.NumForms {
		missing(f, ", but init_values-8.37.0.0.bin: write it")
	}
	for f := range fw.NumForms {
		whole := fw.Builtin().Encode(f)
		path := write(second, fw.FileName(fw.Wanted, f), whole)
		for _, spec := range []string{f.String(), path} {
			c := Config{Firmware: spec}
			if err := loadFirmware(&c); err != nil || c.FastLinQ().Firmware.Policy != fastlinq.LoadDisk || len(c.FastLinQ().Firmware.File) != len(whole) {
				t.Errorf("%s: %v", spec, err)
			}
		}
		write(second, fw.FileName(fw.Wanted, f), whole[:len(whole)/2])
		if _, err := ReadFirmware(f.String()); err == nil || !strings.Contains(err.Error(), path+": firmware, ") || !strings.Contains(err.Error(), "it ends within") {
			t.Errorf("truncated: %v", err)
		}
		write(second, fw.FileName(fw.Wanted, f), fw.Builtin().Encode((f+1)%fw.NumForms))
		if _, err := ReadFirmware(f.String()); err == nil || !strings.HasSuffix(err.Error(), "it is the form "+((f+1)%fw.NumForms).String()) {
			t.Errorf("another form: %v", err)
		}
	}
	old := fw.Builtin()
	old.Version = 0x08250000
	for spec, want := range map[string]string{
		filepath.Join(dir, "none.bin"):             "does not exist",
		dir:                                        "not a regular file",
		"/dev/zero":                                "not a regular file",
		write(dir, "old.bin", old.Encode(0)):       "firmware 8.37.0.0: the driver wants 8.40.33.0",
		write(dir, "x", []byte("GIF89a")):          "offset 0: neither the marker",
		write(dir, "big", make([]byte, 1<<20+1)):   "1048577 octets, of at most 1048576",
		write(dir, "bin.bin", make([]byte, 0, 10)): "it is empty",
	} {
		_, err := ReadFirmware(spec)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "firmware 8.40.33.0: "+spec) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// A NIC whose firmware is missing leaves nothing behind, not even a TAP.
func TestNoFirmwareNoNIC(t *testing.T) {
	c := Config{Name: "nic0", Firmware: filepath.Join(t.TempDir(), "none.h"), TAP: "nofwtap0"}
	if err := c.Set("ip", "10.9.0.1/24"); err != nil {
		t.Fatal(err)
	}
	if n, err := Start(t.Context(), c, node.Env{}); err == nil || n != nil || !strings.Contains(err.Error(), "nic0: firmware 8.40.33.0: ") {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat("/sys/class/net/nofwtap0"); err == nil {
		t.Error("the TAP is left")
	}
}
