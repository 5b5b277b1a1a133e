package programs

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Mode is a way to run a program on a NIC.
type Mode struct {
	Name  string
	Flags []string // of tapir run
	Timer bool     // 1,000 signals a second interrupt the program
	// Restarts has calls restarted that Linux restarts for no flag.
	Restarts bool
	// Under is the command line that runs argv on a NIC, in place of the above.
	Under func(nic string, argv []string) []string
}

// The modes. The first is what everybody uses.
var (
	Auto    = Mode{Name: "auto"}
	Trap    = Mode{Name: "trap", Flags: []string{"--via", "trap", "--proc-mem"}}
	Preload = Mode{Name: "preload", Flags: []string{"--via", "preload"}}
	Timer   = Mode{Name: "timer", Timer: true} // the timer takes the place of the doorbells

	Modes = []Mode{Auto, Trap, Preload, Timer}
)

//go:embed testdata/timer.c
var timerSource []byte

// timerLibrary compiles the timer into dir.
func timerLibrary(dir string) (file string, err error) {
	file, source := filepath.Join(dir, "timer.so"), filepath.Join(dir, "timer.c")
	if err := os.WriteFile(source, timerSource, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", file, source).CombinedOutput(); err !=
		nil {
		return "", fmt.Errorf("compile the timer: %w: %s", err, out)
	}
	return file, nil
}

// under is the command line that runs argv on a NIC.
func (l *Lab) under(nic string, m Mode, argv []string) []string {
	if m.Under != nil {
		return m.Under(nic, argv)
	}
	full := append([]string{l.tapir, "run", "--nic", nic}, m.Flags...)
	full = append(full, "--")
	if m.Timer {
		full = append(full, "env", "LD_PRELOAD="+l.timer)
		if m.Restarts {
			full = append(full, "TIMER_RESTARTS=1")
		}
	}
	return append(full, argv...)
}
