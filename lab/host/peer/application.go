package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Application compiles the application of wire scripts, which guests have, for this machine
// and its libibverbs and librdmacm. It returns the program, in a directory of the user's
// cache if it is there already.
func Application(ctx context.Context) (string, error) {
	source, err := guest.ReadFile("guest/wireapp.c")
	if err != nil {
		return "", err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "tapir")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, fmt.Sprintf("wireapp-%x", sha256.Sum256(source)))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return "", errors.New("the scripts' program is compiled when it is first needed, and there is no C compiler: " +
			applicationNeeds)
	}
	tmp, err := os.CreateTemp(dir, "wireapp-*")
	if err != nil {
		return "", err
	}
	tmp.Close()
	defer os.Remove(tmp.Name()) // fails once it has its name
	cc := exec.CommandContext(ctx, "cc", "-O2", "-o", tmp.Name(), "-x", "c", "-", "-lrdmacm", "-libverbs", "-lpthread")
	cc.Stdin = bytes.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the scripts' program: cc: %w: %s:\n%s", err, applicationNeeds, bytes.TrimSpace(out))
	}
	if err := os.Chmod(tmp.Name(), 0o700); err != nil {
		return "", err
	}
	return file, os.Rename(tmp.Name(), file)
}

const applicationNeeds = "apt-get install -y gcc libc6-dev libibverbs-dev librdmacm-dev"
