package peer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// Image is a guest ready to be started. Its files stay as they are when a build
// from other sources replaces those in the cache.
type Image struct {
	Kernel *os.File
	Initrd *os.File
	Linux  string // version of the kernel
}

// stage is one step of the build: a script that fills an empty directory of
// its name. It runs again when the script, one of its inputs or an earlier
// stage has changed.
type stage struct {
	name   string
	inputs []string
}

var stages = []stage{
	{"kernel", []string{"dcbops.c"}},
	{"userland", []string{"packages"}},
	{"programs", []string{"agent.c", "verify.c", "wireapp.c"}},
	{"image", []string{"init", "siw-load", "rxe-load"}},
}

// needs are the programs that building and running a guest takes, with the
// Debian package of each.
var needs = [][2]string{
	{"qemu-system-x86_64", "qemu-system-x86"}, {"gcc", "gcc libc6-dev"}, {"make", "make"}, {"xz", "xz-utils"},
	{"cpio", "cpio"}, {"depmod", "kmod"}, {"apt-get", "apt"}, {"dpkg-deb", "dpkg"},
}

// Available tells whether this machine can make and run guests, and if not
// why and how to mend that.
func Available() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("a siw guest needs an x86-64 machine, this is %s", runtime.GOARCH)
	}
	if _, err := find("apt-get"); err != nil {
		return errors.New(
			"a siw guest is built from Debian packages: apt-get is missing: use a Debian machine or container")
	}
	var missing, packages []string
	for _, n := range needs {
		if _, err := find(n[0]); err != nil {
			missing, packages = append(missing, n[0]), append(packages, n[1])
		}
	}
	if missing != nil {
		return fmt.Errorf("a siw guest needs %s: apt-get install -y %s", strings.Join(missing, ", "),
			strings.Join(packages, " "))
	}
	return nil
}

// find is exec.LookPath that also knows where an administrator's programs are.
func find(name string) (string, error) {
	p, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err != nil {
			p, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	return p, err
}

// CacheDir is where guests are built: tapir-peer below $XDG_CACHE_HOME, else
// /var/tmp/tapir-peer, for other users than root with their number.
func CacheDir() string {
	if d := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "tapir-peer")
	}
	if uid := netns.UID(); uid != 0 {
		return fmt.Sprintf("/var/tmp/tapir-peer-%d", uid)
	}
	return "/var/tmp/tapir-peer"
}

// Build returns the image in dir, which it makes or brings up to date first:
// about a minute and 200 MB of downloads the first time, nothing when all is
// as it was. Its steps are told to log. Builds in one dir wait for each other.
func Build(ctx context.Context, dir string, log io.Writer) (Image, error) {
	if err := Available(); err != nil {
		return Image{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Image{}, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	in := filepath.Join(dir, "in")
	if err := unpack(in); err != nil {
		return Image{}, err
	}
	key := ""
	for _, s := range stages {
		if key, err = s.key(key); err != nil {
			return Image{}, err
		}
		if err := s.build(ctx, dir, in, key, log); err != nil {
			return Image{}, fmt.Errorf("build the siw guest in %s: %s: %w", dir, s.name, err)
		}
	}
	version, err := os.ReadFile(filepath.Join(dir, "kernel", "version"))
	if err != nil {
		return Image{}, err
	}
	image := Image{Linux: strings.TrimSpace(string(version))}
	if image.Kernel, err = os.Open(filepath.Join(dir, "image", "vmlinuz")); err != nil {
		return Image{}, err
	}
	image.Initrd, err = os.Open(filepath.Join(dir, "image", "initrd"))
	return image, err
}

func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// unpack writes the inputs of the build to dir.
func unpack(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	sub, err := fs.Sub(guest, "guest")
	if err != nil {
		return err
	}
	return os.CopyFS(dir, sub)
}

// key names what the stage is made from: inputs, script and earlier stages.
func (s stage) key(earlier string) (string, error) {
	h := sha256.New()
	io.WriteString(h, earlier)
	for _, name := range append([]string{s.name + ".sh"}, s.inputs...) {
		b, err := guest.ReadFile("guest/" + name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// build runs the stage unless its last result was made from the same and is
// still what it was.
func (s stage) build(ctx context.Context, dir, in, key string, log io.Writer) error {
	out, stamp := filepath.Join(dir, s.name), filepath.Join(dir, s.name+".stamp")
	if sum, err := s.sum(out); err == nil {
		if b, err := os.ReadFile(stamp); err == nil && string(b) == key+" "+sum+"\n" {
			return nil
		}
	}
	fmt.Fprintf(log, "peer: building %s\n", s.name)
	if err := errors.Join(os.RemoveAll(stamp), os.RemoveAll(out), os.Mkdir(out, 0o755)); err != nil {
		return err
	}
	if err := s.script(ctx, dir, in, out); err != nil {
		return err
	}
	sum, err := s.sum(out)
	if err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(key+" "+sum+"\n"), 0o644)
}

// sum is the hash of what a guest is started from; of other stages only that
// they are there counts.
func (s stage) sum(out string) (string, error) {
	if s.name != "image" {
		_, err := os.Stat(out)
		return "-", err
	}
	h := sha256.New()
	for _, name := range []string{"vmlinuz", "initrd"} {
		f, err := os.Open(filepath.Join(out, name))
		if err != nil {
			return "", err
		}
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// script runs the stage's script. If it fails at the package manager's, lists
// of packages may be missing or old: root brings them and tries once more.
func (s stage) script(ctx context.Context, dir, in, out string) error {
	err := s.run(ctx, dir, in, out)
	if err == nil || ctx.Err() != nil || os.Getuid() != 0 || s.name != "kernel" && s.name != "userland" {
		return err
	}
	if text, e := exec.CommandContext(ctx, "apt-get", "-q", "update").CombinedOutput(); e != nil {
		return fmt.Errorf("%w; apt-get update: %s; run tapir peer build where apt reaches a Debian mirror", err,
			lastLines(text))
	}
	if err := errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o755)); err != nil {
		return err
	}
	if err := s.run(ctx, dir, in, out); err != nil {
		return fmt.Errorf("%w; does apt reach a Debian mirror? Only the first build needs one: "+
			"run tapir peer build where there is one", err)
	}
	return nil
}

func (s stage) run(ctx context.Context, dir, in, out string) error {
	cmd := exec.CommandContext(ctx, "sh", filepath.Join(in, s.name+".sh"))
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "IN="+in, "OUT="+dir, "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(text))
	}
	return nil
}

// lastLines is the end of what a program said, on one line.
func lastLines(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
