package real

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
)

// containerRoot makes the root directory of a container with these programs,
// what they need to be loaded, and no more.
func containerRoot(t *testing.T, dir string, programs ...string) {
	t.Helper()
	files := []string{}
	for _, name := range programs {
		file, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	out, err := exec.Command("ldd", files...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`[\t ](/[^ \n:]+) \(`).FindAllStringSubmatch(string(out), -1) {
		files = append(files, m[1])
	}
	slices.Sort(files)
	for _, f := range slices.Compact(files) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, f)
		if strings.Contains(f, "bin/") {
			to = filepath.Join(dir, "bin", filepath.Base(f))
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := testenv.WriteProgram(to, data); err != nil {
			t.Fatal(err)
		}
	}
}

// What a container without privileges is: namespaces of its own, a root
// directory of its own, and a user without capabilities.
const (
	enterContainer = `cd "$0"
mount --bind . . && cd "$0"
mount -t proc proc proc
mount --bind /dev/net/tun dev/net/tun
mount --bind /dev/null dev/null
mount -t tmpfs tmpfs tmp
PATH=/usr/sbin:/sbin:$PATH pivot_root . old
export PATH=/bin HOME=/tmp TMPDIR=/tmp
exec sh -ec 'umount -l /old; exec unshare --user --map-user=1000 --map-group=1000 sh -e /inside'`
	insideContainer = `surroundings() { ip -o link; cat /proc/self/mounts; cat /proc/[0-9]*/comm; }
grep CapEff: /proc/self/status
surroundings >/tmp/before
for lab in /labs/*.yaml; do tapir lab run --out /tmp/out $lab || :; done
surroundings >/tmp/after
echo what is left:
diff /tmp/before /tmp/after
ls /tmp /tmp/out
`
)

// containerLabs are the examples, by file name: one with its steps, of the others
// their networks, which need none of the programs that a container lacks. A rule
// that then never strikes fails its lab.
func containerLabs(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../examples/*/lab.yaml")
	if err != nil || len(files) < 14 {
		t.Fatalf("%q %v", files, err)
	}
	labs := map[string]string{"labs/host.yaml": pair + "  - {run: ip link show eth0, on: h, output: LOWER_UP}\n"}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if strings.Contains(text, "kind: peer") {
			continue
		}
		name, end := filepath.Base(filepath.Dir(file)), "\nsteps:"
		if name == "first-write" {
			end = "  - expect:" // of captures: there is no tshark
		}
		labs["labs/"+name+".yaml"], _, _ = strings.Cut(text, end)
	}
	return labs
}

// TestContainer brings up all examples in a container without privileges as an
// ordinary user, and compares links, mounts and processes before and after.
func TestContainer(t *testing.T) {
	dir := testenv.PublicDir(t)
	root := filepath.Join(dir, "root")
	containerRoot(t, root, "sh", "ping", "ip", "cat", "ls", "grep", "diff", "umount", "unshare")
	for _, sub := range []string{"proc", "dev/net", "tmp", "old", "labs"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	labs := containerLabs(t)
	files := map[string]string{"inside": insideContainer, "dev/null": "", "dev/net/tun": ""}
	maps.Copy(files, labs)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Copy(t, filepath.Join(root, "bin"), tapir)
	cmd := testenv.Unprivileged(t, t.Context(), dir, "unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts",
		"--fork", "--kill-child", "sh", "-ec", enterContainer, root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	wants := []string{"CapEff:\t0000000000000000", "lab first-write: pass after 3 of 3", "lab host: pass", "report.html"}
	for name := range labs {
		wants = append(wants, fmt.Sprintf("lab %s is up", strings.TrimSuffix(filepath.Base(name), ".yaml")))
	}
	for _, want := range wants {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
	if _, left, _ := strings.Cut(string(out), "what is left:"); strings.Contains(left, prefix) {
		t.Errorf("left: %s", left)
	}
	for _, up := range regexp.MustCompile(`(?m)^ *([\d.]+)  lab (\S+) is up`).FindAllStringSubmatch(string(out), -1) {
		t.Logf("%s is up after %s s", up[2], up[1])
	}
}
