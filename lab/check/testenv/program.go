package testenv

import (
	"os"
	"syscall"
)

// WriteProgram writes a file that may be executed at once. While it is open for
// writing, which makes that fail (ETXTBSY), no child of another test inherits
// it.
func WriteProgram(name string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, data, 0o755)
}
