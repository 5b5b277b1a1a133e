package docs

import (
	"os/exec"
	"testing"
)

// TestBuildTags builds the device with the tags that leave parts of the driver
// core out, and runs the core's own tests on what is left.
func TestBuildTags(t *testing.T) {
	for _, args := range [][]string{
		{"vet", "-tags", "asic_only,remove_dbg", "./nic/fastlinq/ecore/..."},
		{"build", "-tags", "asic_only,remove_dbg", "./nic"},
		{"test", "-tags", "asic_only", "./nic/fastlinq/ecore", "./nic/fastlinq/ecore/rt"},
		{"test", "-tags", "remove_dbg", "./nic/fastlinq/ecore", "./nic/fastlinq/ecore/rt"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %v: %v\n%s", args, err, out)
		}
	}
}
