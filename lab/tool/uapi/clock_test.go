package uapi_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/lab/tool/uapi"
	"tapir/nic/uapi/trap"
)

// clockProgram sets the NIC's hardware clock, by the device file that the kernel
// has of such clocks, says what it reads there, and waits for a line until it
// reads again.
func clockProgram() int {
	f, err := os.Open(os.Args[1])
	if err != nil {
		return says(err)
	}
	id := ^int32(f.Fd())<<3 | 3 // FD_TO_CLOCKID
	fmt.Println("set:", clockSet(id, 1_000_000))
	for range 2 {
		at, err := clockGet(id)
		fmt.Println("read:", at.Sec, err)
		_, _ = os.Stdin.Read(make([]byte, 1)) // its end says the same
	}
	return 0
}

func clockGet(id int32) (at unix.Timespec, err error) { return at, unix.ClockGettime(id, &at) }

func clockSet(id int32, sec int64) error {
	at := unix.Timespec{Sec: sec}
	if _, _, errno := unix.Syscall(unix.SYS_CLOCK_SETTIME, uintptr(id), uintptr(unsafe.Pointer(&at)), 0); errno != 0 {
		return errno
	}
	return nil
}

// A NIC's clock is one of the operating system's for programs as long as the NIC
// runs: what they set is what the NIC shows, and when the NIC has gone, the clock
// has.
func TestClockComesAndGoes(t *testing.T) {
	n, _ := newNICs(t, "clocked", "clockedfar")
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(programEnv, "clock")
	path := "/dev/ptp0"
	for i := 0; exists(path); i++ { // as tapir run chooses
		path = fmt.Sprintf("/dev/ptp%d", i)
	}
	r := n.start(uapi.Options{Argv: []string{exe, path}, Stdin: in, Via: trap.Seccomp})
	until(t, func() string {
		if !strings.Contains(r.said(), "read:") && !r.over() {
			return "the program does not read: " + r.said()
		}
		return ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ns, err := n.ctl.PHCTime(ctx)
	if at := time.Duration(ns); err != nil || at < 1_000_000*time.Second || at > 1_001_000*time.Second {
		t.Errorf("the NIC's clock shows %v: %v", at, err)
	}
	n.control.Close()
	n.Node.Close() // the NIC ends
	hold.Close()
	if code := r.end(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if want := "set: <nil>\nread: 1000000 <nil>\nread: 0 no such device\n"; !strings.HasPrefix(r.said(), want) {
		t.Errorf("the program said\n%s\nwant\n%s", r.said(), want)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
