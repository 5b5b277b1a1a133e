package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/tool/tshark"
	"tapir/nic/tap/wires"
	"tapir/rdmap"
	"tapir/wire/ether"
	"tapir/wire/pcapng"
)

// tapir is the program under test, built once.
var tapir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tapir-demo-test")
	if err != nil {
		panic(err)
	}
	// What other demos on this machine leave is not ours; nobody has to get in.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Setenv("TMPDIR", dir)); err != nil {
		panic(err)
	}
	if tapir, err = testenv.Build(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// run runs the demo and checks that it leaves nothing behind.
func run(t *testing.T, cmd *exec.Cmd) *Report {
	t.Helper()
	before := surroundings(t)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, complaint.String())
	}
	rep := &Report{}
	if err := json.Unmarshal(out.Bytes(), rep); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if !rep.Verified() || len(rep.Checks) != 9 {
		t.Errorf("not verified: %s", out.String())
	}
	if after := surroundings(t); !slices.Equal(before, after) {
		t.Errorf("left behind:\n%v\nbefore:\n%v", after, before)
	}
	return rep
}

// surroundings is what a demo could leave behind: links, processes, sockets
// and directories.
func surroundings(t *testing.T) (list []string) {
	t.Helper()
	for _, name := range testenv.Links(t) {
		list = append(list, "link "+name)
	}
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, e := range exes {
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "environ"))
		ours := bytes.Contains(env, []byte("TMPDIR="+filepath.Dir(tapir)))
		if target, err := os.Readlink(e); err == nil && ours && (strings.HasSuffix(target, "/tapir") || strings.HasSuffix(target, "/tcpdump")) {
			list = append(list, "process "+target)
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "tapir-demo[0-9]*"))
	sockets, _ := filepath.Glob("/run/tapir/*")
	return append(append(list, dirs...), sockets...)
}

func start(t *testing.T, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(within(t), tapir, append([]string{"demo", "--json"}, args...)...)
	cmd.Dir = dir
	return cmd
}

// The whole chain in wire mode: what the NIC says it sent, what stock tcpdump
// saw, and what stock tshark makes of it are the same.
func TestWireModeAgainstStockTools(t *testing.T) {
	dir := t.TempDir()
	rep := run(t, start(t, dir, "--tcpdump"))
	if rep.Wire != "tap" {
		t.Fatalf("wire: %s", rep.Wire)
	}
	own := ownFrames(t, filepath.Join(dir, rep.Capture))
	nic0 := readFrames(t, filepath.Join(dir, rep.Tcpdump[0]))
	nic1 := readFrames(t, filepath.Join(dir, rep.Tcpdump[1]))
	t.Run("tcpdump sees the frames of our capture", func(t *testing.T) {
		sameFrames(t, own, nic1)
		sameFrames(t, nic0, nic1)
	})
	t.Run("payload from tcpdump alone", func(t *testing.T) {
		samePayload(t, rep, readMessages(t, nic0))
	})
	t.Run("tshark on our capture", func(t *testing.T) {
		judge(t, rep, filepath.Join(dir, rep.Capture), tshark.Options{})
	})
	t.Run("tshark on our capture without its RPC guesser", func(t *testing.T) {
		judge(t, rep, filepath.Join(dir, rep.Capture), tshark.Options{Disable: []string{"rpcordma"}})
	})
	t.Run("tshark on tcpdump's", func(t *testing.T) {
		judge(t, rep, filepath.Join(dir, rep.Tcpdump[0]), tshark.Options{})
	})
}

// Super-frames cross the TAP; the NIC's own capture shows the true segments.
func TestSuperFrames(t *testing.T) {
	for _, mode := range []string{"gso", "jumbo"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			rep := run(t, start(t, dir, "--frames", mode, "--tcpdump"))
			if rep.Wire != "tap" || rep.Frames != mode {
				t.Fatalf("wire: %s, frames: %s", rep.Wire, rep.Frames)
			}
			judge(t, rep, filepath.Join(dir, rep.Capture), tshark.Options{})
			frames := readFrames(t, filepath.Join(dir, rep.Tcpdump[0]))
			samePayload(t, rep, readMessages(t, frames))
			if longest := len(slices.MaxFunc(frames, func(a, b []byte) int { return len(a) - len(b) })); longest < 32<<10 {
				t.Errorf("the longest frame on the TAP has %d octets: no super-frames", longest)
			}
		})
	}
}

func TestOtherWires(t *testing.T) {
	for _, kind := range wires.All {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			rep := run(t, start(t, dir, "--wire", kind))
			if rep.Wire != kind {
				t.Fatalf("wire: %s", rep.Wire)
			}
			if !rep.Verified() || rep.FPDUs == 0 {
				t.Errorf("%+v", rep)
			}
			if kind == "shm" { // what the demo takes where there are no TAPs; tshark needs its time
				judge(t, rep, filepath.Join(dir, rep.Capture), tshark.Options{})
			}
		})
	}
}

