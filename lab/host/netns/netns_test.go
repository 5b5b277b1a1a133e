package netns_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/lab/check/testenv"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// With this variable set the test binary is the program under test: it goes
// into a user namespace and lists what it can make there.
const asProgram = "TAPIR_NETNS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := program(); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func program() error {
	if !netns.Reexeced() {
		fmt.Println("privileged outside:", netns.Privileged())
		return netns.Reexec(context.Background())
	}
	fmt.Println("privileged inside:", netns.Privileged())
	p, err := link.NewPair(1500, true)
	if err != nil {
		return err
	}
	defer p.Close()
	names, err := p.B.Net.Names()
	fmt.Println(strings.Join(names, " "))
	return err
}

func TestNamespaceIsApart(t *testing.T) {
	before := testenv.Links(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var out bytes.Buffer
	cmd := exec.Command("ip", "-o", "link")
	cmd.Stdout = &out
	if err := ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "lo:") {
		t.Errorf("a new namespace holds\n%s", out.String())
	}
	if after := testenv.Links(t); !slices.Equal(before, after) {
		t.Errorf("links outside changed from %v to %v", before, after)
	}
}

func TestDoComesBack(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	name := func() string {
		s, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
		}
		return s
	}
	outside, inside := name(), ""
	if err := ns.Do(func() error { inside = name(); return nil }); err != nil {
		t.Fatal(err)
	}
	if inside == outside || name() != outside {
		t.Errorf("outside %s, inside %s, afterwards %s", outside, inside, name())
	}
	want := fmt.Errorf("mine")
	if err := ns.Do(func() error { return want }); err != want {
		t.Errorf("Do returned %v", err)
	}
}

func TestSysctl(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	const key = "ipv4/ip_forward"
	if err := ns.Sysctl(key, "1"); err != nil {
		t.Fatal(err)
	}
	var got []byte
	ns.Do(func() error { got, err = os.ReadFile("/proc/sys/net/" + key); return err })
	if strings.TrimSpace(string(got)) != "1" {
		t.Errorf("%s = %q", key, got)
	}
	if err := ns.Sysctl("no/such/key", "1"); err != nil {
		t.Errorf("a missing key gave %v", err)
	}
}

func TestOrdinaryUser(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := testenv.PublicDir(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := testenv.Unprivileged(t, ctx, dir, testenv.Copy(t, dir, self))
	cmd.Env = append(cmd.Env, asProgram+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "privileged outside: false\nprivileged inside: true\nlo br0 tap0 veth0\n"
	if string(out) != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}
