package phc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/lab/check/linuxptp"
	"tapir/nic/ptp"
	"tapir/nic/uapi/trap/traptest"
	"tapir/wire/frame"
)

// programs are the parts of this binary that run under the supervisor.
var programs = map[string]func(){"ioctls": ioctls, "clocks": clocks, "netdevs": netdevs, "receive": receiveStamps, "send": sendStamps}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return v
}

func ioctl[T any](fd int, req uint, arg *T) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(arg))); errno != 0 {
		return errno
	}
	return nil
}

func openPHC() int { return must(unix.Open("/dev/ptp7", unix.O_RDWR|unix.O_CLOEXEC, 0)) }

func ordered(ts ...unix.PtpClockTime) bool {
	for i := 1; i < len(ts); i++ {
		if ts[i].Sec*1e9+int64(ts[i].Nsec) < ts[i-1].Sec*1e9+int64(ts[i-1].Nsec) {
			return false
		}
	}
	return true
}

func ioctls() {
	fd := openPHC()
	var st unix.Stat_t
	fmt.Println("fstat", unix.Fstat(fd, &st), st.Mode&unix.S_IFMT == unix.S_IFCHR, unix.Minor(st.Rdev))
	caps := must(unix.IoctlPtpClockGetcaps(fd))
	fmt.Println("caps", *caps)
	off := unix.PtpSysOffset{Samples: 3}
	err := ioctl(fd, unix.PTP_SYS_OFFSET, &off)
	fmt.Println("offset", err, ordered(off.Ts[0], off.Ts[2], off.Ts[4], off.Ts[6]), ordered(off.Ts[1], off.Ts[3], off.Ts[5]),
		off.Ts[1].Sec-off.Ts[0].Sec, off.Ts[7] == unix.PtpClockTime{})
	off.Samples = 26
	fmt.Println("offset 26", ioctl(fd, unix.PTP_SYS_OFFSET2, &off))
	ext := must(unix.IoctlPtpSysOffsetExtended(fd, 2))
	fmt.Println("extended", ordered(ext.Ts[0][0], ext.Ts[0][2], ext.Ts[1][0], ext.Ts[1][2]), ext.Ts[1][1].Sec-ext.Ts[1][0].Sec)
	ext.Clockid = unix.CLOCK_MONOTONIC
	fmt.Println("extended monotonic", ioctl(fd, unix.PTP_SYS_OFFSET_EXTENDED2, ext))
	_, err = unix.IoctlPtpSysOffsetPrecise(fd)
	fmt.Println("precise", err)
	_, err = unix.IoctlPtpPinGetfunc(fd, 0)
	fmt.Println("pin", err)
	fmt.Println("set pin", unix.IoctlPtpPinSetfunc(fd, &unix.PtpPinDesc{}))
	fmt.Println("periodic", unix.IoctlPtpPeroutRequest(fd, &unix.PtpPeroutRequest{}))
	one := int32(1)
	fmt.Println("pps", ioctl(fd, unix.PTP_ENABLE_PPS, &one))
	fmt.Println("external 1", unix.IoctlPtpExttsRequest(fd, &unix.PtpExttsRequest{Index: 1, Flags: unix.PTP_ENABLE_FEATURE}))
	fmt.Println("external flags", ioctl(fd, unix.PTP_EXTTS_REQUEST2, &unix.PtpExttsRequest{Flags: 1 << 10}))
	fmt.Println("external no edge", ioctl(fd, unix.PTP_EXTTS_REQUEST2, &unix.PtpExttsRequest{Flags: unix.PTP_ENABLE_FEATURE | unix.PTP_STRICT_FLAGS}))
	fmt.Println("external off", ioctl(fd, unix.PTP_EXTTS_REQUEST2, &unix.PtpExttsRequest{}))
	big := uint32(5000)
	fmt.Println("mask", ioctl(fd, unix.PTP_MASK_EN_SINGLE, &big))
	fmt.Println("unknown", ioctl(fd, 0x3dff, &one))
	fmt.Println("bad pointer", unix.IoctlSetInt(fd, unix.PTP_SYS_OFFSET, 8))
	fmt.Println("a terminal's", unix.IoctlSetInt(fd, unix.TIOCGPGRP, 0))
}

