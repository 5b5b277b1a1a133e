package wireshark

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseFolders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, out string
		want      Dirs
	}{
		{"4.0", "Temp:\t/tmp\nPersonal configuration:\t/h/.config/wireshark\nPersonal Plugins:\t/h/.local/lib/wireshark/plugins/4.0\n" +
			"Personal Lua Plugins:\t/h/.local/lib/wireshark/plugins\nExtcap path:\t/usr/lib/wireshark/extcap\n",
			Dirs{"/h/.local/lib/wireshark/plugins", "/h/.config/wireshark/extcap"}},
		{"4.4", "Personal configuration:\t/h/.config/wireshark\nPersonal Lua Plugins:\t/h/.local/lib/wireshark/plugins\n" +
			"Personal Extcap path:\t/h/.local/lib/wireshark/extcap\nGlobal Extcap path:\t/usr/lib/wireshark/extcap\n",
			Dirs{"/h/.local/lib/wireshark/plugins", "/h/.local/lib/wireshark/extcap"}},
		{"without Lua", "Personal configuration:\t/h/.config/wireshark\n", Dirs{"", "/h/.config/wireshark/extcap"}},
	} {
		if got := parseFolders(c.out); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestFindWithoutWireshark: the directories of Wireshark 4.0, in the home of
// the user.
func TestFindWithoutWireshark(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", home)
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	want := Dirs{filepath.Join(home, ".local/lib/wireshark/plugins"), filepath.Join(home, ".config/wireshark/extcap")}
	if got, err := Find(t.Context()); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// TestInstallTwice: an update replaces the files of before, and the launcher
// survives any path.
func TestInstallTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := Dirs{filepath.Join(dir, "a", "plugins"), filepath.Join(dir, "b", "extcap")}
	for range 2 {
		if files, err := Install(d, "/opt/it's here/tapir"); err != nil || len(files) != 2 {
			t.Fatalf("%q, %v", files, err)
		}
	}
	launcher, err := os.ReadFile(filepath.Join(d.Extcap, "tapir-extcap"))
	if err != nil || !strings.Contains(string(launcher), `exec '/opt/it'\''s here/tapir' wireshark extcap "$@"`) {
		t.Errorf("%s, %v", launcher, err)
	}
	for _, sub := range []string{d.Plugins, d.Extcap} {
		if entries, err := os.ReadDir(sub); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

func TestNICOf(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := WriteInterfaces(&b, "v1", []string{"nic0", "hfi-1"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"extcap {version=v1}{display=Tapir NICs}", "interface {value=tapir-nic0}{display=Tapir NIC nic0}",
		"interface {value=tapir-hfi-1}{display=Tapir NIC hfi-1}"}
	if got := split([]byte(b.String())); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if name, err := NICOf("tapir-hfi-1"); err != nil || name != "hfi-1" {
		t.Errorf("%q, %v", name, err)
	}
	for _, bad := range []string{"eth0", "tapir-", ""} {
		if _, err := NICOf(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}