func TestOrdinaryUser(t *testing.T) {
	dir := testenv.PublicDir(t)
	cmd := testenv.Unprivileged(t, within(t), dir, testenv.Copy(t, dir, tapir), "demo", "--json")
	if rep := run(t, cmd); rep.Wire != "tap" {
		t.Errorf("wire: %s", rep.Wire)
	}
}

// A device that exists but is closed to the user is no reason to pretend with
// a wire in memory: the demo says what is wrong and how to mend it.
func TestClosedTUN(t *testing.T) {
	dir := testenv.PublicDir(t)
	cmd := testenv.UnprivilegedNoTUN(t, within(t), dir, testenv.Copy(t, dir, tapir), "demo")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"tapir: TAPs cannot be made: open /dev/net/tun: permission denied\n", "remedy: "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// ownFrames returns the frames of the NIC's own capture.
func ownFrames(t *testing.T, file string) (frames [][]byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := pcapng.NewReader(f); ; {
		b, err := r.Next()
		if err == io.EOF {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := b.(*pcapng.Packet); ok {
			frames = append(frames, bytes.Clone(p.Data))
		}
	}
}

// byStation splits the frames by sender. The order between the two directions
// is each observer's own; within one it is the wire's.
func byStation(t *testing.T, frames [][]byte) map[ether.Addr][][]byte {
	t.Helper()
	m := map[ether.Addr][][]byte{}
	for _, f := range frames {
		h, _, err := ether.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		m[h.Src] = append(m[h.Src], f)
	}
	return m
}

// sameFrames compares two observers' views octet by octet. Either may have
// begun a little earlier: what precedes the exchange is not compared.
func sameFrames(t *testing.T, a, b [][]byte) {
	t.Helper()
	left, right := byStation(t, a), byStation(t, b)
	if len(left) != 2 || len(right) != 2 {
		t.Fatalf("%d and %d stations, want 2", len(left), len(right))
	}
	for station, x := range left {
		y := right[station]
		n := min(len(x), len(y))
		if most := max(len(x), len(y)); n < 1000 || most-n > 2 {
			t.Errorf("%v: %d and %d frames", station, len(x), len(y))
			continue
		}
		x, y = x[len(x)-n:], y[len(y)-n:]
		for i := range x {
			if !bytes.Equal(x[i], y[i]) {
				t.Errorf("%v: frame %d of %d differs:\n%x\n%x", station, i, n, x[i], y[i])
				break
			}
		}
	}
}

// samePayload finds every checked operation among the messages of the wire.
func samePayload(t *testing.T, rep *Report, messages []message) {
	t.Helper()
	opcodes := map[string][]rdmap.Opcode{
		"Send/Recv":  {rdmap.Send, rdmap.SendSE},
		"RDMA Write": {rdmap.Write},
		"RDMA Read":  {rdmap.ReadResponse},
	}
	for _, c := range rep.Checks {
		found := slices.ContainsFunc(messages, func(m message) bool {
			return slices.Contains(opcodes[c.Operation], m.op) && m.size == c.Size && m.sha == c.SHA256
		})
		if !found {
			t.Errorf("%s of %d octets: no message with SHA-256 %s crossed the wire", c.Operation, c.Size, c.SHA256)
		}
	}
}

func aboutRetransmission(flag string) bool {
	return strings.Contains(flag, "retransmission") || strings.Contains(flag, "D-SACK")
}

// judge asks tshark: nothing malformed, no analysis flag, every CRC good, and
// the numbers that the NICs counted.
func judge(t *testing.T, rep *Report, file string, o tshark.Options) {
	t.Helper()
	v, err := tshark.IWARP(within(t), file, o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Retransmits > 0 {
		// The machine stalled for longer than TCP's timers; what follows from
		// that is no fault of the frames.
		t.Logf("the NICs retransmitted %d segments", rep.Retransmits)
		v.Analysis = slices.DeleteFunc(v.Analysis, aboutRetransmission)
	}
	if len(v.Malformed)+len(v.Checksum)+len(v.Analysis)+v.BadCRC > 0 {
		t.Errorf("malformed %v, checksum %v, analysis %v, bad CRCs %d", v.Malformed, v.Checksum, v.Analysis, v.BadCRC)
	}
	if rep.Retransmits > 0 {
		return // tshark counts what was sent twice
	}
	if uint64(v.GoodCRC) != rep.FPDUs {
		t.Errorf("tshark finds %d FPDUs, the NICs counted %d", v.GoodCRC, rep.FPDUs)
	}
	if v.Messages != rep.Messages {
		t.Errorf("messages by opcode: tshark %v, the NICs %v", v.Messages, rep.Messages)
	}
	if v.Octets() != rep.Octets {
		t.Errorf("octets of payload: tshark %d, the NICs %d", v.Octets(), rep.Octets)
	}
}
