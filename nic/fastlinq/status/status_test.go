package status

import (
	"errors"
	"fmt"
	"testing"
)

func TestNames(t *testing.T) {
	for c, want := range map[Code]string{
		Success: "SUCCESS", Pending: "PENDING", NoMem: "NOMEM", Inval: "INVAL", NoResources: "NORESOURCES",
		NoEnt: "NOENT", -16: "Code(-16)", 2: "Code(2)",
	} {
		if got := c.String(); got != want {
			t.Errorf("%d: %s, want %s", int8(c), got, want)
		}
	}
}

func TestOf(t *testing.T) {
	err := Inval.Errorf("queue %d of %d", 9, 8)
	if outer := Inval.Errorf("vport 1: %v", err); outer.Error() != "vport 1: queue 9 of 8: INVAL" {
		t.Errorf("%v", outer)
	}
	if err.Error() != "queue 9 of 8: INVAL" || !errors.Is(err, Inval) {
		t.Errorf("%v", err)
	}
	for err, want := range map[error]Code{
		nil: Success, err: Inval, Busy: Busy, fmt.Errorf("vport 1: %w", err): Inval, errors.New("other"): UnknownError,
	} {
		if got := Of(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
