package siw

import (
	"errors"
	"testing"
)

func TestDied(t *testing.T) {
	for _, c := range []struct {
		console, want string
		panicked      bool
	}{
		{"[1.0] siw: up\n[2.0] reboot: Power down\n", "the guest died: [1.0] siw: up | [2.0] reboot: Power down", false},
		{"[1.0] Oops: 0002 [#1]\n[1.1] RIP: 0010:siw_cep_put+0x1c/0x80 [siw]\n[1.2] Kernel panic - not syncing: Fatal exception\n",
			"the guest's kernel panicked in 0010:siw_cep_put+0x1c/0x80 [siw]", true},
		{"[1.2] Kernel panic - not syncing: Out of memory\n", "the guest's kernel panicked: [1.2] Kernel panic - not syncing: Out of memory", true},
	} {
		if err := died(c.console); err.Error() != c.want || errors.Is(err, errPanic) != c.panicked {
			t.Errorf("%q", err)
		}
	}
}
