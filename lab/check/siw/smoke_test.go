package siw_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tapir/lab/check/siw"
	"tapir/lab/check/testenv"
	"tapir/lab/host/netns"
	"tapir/lab/host/peer"
	"tapir/lab/tool/tshark"
)

// TestSmoke holds a NIC against the siw driver of a guest, in both roles, also
// with the stock rping above it, then its RoCE against rxe.
func TestSmoke(t *testing.T) {
	if err := errors.Join(peer.Available(), tshark.Available()); err != nil {
		t.Skip(err)
	}
	if !netns.Privileged() {
		t.Skip("only root may make network namespaces and TAPs here")
	}
	image, err := peer.Build(t.Context(), peer.CacheDir(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir) // other NICs of this machine are not to be found
	tapir, err := testenv.Build(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	m := siw.Matrix{Cells: append(siw.Smoke(), siw.SmokeRoCE()...), Budget: 5 * time.Minute, Log: t.Output(), Tapir: tapir}
	results, err := m.Run(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(m.Cells) {
		t.Errorf("%d results of %d cells", len(results), len(m.Cells))
	}
	for _, r := range siw.Failed(results) {
		t.Errorf("%v: %v\nNIC: %s\nguest: %s", r.Cell, r.Err, r.NIC, r.Guest)
	}
}
