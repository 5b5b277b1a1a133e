package usage

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestIs(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{io.EOF, false},
		{Wrap(nil), false},
		{Wrap(io.EOF), true},
		{Errorf("%q: %w", "x", io.EOF), true},
		{fmt.Errorf("nic0: %w", Errorf("x")), true},
	} {
		if Is(c.err) != c.want {
			t.Errorf("%v: %v", c.err, !c.want)
		}
	}
	if err := Errorf("%q: %w", "x", io.EOF); !errors.Is(err, io.EOF) || err.Error() != `"x": EOF` {
		t.Error(err)
	}
}
