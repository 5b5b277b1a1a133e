package sysfs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/trap"
	"tapir/nic/uapi/trap/traptest"
)

func TestMain(m *testing.M) { traptest.Main(m, programs, traptest.Nothing) }

// world is a tree with one device.
type world struct {
	*Tree
	via trap.Via
	lib string // a library that programs load

	mu    sync.Mutex // of what the device says
	qps   []QP
	err   error
	zcopy string
}

// change changes what the device says.
func (w *world) change(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
}

// says returns what the device says.
func says[T any](w *world, get func() T) func() (T, error) {
	return func() (T, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return get(), w.err
	}
}

// bothWays runs a test of programs that use libc by either way to the
// supervisor.
func bothWays(t *testing.T, test func(t *testing.T, w *world)) {
	for _, via := range []trap.Via{trap.Seccomp, trap.Preload} {
		t.Run(via.String(), func(t *testing.T) {
			w := newWorld(t)
			w.via = via
			test(t, w)
		})
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	tree, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Tree: tree, zcopy: "Y"}
	err = tree.Devices([]Device{{Index: 0, Netdev: "lo",
		Attr: says(w, func() Attr {
			return Attr{NodeGUID: "0200:00ff:fe00:0001", SystemImageGUID: "0200:00ff:fe00:0001", Firmware: "1.2", Description: "tapir nic7",
				State: "ACTIVE", Phys: "LINK_UP", PKeys: []uint16{0xffff}, GIDs: []string{"0200:0000:0001:0000:0000:0000:0000:0000"}}
		}),
		Stats: says(w, func() Stats {
			return Stats{CXs: 1, PDs: 2, QPs: 3, CQs: 4, SRQs: 5, MRs: 6, CEPs: 7, Sockets: 8, WQEs: 9}
		}),
		QPs: says(w, func() []QP { return w.qps }),
		CEPs: says(w, func() []CEP {
			return []CEP{{State: "listening", Listening: true, Local: "10.0.0.1:7471"}, {ID: 4, State: "full operation", QP: 9, Local: "10.0.0.1:7471", Remote: "10.0.0.2:9"}}
		})}})
	if err == nil {
		err = tree.Parameters([]Parameter{
			{Name: "zcopy_tx", Get: says(w, func() string { return w.zcopy }), Set: func(v string) { w.change(func() { w.zcopy = v }) }},
			{Name: "iface_list", Get: says(w, func() string { return "none" })}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a program to its end and returns what it wrote.
func (w *world) run(t *testing.T, argv ...string) (output string, code int) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := trap.Start(trap.Options{Argv: argv, Stdout: out, Stderr: out, Handlers: []trap.Handler{w.Tree}, Via: w.via,
		Library: w.lib})
	if err != nil {
		t.Fatal(err)
	}
	defer testenv.Guard(t, p.PID(), nil)()
	if code, err = p.Wait(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b), code
}

// want compares what a program wrote.
func (w *world) want(t *testing.T, want string, argv ...string) {
	t.Helper()
	if got, code := w.run(t, argv...); got != want || code != 0 {
		t.Errorf("%q wrote, with exit code %d:\n%s\nwant:\n%s", argv, code, got, want)
	}
}

// self is the command line of a program of this binary.
func self(name string) []string { return []string{"/proc/self/exe", traptest.Program + name} }

var programs = map[string]func(){"read": readAll, "chroot": inChroot, "refused": refused, "netlink": netlink}

// TestStockProgramsFindTheDevice: libibverbs takes the device from the files.
func TestStockProgramsFindTheDevice(t *testing.T) {
	bothWays(t, func(t *testing.T, w *world) {
		w.want(t, "    device          \t   node GUID\n    ------          \t----------------\n    rxe0            \t020000fffe000001\n", "ibv_devices")
	})
}

// TestTools: directories are real ones to whoever lists them, by absolute paths
// or from a descriptor on.
func TestTools(t *testing.T) {
	bothWays(t, func(t *testing.T, w *world) {
		w.want(t, "rdma_cm\numad0\nuverbs0\n", "ls", "/dev/infiniband")
		w.want(t, "/sys/class/infiniband_verbs\n/sys/class/infiniband_verbs/abi_version\n/sys/class/infiniband_verbs/uverbs0\n"+
			"/sys/class/infiniband_verbs/uverbs0/abi_version\n/sys/class/infiniband_verbs/uverbs0/dev\n/sys/class/infiniband_verbs/uverbs0/ibdev\n",
			"sh", "-c", "find /sys/class/infiniband_verbs | sort")
		w.want(t, "5\nrxe0\n1\n231:0\n", "cat", "/sys/class/infiniband_mad/abi_version",
			"/sys/class/infiniband_mad/umad0/ibdev", "/sys/class/infiniband_mad/umad0/port", "/sys/class/infiniband_mad/umad0/dev")
		w.want(t, "6\n2\n", "cat", "/sys/class/infiniband_verbs/abi_version", "/sys/class//./infiniband_verbs/uverbs0/abi_version")
		w.want(t, "lo\n", "ls", "/sys/class/infiniband/rxe0/device/net/")
		if got, code := w.run(t, "ls", "-l", "/sys/class/misc/rdma_cm"); code != 0 || strings.Count(got, "-r--r--r-- 1 ") != 2 {
			t.Errorf("ls -l, exit code %d:\n%s", code, got)
		}
		if got, code := w.run(t, "ls", "/sys/class/infiniband/rxe1"); code != 2 || !strings.Contains(got, "No such file or directory") {
			t.Errorf("what is not there, exit code %d:\n%s", code, got)
		}
	})
}

// TestNetdev: the files of the device's network interface, which here is the loopback, say
// what the kernel's own do, and its counters have the same names.
func TestNetdev(t *testing.T) {
	const kernel, served = "/sys/class/net/lo", "/sys/class/infiniband/rxe0/device/net/lo"
	bothWays(t, func(t *testing.T, w *world) {
		for name := range linkFiles {
			want, err := os.ReadFile(filepath.Join(kernel, name))
			testenv.Must(t, err)
			w.want(t, string(want), "cat", filepath.Join(served, name))
		}
		counters, _ := w.run(t, "ls", kernel+"/statistics")
		w.want(t, counters, "ls", served+"/statistics")
		before, _ := os.ReadFile(kernel + "/statistics/rx_packets")
		now, code := w.run(t, "cat", served+"/statistics/rx_packets")
		after, _ := os.ReadFile(kernel + "/statistics/rx_packets")
		var least, is, most uint64
		if _, err := fmt.Sscan(string(before)+now+string(after), &least, &is, &most); err != nil || code != 0 ||
			is < least || is > most {
			t.Errorf("rx_packets %d, not in %d...%d: %v", is, least, most, err)
		}
	})
	if _, err := linkOf("none0"); err != unix.ENODEV {
		t.Errorf("an interface that is not there: %v", err)
	}
}

// TestWorkingDirectory: programs change into a shown directory, name files from there, and
// are told where they are; a directory that is not there is refused as ever.
func TestWorkingDirectory(t *testing.T) {
	bothWays(t, func(t *testing.T, w *world) {
		file := filepath.Join(t.TempDir(), "doorbell.so")
		testenv.Must(t, os.WriteFile(file, []byte(doorbell.Library()), 0o600))
		w.lib = file
		const dir = "/sys/class/infiniband"
		w.want(t, "rxe0\n4: ACTIVE\n"+dir+"/rxe0\n1\n"+dir+"/rxe0/ports\n6\n/dev\n", "sh", "-ec", "cd "+dir+"; echo *; cat rxe0/ports/1/state; "+
			"cd rxe0; pwd -P; ls ports; cd ports; env -u PWD pwd; cat ../../../infiniband_verbs/abi_version; cd /dev; env -u PWD pwd")
		if got, code := w.run(t, "sh", "-c", "cd "+dir+"/rxe9"); code == 0 {
			t.Errorf("exit code %d: %s", code, got)
		}
	})
}

// TestLive: what a NIC is asked is asked when the file is opened, and its
// failure is the program's.
func TestLive(t *testing.T) {
	bothWays(t, func(t *testing.T, w *world) {
		const stats, qp, cep = "/sys/kernel/debug/siw/rxe0/stats", "/sys/kernel/debug/siw/rxe0/qp", "/sys/kernel/debug/siw/rxe0/cep"
		w.want(t, "Allocated SIW Objects:\nDevice rxe0 (IFF_UP):\tCXs: 1, PDs: 2, QPs: 3, CQs: 4, SRQs: 5, MRs: 6, CEPs: 7, TCP sockets: 8, WQEs: 9\n", "cat", stats)
		w.want(t, "", "cat", qp)
		w.change(func() {
			w.qps = []QP{{Num: 9, State: "RTS", Sends: 1, Recvs: 2, IRD: 3, ORD: 4, Local: "10.0.0.1:7471", Remote: "10.0.0.2:9"}, {Num: 10, State: "IDLE"}}
		})
		w.want(t, "rxe0: 2 QPs\n"+
			"QP-ID  State SQ   RQ   IRQ  ORQ  Sock\n"+
			"9      2     1    2    3    4    10.0.0.1:7471-10.0.0.2:9\n"+
			"10     0     0    0    0    0    -\n", "cat", qp)
		w.want(t, "rxe0: 2 CEPs\n"+
			"CM-ID  State          QP-ID  LC Sock\n"+
			"0      listening      -1     y  10.0.0.1:7471\n"+
			"4      full-operation 9      n  10.0.0.1:7471-10.0.0.2:9\n", "cat", cep)
		w.want(t, "Y\n", "cat", "/sys/module/siw/parameters/zcopy_tx")
		w.change(func() { w.err = unix.ENODEV })
		if got, code := w.run(t, "cat", stats); code != 1 || !strings.Contains(got, "No such device") {
			t.Errorf("a NIC that is gone, exit code %d: %s", code, got)
		}
	})
}

// TestParameters: what a shell writes into a parameter counts from its next
// command on.
func TestParameters(t *testing.T) {
	bothWays(t, func(t *testing.T, w *world) {
		const dir = "/sys/module/siw/parameters/"
		w.want(t, "Y\n0\n1\nno\nno\n", "sh", "-c", "cat "+dir+"zcopy_tx; echo 0 > "+dir+"zcopy_tx; cat "+dir+"zcopy_tx; "+
			"echo 1 >> "+dir+"zcopy_tx; cat "+dir+"zcopy_tx; test -w "+dir+"iface_list || echo no; (echo eth0 > "+dir+"iface_list) 2>/dev/null || echo no; "+
			"(echo a; sleep 0; echo b) > "+dir+"zcopy_tx")
		w.run(t, "ls", "/dev/infiniband")
		w.change(func() {
			if w.zcopy != "b" {
				t.Errorf("last written %q", w.zcopy)
			}
		})
	})
}

// readAll reads files by every kind of name.
func readAll() {
	for _, path := range []string{"ports/1/state", "ports/1/phys_state", "ports/1/gids/0", "ports/1/gids/127",
		"ports/1/gid_attrs/types/0", "ports/1/gid_attrs/ndevs/0", "ports/1/gid_attrs/types/127", "ports/1/pkeys/0", "ports/1/pkeys/31",
		"node_guid", "fw_ver", "node_desc", "../../misc/rdma_cm/abi_version"} {
		const dir = "/sys/class/infiniband/rxe0"
		abs, err := os.ReadFile(filepath.Join(dir, path))
		rel, rerr := readAt(dir, path)
		fmt.Printf("%s %s %v %v %v\n", path, bytes.TrimSpace(abs), err, rerr, bytes.Equal(abs, rel))
	}
	for _, path := range []string{"/dev/infiniband/uverbs0", "/sys/class/infiniband", "/dev/infiniband/..", "/sys/class/infiniband/rxe9",
		"/sys/class/infiniband_verbs/uverbs0/dev/x"} {
		link := make([]byte, 8)
		_, lerr := unix.Readlink(path, link)
		fmt.Println(path, unix.Access(path, unix.R_OK), unix.Access(path, unix.W_OK), unix.Access(path, unix.X_OK), lerr)
	}
	var st, lst, fst unix.Stat_t
	var stx unix.Statx_t
	const path = "/sys/class/infiniband/rxe0/node_type"
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	err = errorsOf(err, unix.Stat(path, &st), unix.Lstat(path, &lst), unix.Fstat(fd, &fst), unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_ALL, &stx))
	fmt.Println("stat", err, st == lst, st == fst, st.Ino == stx.Ino, fmt.Sprintf("%o", st.Mode), stx.Mode == uint16(st.Mode))
}

func errorsOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// readAt reads a file from its directory's descriptor on.
func readAt(dir, path string) ([]byte, error) {
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(d)
	fd, err := unix.Openat(d, path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return io.ReadAll(f)
}

// TestNames: by absolute path, from a descriptor, before and after stat.
func TestNames(t *testing.T) {
	w := newWorld(t)
	zero := strings.Repeat("0000:", 7) + "0000"
	w.want(t, `ports/1/state 4: ACTIVE <nil> <nil> true
ports/1/phys_state 5: LinkUp <nil> <nil> true
ports/1/gids/0 0200:0000:0001:0000:0000:0000:0000:0000 <nil> <nil> true
ports/1/gids/127 `+zero+` <nil> <nil> true
ports/1/gid_attrs/types/0 IB/RoCE v1 <nil> <nil> true
ports/1/gid_attrs/ndevs/0 lo <nil> <nil> true
ports/1/gid_attrs/types/127  open /sys/class/infiniband/rxe0/ports/1/gid_attrs/types/127: invalid argument invalid argument true
ports/1/pkeys/0 0xffff <nil> <nil> true
ports/1/pkeys/31 0x0000 <nil> <nil> true
node_guid 0200:00ff:fe00:0001 <nil> <nil> true
fw_ver 1.2 <nil> <nil> true
node_desc tapir nic7 <nil> <nil> true
../../misc/rdma_cm/abi_version 4 <nil> <nil> true
/dev/infiniband/uverbs0 <nil> permission denied permission denied invalid argument
/sys/class/infiniband <nil> permission denied <nil> invalid argument
/dev/infiniband/.. <nil> permission denied <nil> invalid argument
/sys/class/infiniband/rxe9 no such file or directory no such file or directory no such file or directory no such file or directory
/sys/class/infiniband_verbs/uverbs0/dev/x not a directory not a directory not a directory not a directory
stat <nil> true true true 100444 true
`, self("read")...)
}

// inChroot reads in a root directory that has nothing but itself, by absolute
// names and relative to its working directory.
func inChroot() {
	dir, err := os.MkdirTemp("", "tapir-root")
	if err == nil {
		err = os.Mkdir(dir+"/sys", 0o755)
	}
	if err == nil {
		err = unix.Chroot(dir)
	}
	if err == nil {
		err = unix.Chdir("/sys")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := os.ReadFile("/sys/class/infiniband_verbs/abi_version")
	fmt.Printf("%s %v\n", bytes.TrimSpace(a), err)
	b, err := os.ReadFile("class/infiniband/rxe0/node_type")
	fmt.Printf("%s %v\n", bytes.TrimSpace(b), err)
	c, err := readAt("/dev/infiniband/../../sys/class/infiniband", "rxe0/fw_ver")
	fmt.Printf("%s %v\n", bytes.TrimSpace(c), err)
	list, err := os.ReadDir("/dev/infiniband")
	fmt.Println(list, err)
	_, err = os.ReadDir("/sys/class")
	fmt.Println(err)
	fmt.Println(unix.Rmdir("/sys"))
}

// TestRootDirectoryOfItsOwn: the answers go by the names that the program
// uses, whatever lies there.
func TestRootDirectoryOfItsOwn(t *testing.T) {
	w := newWorld(t)
	tmp := t.TempDir()
	w.want(t, "6 <nil>\n4: RNIC <nil>\n1.2 <nil>\n[- rdma_cm - umad0 - uverbs0] <nil>\nopen /sys/class: no such file or directory\n<nil>\n",
		append([]string{"env", "TMPDIR=" + tmp, "unshare", "-Ur"}, os.Args[0], traptest.Program+"chroot")...)
}

// refused does what the kernel's own files refuse to everyone.
func refused() {
	const file, dir, none = "/sys/class/infiniband/rxe0/node_type", "/sys/class/infiniband", "/sys/class/infiniband/none"
	for _, o := range []struct {
		path  string
		flags int
	}{{file, unix.O_RDWR}, {file, unix.O_WRONLY | unix.O_TRUNC}, {file, unix.O_TRUNC}, {file, unix.O_CREAT | unix.O_EXCL}, {file, unix.O_DIRECTORY},
		{file, unix.O_CREAT}, {file, unix.O_PATH}, {dir, unix.O_RDWR}, {none, unix.O_CREAT | unix.O_RDWR}, {none, 0}, {dir + "/rxe0/node_guid", unix.O_RDWR}} {
		fd, err := unix.Open(o.path, o.flags, 0o600)
		how, herr := unix.Openat2(unix.AT_FDCWD, o.path, &unix.OpenHow{Flags: uint64(o.flags), Mode: 0o600 * uint64(o.flags&unix.O_CREAT/unix.O_CREAT)})
		fmt.Println(err, err == herr || fd >= 0 && how >= 0)
	}
}

func TestNothingCanBeChanged(t *testing.T) {
	w := newWorld(t)
	w.want(t, `permission denied true
permission denied true
permission denied true
file exists true
not a directory true
<nil> true
<nil> true
permission denied true
permission denied true
no such file or directory true
permission denied true
`, self("refused")...)
}

// netlink makes sockets.
func netlink() {
	_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	fmt.Println(err)
	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	fmt.Println(err)
}

// TestNetlink: the machine's own RDMA devices must not be found in place of
// ours.
func TestNetlink(t *testing.T) {
	newWorld(t).want(t, "protocol not supported\n<nil>\n", self("netlink")...)
}

// TestStaleTrees: the tree of a process that was killed is removed, that of one
// that lives is not.
func TestStaleTrees(t *testing.T) {
	w := newWorld(t)
	t.Setenv("TMPDIR", t.TempDir()) // processes of other tests, which remove it too, look elsewhere
	stale, err := os.MkdirTemp(os.TempDir(), dirPrefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(stale+"/dev", 0o755); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t)
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", stale, err)
	}
	for _, live := range []*world{w, other} {
		if _, err := os.Stat(live.Root() + "/dev/infiniband"); err != nil {
			t.Error(err)
		}
	}
}

// TestTreesAtOnce: a tree that another process takes for a stale one, before it is
// locked, is made anew.
func TestTreesAtOnce(t *testing.T) {
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 200 {
				tree, err := New()
				if err != nil {
					t.Error(err)
					return
				}
				if err := tree.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

// TestFailingDevice: a NIC that does not answer is told of at once.
func TestFailingDevice(t *testing.T) {
	tree, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	fails := Device{Attr: func() (Attr, error) { return Attr{}, syscall.ENODEV }}
	if err := tree.Devices([]Device{fails}); err != syscall.ENODEV {
		t.Errorf("error %v, want ENODEV", err)
	}
}
