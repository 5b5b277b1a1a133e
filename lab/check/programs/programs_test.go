package programs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/testenv"
	"tapir/lab/tool/tshark"
)

// tapir is the program under test, built once.
var tapir string

func TestMain(m *testing.M) {
	if his := os.Getenv(asUser); his != "" {
		os.Exit(user(his))
	}
	dir, err := os.MkdirTemp("", "tapir-programs")
	if err != nil {
		panic(err)
	}
	// Other NICs of this machine are not to be found.
	if err := errors.Join(os.Setenv("XDG_RUNTIME_DIR", dir), os.Setenv("TMPDIR", dir)); err != nil {
		panic(err)
	}
	if tapir, err = testenv.Build(filepath.Join(dir, "bin")); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// newLab is a lab that must be empty in the end.
func newLab(t *testing.T) *Lab {
	l, err := New(context.WithoutCancel(t.Context()), tapir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestCells runs every cell in the first mode, and every program in the others,
// each mode under a capture, in which tshark finds nothing wrong.
func TestCells(t *testing.T) {
	if p := Missing(); p != "" {
		t.Fatalf("%s is not installed", p)
	}
	for i, m := range Modes {
		t.Run(m.Name, func(t *testing.T) { runCells(t, m, chosen(i)) })
	}
}

// chosen are the cells of mode i: all in the first, one of each program's in the
// others, in each another one.
func chosen(i int) (list []Cell) {
	var programs []string
	cells := map[string][]Cell{}
	for _, c := range Cells(16 << 20) {
		name, _, _ := strings.Cut(c.Client, " ")
		if !slices.Contains(programs, name) {
			programs = append(programs, name)
		}
		if c.In(Modes[i]) {
			cells[name] = append(cells[name], c)
		}
	}
	for _, name := range programs {
		switch all := cells[name]; {
		case i == 0:
			list = append(list, all...)
			if all[0].Copies > 0 {
				large := all[0]
				large.Name, large.Copies, large.Floods = large.Name+" 256 MiB", 256<<20, true
				list = append(list, large)
			}
		case len(all) > 0:
			list = append(list, all[(i-1)%len(all)])
		}
	}
	return list
}

// runCells runs cells: those that flood when the capture is at its end.
func runCells(t *testing.T, m Mode, cells []Cell) {
	ctx := t.Context()
	l, err := New(ctx, tapir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	file, stop, err := l.Capture(ctx, "programs.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	run := func(floods bool) {
		for _, c := range cells {
			if c.Floods == floods {
				t.Run(c.Name, func(t *testing.T) { runCell(t, l, c, m) })
			}
		}
	}
	run(false)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	run(true)
	judge(t, ctx, file)
}

func runCell(t *testing.T, l *Lab, c Cell, m Mode) {
	again, err := l.Run(t.Context(), c, m)
	if err != nil {
		t.Error(err)
	}
	if again > 0 {
		t.Logf("begun %d times anew after one of %q", again, c.Known)
	}
}

// judge has tshark read a capture.
func judge(t *testing.T, ctx context.Context, file string) {
	t.Helper()
	// Its RPC guesser claims short Sends.
	v, err := tshark.IWARP(ctx, file, tshark.Options{Disable: []string{"rpcordma"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Malformed) > 0 || len(v.Checksum) > 0 || v.BadCRC > 0 || v.FPDUs == 0 || v.GoodCRC != v.FPDUs {
		t.Errorf("%d frames, %d FPDUs: %d malformed, %d wrong checksums, %d bad CRCs", v.Frames, v.FPDUs, len(v.Malformed), len(v.Checksum), v.BadCRC)
	}
	t.Logf("%d frames, %d FPDUs, messages by opcode %v", v.Frames, v.FPDUs, v.Messages)
}