const ioctlsSaid = `fstat <nil> true 7
caps {291666666 0 1 0 0 0 0 0 0 [0 0 0 0 0 0 0 0 0 0 0]}
offset <nil> true true 3600 true
offset 26 invalid argument
extended true 3600
extended monotonic invalid argument
precise operation not supported
pin invalid argument
set pin invalid argument
periodic invalid argument
pps operation not supported
external 1 invalid argument
external flags invalid argument
external no edge invalid argument
external off <nil>
mask bad address
unknown inappropriate ioctl for device
bad pointer bad address
a terminal's inappropriate ioctl for device
`

func clocks() {
	fd := openPHC()
	id := int32(unix.FdToClockID(fd))
	var ts, sys unix.Timespec
	err := unix.ClockGettime(id, &ts)
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &sys)
	fmt.Println("time", err, (ts.Nano()-sys.Nano()+30e9)/60e9)
	fmt.Println("resolution", unix.ClockGetres(id, &ts), ts)
	bad := unix.Timespec{Nsec: 1e9}
	fmt.Println("set badly", unix.ClockSettime(id, &bad))
	for _, tx := range []unix.Timex{
		{Modes: unix.ADJ_FREQUENCY, Freq: 12345},
		{},
		{Modes: unix.ADJ_FREQUENCY, Freq: 300_000 << 16},
		{Modes: unix.ADJ_OFFSET, Offset: 5},
		{Modes: unix.ADJ_SETOFFSET, Time: unix.Timeval{Sec: 100, Usec: -1}},
		{Modes: unix.ADJ_SETOFFSET, Time: unix.Timeval{Sec: -3600, Usec: 999_999}},
		{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO, Time: unix.Timeval{Sec: 59, Usec: 999_999_999}},
	} {
		state, err := unix.ClockAdjtime(id, &tx)
		fmt.Println("adjust", state, err, tx.Freq)
	}
	_ = unix.ClockGettime(id, &ts)
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &sys)
	fmt.Println("moved", (ts.Nano()-sys.Nano()+5e9)/10e9)
	fmt.Println("no clock", unix.ClockGettime(int32(unix.FdToClockID(0)), &ts))
	tx := unix.Timex{Modes: unix.ADJ_NANO}
	_, err = unix.Adjtimex(&tx)
	fmt.Println("system clock in ns", err, tx.Status&unix.STA_NANO != 0)
	tx = unix.Timex{Modes: unix.ADJ_NANO | unix.ADJ_FREQUENCY, Freq: tx.Freq}
	_, err = unix.Adjtimex(&tx)
	fmt.Println("system clock's frequency", err)
}

const clocksSaid = `time <nil> 60
resolution <nil> {0 1}
set badly invalid argument
adjust 0 <nil> 12345
adjust 0 <nil> 12345
adjust -1 numerical result out of range 19660800000
adjust -1 operation not supported 0
adjust -1 invalid argument 0
adjust 0 <nil> 0
adjust 0 <nil> 0
moved 6
no clock invalid argument
system clock in ns <nil> true
system clock's frequency operation not permitted
`

func netdevs() {
	s := must(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))
	info := must(unix.IoctlGetEthtoolTsInfo(s, dutNetdev))
	fmt.Println("info", *info)
	info = must(unix.IoctlGetEthtoolTsInfo(s, "lo"))
	fmt.Println("the kernel's", info.Phc_index)
	for _, c := range []unix.HwTstampConfig{{Tx_type: 1, Rx_filter: unix.HWTSTAMP_FILTER_PTP_V2_L2_SYNC}, {Tx_type: 1, Rx_filter: unix.HWTSTAMP_FILTER_ALL},
		{Tx_type: unix.HWTSTAMP_TX_ONESTEP_SYNC}, {Flags: 8}, {Rx_filter: 99}} {
		err := unix.IoctlSetHwTstamp(s, dutNetdev, &c)
		fmt.Println("set", err, c)
	}
	fmt.Println("get", *must(unix.IoctlGetHwTstamp(s, dutNetdev)))
	_, err := unix.IoctlGetHwTstamp(s, "lo")
	fmt.Println("lo", err)
}

const netdevsSaid = `info {65 95 7 3 [0 0 0] 32761 [0 0 0]}
the kernel's -1
set <nil> {0 1 9}
set <nil> {0 1 0}
set numerical result out of range {0 2 0}
set invalid argument {8 0 0}
set numerical result out of range {0 0 99}
get {0 1 0}
lo operation not supported
`

