package labtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TapirEnv is the environment variable that names the program tapir.
const TapirEnv = "TAPIR"

// program finds the program tapir as Tapir says.
func program(t testing.TB, o *options) string {
	t.Helper()
	if o.tapir != "" {
		return o.tapir
	}
	if path := os.Getenv(TapirEnv); path != "" {
		return path
	}
	path, err := built()
	if err == nil {
		return path
	}
	if found, lookErr := exec.LookPath("tapir"); lookErr == nil {
		return found
	}
	t.Fatalf("labtest: no program tapir: %v; name one by $%s or put one into $PATH", err, TapirEnv)
	return ""
}

// built builds the program from the module tapir that the test's module
// requires, so that both are of one version. It is kept in the user's cache and
// built anew only if the module has changed.
var built = sync.OnceValues(func() (string, error) {
	module, err := goCommand("", "list", "-m", "-f", "{{.Dir}}", "tapir")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "tapir", "labtest", unfit.ReplaceAllString(module, "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.Open(dir) // tests of other packages build it, too
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tapir")
	_, err = goCommand(module, "build", "-trimpath", "-o", path, "./cmd/tapir")
	return path, err
})

// goCommand runs the go command in a directory.
func goCommand(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false")
	if dir != "" { // no workspace of the user's
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("there is no go command to build it")
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
