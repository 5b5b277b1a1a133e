package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles the program tapir into dir, which is made if it is not there, static as `make` does, and returns
// its path.
func Build(dir string) (path string, err error) {
	path = filepath.Join(dir, "tapir")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", path, "tapir/cmd/tapir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tapir: %w\n%s", err, out)
	}
	return path, nil
}