// say runs a program of this binary and compares what it says.
func (w *world) say(t *testing.T, name, want string) {
	t.Helper()
	if got := w.output(t, traptest.Program+name) + "\n"; got != want {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

func TestABI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, time.Hour)
	w.say(t, "ioctls", ioctlsSaid)
	w.say(t, "clocks", clocksSaid)
	w.serve(ptp.Faults{})
	w.say(t, "netdevs", netdevsSaid)
}

// message is the start of a PTP message.
func ptpMessage(kind byte, sequence uint16) []byte {
	b := make([]byte, 44)
	b[0], b[1], b[3] = kind, 2, 44
	copy(b[20:], "tapir-id")
	b[29] = 1
	binary.BigEndian.PutUint16(b[30:], sequence)
	return b
}

// stamped opens a socket for event messages with hardware stamps.
func stamped(flags int) int {
	s := must(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))
	must(0, unix.IoctlSetHwTstamp(s, dutNetdev, &unix.HwTstampConfig{Tx_type: 1, Rx_filter: unix.HWTSTAMP_FILTER_PTP_V2_EVENT}))
	must(0, unix.BindToDevice(s, dutNetdev))
	must(0, unix.Bind(s, &unix.SockaddrInet4{Port: 319}))
	must(0, unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags))
	must(0, unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_SELECT_ERR_QUEUE, 1))
	return s
}

// stampOf finds both stamps in control data, and tells what the hardware's is
// beyond the kernel's, in minutes.
func stampOf(control []byte) string {
	for _, m := range must(unix.ParseSocketControlMessage(control)) {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPING {
			sw, hw := readTime(m.Data), readTime(m.Data[32:])
			if sw == 0 {
				return fmt.Sprint("hardware alone ", (hw-time.Now().UnixNano()+30e9)/60e9)
			}
			if hw == 0 {
				return "software alone"
			}
			return fmt.Sprint("both ", (hw-sw+30e9)/60e9)
		}
	}
	return "none"
}

// notYet is what receiveStamps prints of each message before those that count.
const notYet = "not yet"

func receiveStamps() {
	s := stamped(hardware | unix.SOF_TIMESTAMPING_SOFTWARE)
	fmt.Println("ready")
	control := make([]byte, 256)
	// The kernel begins to stamp a moment after it is told to.
	for on := false; ; {
		b := make([]byte, 64)
		_, n, _, _, err := unix.Recvmsg(s, b, control, 0)
		must(0, err)
		if b[31] == 99 {
			break
		}
		fmt.Println(notYet)
		if !on && stampOf(control[:n]) != "none" {
			on = true
			fmt.Println("on")
		}
	}
	fmt.Println("stamped")
	// Blocking, into two pieces of which the second is too short.
	for range 2 {
		a, b := make([]byte, 32), make([]byte, 8)
		iov := []unix.Iovec{{Base: &a[0], Len: 32}, {Base: &b[0], Len: 8}}
		name := unix.RawSockaddrInet4{}
		h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&name)), Namelen: 16, Iov: &iov[0], Iovlen: 2, Control: &control[0], Controllen: 256}
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(s), uintptr(unsafe.Pointer(&h)), unix.MSG_TRUNC)
		fmt.Println("message", n, errno, a[0], a[31], h.Flags == unix.MSG_TRUNC, name.Addr, stampOf(control[:h.Controllen]))
	}
	_, _, _, _, err := unix.Recvmsg(s, make([]byte, 8), control, unix.MSG_DONTWAIT)
	fmt.Println("no more", err)
	must(0, unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20000}))
	_, _, _, _, err = unix.Recvmsg(s, make([]byte, 8), control, 0)
	fmt.Println("in time", err)
	_, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(s), 8, 0)
	fmt.Println("bad pointer", errno)
	// Without room for stamps; then both at once by recvmmsg, with the
	// hardware's stamps alone.
	must(0, unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, hardware))
	fmt.Println("again")
	var vec [3]struct {
		hdr unix.Msghdr
		n   uint64
	}
	must(0, unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
	n, got := uintptr(0), 0
	for got < 2 {
		var bufs [3][64]byte
		var controls [3][64]byte
		var iovs [3]unix.Iovec
		for i := range vec {
			iovs[i] = unix.Iovec{Base: &bufs[i][0], Len: 64}
			vec[i].hdr = unix.Msghdr{Iov: &iovs[i], Iovlen: 1, Control: &controls[i][0], Controllen: 64}
		}
		n, _, errno = unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s), uintptr(unsafe.Pointer(&vec)), 3, unix.MSG_WAITFORONE, 0, 0)
		must(0, error(errnoOrNil(errno)))
		for i := range int(n) {
			fmt.Println("one of many", vec[i].n, bufs[i][31], stampOf(controls[i][:vec[i].hdr.Controllen]))
			got++
		}
	}
}

