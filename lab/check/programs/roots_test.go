package programs

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tapir/lab/host/process"
)

// root makes a root directory of what files need and no more: themselves, the
// libraries that they and the C library load, and the provider librxe. The
// static launcher is there too, as /tapir.
func root(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	provider, err := filepath.Glob("/usr/lib/*/libibverbs/librxe-rdmav*.so")
	if err != nil || len(provider) == 0 {
		t.Fatal("the package ibverbs-providers is not installed", err)
	}
	files = append(files, provider...)
	out, err := exec.Command("ldd", files...).Output()
	if err != nil {
		t.Fatal(err)
	}
	libraries := regexp.MustCompile(`[\t ](/[^ \n:]+) \(`).FindAllStringSubmatch(string(out), -1)
	for _, l := range libraries {
		files = append(files, l[1])
		if unwind := filepath.Join(filepath.Dir(l[1]), "libgcc_s.so.1"); exists(unwind) { // which pthread_exit loads
			files = append(files, unwind)
		}
	}
	slices.Sort(files)
	for _, f := range slices.Compact(files) {
		write(t, filepath.Join(dir, f), content(t, f))
	}
	write(t, filepath.Join(dir, "tapir"), content(t, tapir))
	write(t, filepath.Join(dir, "etc/libibverbs.d/rxe.driver"), "driver rxe\n")
	for _, empty := range []string{"proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, empty), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// program is the file of an installed program.
func program(t *testing.T, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// own are namespaces of a container: mounts, processes.
var own = []string{"unshare", "--mount", "--pid", "--fork", "--kill-child"}

// bare is the way into a root directory with neither /proc, /sys nor /dev.
const bare = "bare"

// ways are the ways into a root directory dir, for a program or with the
// launcher; each is the command line that runs argv on a NIC there.
func ways(dir string) map[string]func(nic string, argv []string) []string {
	enter := append(slices.Clone(own), "--root", dir, "--mount-proc")
	via := func(how string, enter []string) func(string, []string) []string {
		return func(nic string, argv []string) []string {
			return slices.Concat([]string{tapir, "run", "--via", how, "--nic", nic, "--"}, enter, argv)
		}
	}
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	return map[string]func(string, []string) []string{
		bare:      via("auto", []string{"chroot", dir}),
		"auto":    via("auto", enter),
		"preload": via("preload", enter),
		"launcher": func(nic string, argv []string) []string {
			const script = `mkdir -p "$0$1" && mount --bind "$1" "$0$1" && mount -t proc proc "$0/proc" && shift && exec chroot "$0" "$@"`
			return slices.Concat(own, []string{"env", "TMPDIR=/tmp", "sh", "-c", script, dir, runtimeDir, "/tapir", "run", "--nic", nic, "--"}, argv)
		},
	}
}

// TestRoots: the programs run in a minimal root directory, server and client in
// turn, with the other side outside; so does the launcher.
func TestRoots(t *testing.T) {
	l := newLab(t)
	dir := root(t, program(t, "rping"), program(t, "ib_write_bw"))
	for how, under := range ways(dir) {
		for _, inside := range []string{server, client} {
			for _, c := range few() {
				if c.Name != "rping" && (how == bare || inside == server) { // its libpci wants /proc; one side will do
					continue
				}
				t.Run(fmt.Sprintf("%s, the %s of %s", how, inside, c.Name), func(t *testing.T) {
					runCell(t, l, c, Mode{Name: how, Under: func(nic string, argv []string) []string {
						if nic == inside {
							return under(nic, argv)
						}
						return l.under(nic, Auto, argv)
					}})
				})
			}
		}
	}
}

// compiled makes a program of a source file of testdata.
func compiled(t *testing.T, argv ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command(argv[0], append(argv[1:], "-o", file)...)
	if argv[0] == "go" {
		cmd = exec.Command("go", "build", "-o", file, argv[1])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return file
}

// speaks runs testdata/abi.c, or its counterpart in Go, on a NIC.
func speaks(t *testing.T, l *Lab, how string, argv []string) {
	t.Helper()
	p, err := process.Start(t.Context(), l.pair.A.NS, process.Options{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Wait(t.Context())
	if want := "4: RNIC\ncharacter device true, events true, MRs of 1 MiB true, id true\n"; err != nil || p.Said() != want {
		t.Errorf("%s: %v\n%s", how, err, p.Said())
	}
}

// TestMuslRoot: a root directory whose only C library is musl, as Alpine's.
func TestMuslRoot(t *testing.T) {
	program, err := elf.Open(tapir)
	if err != nil {
		t.Fatal(err)
	}
	libs, err := program.ImportedLibraries()
	if program.Close(); err != nil || len(libs) > 0 { // as with the race detector
		t.Skipf("this tapir needs %v (%v), which a root with musl lacks", libs, err)
	}
	l := newLab(t)
	loader, err := filepath.Glob("/lib/ld-musl-*.so.1") // which is the library, too
	if err != nil || len(loader) != 1 {
		t.Fatal("the package musl-tools is not installed", err)
	}
	dir := t.TempDir()
	for to, from := range map[string]string{loader[0]: loader[0], "abi": compiled(t, "musl-gcc", "testdata/abi.c"), "tapir": tapir} {
		write(t, filepath.Join(dir, to), content(t, from))
	}
	for _, empty := range []string{"proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, empty), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for how, under := range ways(dir) {
		speaks(t, l, how, under(server, []string{"/abi"}))
	}
}

// TestStatic: programs with no library of the distribution among them.
func TestStatic(t *testing.T) {
	l := newLab(t)
	const abi, ping = "testdata/abi.c", "testdata/ping.c"
	for name, c := range map[string]struct {
		argv    []string
		dynamic bool
	}{
		"C":            {[]string{"cc", "-static", abi}, false},
		"musl":         {[]string{"musl-gcc", abi}, true},
		"sanitized":    {[]string{"cc", "-fsanitize=address,undefined", abi}, true},
		"musl, static": {[]string{"musl-gcc", "-static", abi}, false},
		"Go":           {[]string{"go", "./testdata/goabi"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := compiled(t, c.argv...)
			vias := []string{"auto", "trap"}
			if c.dynamic {
				vias = append(vias, "preload")
			}
			for _, via := range vias {
				speaks(t, l, via, []string{tapir, "run", "--via", via, "--nic", server, "--", file})
			}
		})
	}
	provider, err := filepath.Glob("/usr/lib/*/librxe-rdmav*.a") // named after the version of the library's own interface
	if err != nil || len(provider) == 0 {
		t.Fatal("the package libibverbs-dev is not installed", err)
	}
	static := compiled(t, "cc", "-static", "-DRDMA_STATIC_PROVIDERS=rxe", ping,
		"-Wl,--start-group", "-lrdmacm", "-libverbs", provider[0], "-lnl-3", "-lnl-route-3", "-Wl,--end-group")
	dynamic := compiled(t, "cc", ping, "-lrdmacm", "-libverbs")
	for _, files := range [][2]string{{static, dynamic}, {dynamic, static}, {static, static}} {
		c := Cell{Name: strings.Join(files[:], " "), Server: files[0] + " -s " + IPv4, Client: files[1] + " " + IPv4, Want: "ping 2 back"}
		runCell(t, l, c, Auto)
	}
}
