package release

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var interop = flag.Bool("interop", false, "build a release twice, which takes a minute or two")

const version = "v0.0.9"

// run runs a program and returns its output.
func run(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// sums are the digests of the files of a directory.
func sums(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	list := map[string][32]byte{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		list[f.Name()] = sha256.Sum256(b)
	}
	return list
}

// maxSize is what the program may have in octets.
const maxSize = 25_000_000

// TestSize looks at the program that make has built, or builds it.
func TestSize(t *testing.T) {
	path := os.Getenv("TAPIR_BUILT")
	if path == "" {
		path = filepath.Join(t.TempDir(), "tapir")
		run(t, nil, "../../../.ci/program", "-o", path)
	}
	size(t, path)
	// The files that it contains are compressed: it has them as they are in the repository.
	want, err := os.ReadFile("../../tool/licenses/notices.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := exec.Command(path, "version", "--licenses").Output(); err != nil || string(got) != string(want) {
		t.Errorf("%s version --licenses: %v, %d octets of %d", path, err, len(got), len(want))
	}
}

func size(t *testing.T, path string) {
	t.Helper()
	f, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Size() < 1<<20 || f.Size() > maxSize {
		t.Errorf("%s has %d octets, allowed are %d", filepath.Base(path), f.Size(), maxSize)
	}
}

// TestRelease builds a release in two directories: the octets are the same. Both packages
// are installed into empty roots and removed.
func TestRelease(t *testing.T) {
	if !*interop {
		t.Skip("it is part of make interop")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can install packages")
	}
	for _, tool := range []string{"dpkg", "rpm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not there", tool)
		}
	}
	copied, here, there := t.TempDir(), t.TempDir(), t.TempDir()
	epoch := []string{"SOURCE_DATE_EPOCH=1767225600"}
	run(t, epoch, "../../../.ci/release/build", version, here)
	run(t, nil, "sh", "-c", `cd ../../.. && git ls-files -z | tar --null -T - -c | tar -x -C "$0"`, copied)
	run(t, append(epoch, "TMPDIR="+t.TempDir(), "TZ=Asia/Tokyo"), copied+"/.ci/release/build", version, there)

	first, second := sums(t, here), sums(t, there)
	if len(first) != 8 || len(second) != 8 {
		t.Errorf("%d and %d files, want 8", len(first), len(second))
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s differs between two builds", name)
		}
	}
	run(t, nil, "sh", "-c", `cd "$0" && sha256sum --quiet -c SHA256SUMS`, here)
	for _, arch := range []string{"amd64", "arm64"} {
		size(t, filepath.Join(here, "tapir-linux-"+arch))
	}
	modules(t, filepath.Join(here, "tapir-"+version+".cdx.json"))
	t.Run("deb", func(t *testing.T) { debian(t, filepath.Join(here, "tapir_0.0.9_amd64.deb")) })
	t.Run("rpm", func(t *testing.T) { fedora(t, filepath.Join(here, "tapir-0.0.9-1.x86_64.rpm")) })
}

// modules wants the program and a module of it in the list.
func modules(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if c := list.Metadata.Component; list.BOMFormat != "CycloneDX" || c.Name != "tapir" || c.Version != version {
		t.Errorf("the list is of %s %s in format %q", c.Name, c.Version, list.BOMFormat)
	}
	for _, c := range list.Components {
		if c.Name == "github.com/songgao/water" && c.Version != "" {
			return
		}
	}
	t.Error("github.com/songgao/water is not in the list of modules")
}

// installed judges a root into which a package was installed.
func installed(t *testing.T, root string) {
	t.Helper()
	if got := run(t, nil, root+"/usr/bin/tapir", "version"); !strings.HasPrefix(got, "tapir "+version+" ") {
		t.Errorf("tapir version prints %q", got)
	}
	run(t, nil, "gzip", "-t", root+"/usr/share/man/man1/tapir.1.gz")
	run(t, nil, "bash", "-n", root+"/usr/share/bash-completion/completions/tapir")
	for _, name := range []string{"LICENSE", "THIRD-PARTY", "README.md", "CHANGELOG.md"} {
		if info, err := os.Stat(root + "/usr/share/doc/tapir/" + name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// removed wants nothing of a package to be left in a root.
func removed(t *testing.T, root string) {
	t.Helper()
	filepath.WalkDir(root+"/usr", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "tapir") {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}

func debian(t *testing.T, file string) {
	root := t.TempDir()
	for _, dir := range []string{"info", "updates"} {
		if err := os.MkdirAll(root+"/var/lib/dpkg/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/var/lib/dpkg/status", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg := []string{"dpkg", "--root=" + root, "--log=/dev/null"}
	run(t, nil, append(dpkg, "-i", file)...)
	installed(t, root)
	run(t, nil, append(dpkg, "-r", "tapir")...)
	removed(t, root)
}

func fedora(t *testing.T, file string) {
	root := t.TempDir()
	rpm := []string{"rpm", "--root=" + root, "--dbpath=/var/lib/rpm"}
	run(t, nil, append(rpm, "-i", "--nosignature", file)...)
	installed(t, root)
	run(t, nil, append(rpm, "-e", "tapir")...)
	removed(t, root)
}