func errnoOrNil(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

const receiveSaid = `ready
on
stamped
message 44 errno 0 0 1 true [10 9 0 1] both 60
message 33 errno 0 1 2 false [10 9 0 1] software alone
no more resource temporarily unavailable
in time resource temporarily unavailable
bad pointer bad address
again
one of many 44 3 hardware alone 60
one of many 33 4 none
`

func TestReceiveStamps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, time.Hour)
	p := w.run(t, traptest.Program+"receive")
	send := func(m []byte) {
		t.Helper()
		if err := w.sys.Do(func() error {
			s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(s)
			return unix.Sendto(s, m, 0, &unix.SockaddrInet4{Port: 319, Addr: [4]byte{10, 9, 0, 2}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	p.awaitLine(t, "ready")
	early := func(l linuxptp.Log) (n int) {
		for _, line := range l {
			if line == notYet {
				n++
			}
		}
		return n
	}
	for sent := 1; !slices.Contains(p.text(), "on"); sent++ { // one after the other, so that they fit into the socket
		send(ptpMessage(0, 98))
		p.await(t, "the message", func(l linuxptp.Log) bool { return early(l) == sent })
	}
	send(ptpMessage(0, 99))
	p.awaitLine(t, "stamped")
	send(ptpMessage(0, 1))
	send(ptpMessage(1, 2)[:33]) // shorter than a header
	p.awaitLine(t, "again")
	send(ptpMessage(0, 3))
	send(ptpMessage(0, 4)[:33])
	said := slices.DeleteFunc(p.await(t, "its end", nil), func(line string) bool { return line == notYet })
	if got := strings.Join(said, "\n") + "\n"; got != receiveSaid {
		t.Errorf("\n%s\nwant\n%s", got, receiveSaid)
	}
}

func sendStamps() {
	s := stamped(hardware | unix.SOF_TIMESTAMPING_OPT_TSONLY)
	peer := &unix.SockaddrInet4{Port: 319, Addr: [4]byte{224, 0, 1, 129}}
	wait := func(ms int) {
		p := []unix.PollFd{{Fd: int32(s), Events: unix.POLLPRI}}
		n, err := unix.Poll(p, ms)
		for errors.Is(err, unix.EINTR) { // the Go runtime's own signals
			n, err = unix.Poll(p, ms)
		}
		fmt.Println("poll", n, err, p[0].Revents == unix.POLLPRI|unix.POLLERR)
	}
	take := func() {
		control := make([]byte, 256)
		n, cn, flags, _, err := unix.Recvmsg(s, make([]byte, 256), control, unix.MSG_ERRQUEUE)
		stamp := ""
		if err == nil {
			stamp = stampOf(control[:cn])
		}
		fmt.Println("error queue", n, err, flags == unix.MSG_ERRQUEUE, stamp)
	}
	wait(0)
	take()
	must(0, unix.Sendto(s, ptpMessage(0, 1), 0, &unix.SockaddrInet4{Port: 320, Addr: peer.Addr})) // no event message
	wait(1)
	for i := range 3 {
		must(0, unix.Sendto(s, ptpMessage(0, uint16(2+i)), 0, peer))
		wait(1)
		take()
	}
}

const sendSaid = `poll 0 <nil> false
error queue -1 resource temporarily unavailable false 
poll 0 <nil> false
poll 1 <nil> true
error queue 0 <nil> true hardware alone 60
poll 0 <nil> false
error queue -1 resource temporarily unavailable false 
poll 0 <nil> false
error queue -1 resource temporarily unavailable false 
`

// TestSendStamps: of three stamps the second is lost, and the third is not
// made because the second is still waited for.
func TestSendStamps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, time.Hour)
	w.serve(ptp.Faults{LoseEvery: 2})
	w.say(t, "send", sendSaid)
	w.stamps.mu.Lock()
	w.stamps.unit.Poll(frame.Time(time.Now().Add(ptp.GiveUp).UnixNano())) // the second is given up by now
	w.stamps.mu.Unlock()
	if s := w.stamps.Stats(); s.TxStamps != 1 || s.TxSkipped != 2 || s.Faults != 1 {
		t.Errorf("%+v", s)
	}
}
