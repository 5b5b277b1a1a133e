package testenv

import (
	"bytes"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
)

// Space is a network namespace with its links until the test ends. prepare,
// such as link.Quiet, sets it up first; it may be nil.
func Space(t testing.TB, prepare func(*netns.NS) error) *link.Space {
	t.Helper()
	s, err := link.NewSpace(prepare)
	Must(t, err)
	t.Cleanup(s.Close)
	return s
}

// Pair is a pair of namespaces until the test ends.
func Pair(t testing.TB, mtu int, vnet bool) *link.Pair {
	t.Helper()
	p, err := link.NewPair(mtu, vnet)
	Must(t, err)
	t.Cleanup(p.Close)
	return p
}

// Run runs a program in a namespace and returns what it prints.
func Run(t testing.TB, ns *netns.NS, argv ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := ns.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

// Must fails the test at the first error.
func Must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Until waits until ok, for at most a minute: kernel and programs take their
// time.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Prefixes reads addresses with prefix lengths.
func Prefixes(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}
