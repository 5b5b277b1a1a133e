package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// builtEnv names, in the environment, a program tapir that has just been built
// from these sources, as `make test` does before the tests.
const builtEnv = "TAPIR_BUILT"

// Build puts the program tapir into dir, which is made if it is not there, and
// returns its path: what builtEnv names, else what it compiles from
// the packages as tests have them; the program that `make` builds is smaller (.ci/program).
func Build(dir string) (path string, err error) {
	path = filepath.Join(dir, "tapir")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if built := os.Getenv(builtEnv); built != "" {
		program, err := os.ReadFile(built)
		if err != nil {
			return "", err
		}
		return path, WriteProgram(path, program)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "tapir/cmd/tapir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tapir: %w\n%s", err, out)
	}
	return path, nil
}
