package ctl

import (
	"context"
	"errors"
	"testing"

	"tapir/lab/check/testenv/cycles"
)

// firstWrite tells when something is written.
type firstWrite func()

func (f firstWrite) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

// A control server keeps nothing of captures that have ended.
func TestCapturesStayFlat(t *testing.T) {
	c, _, _, _ := deviceClient(t)
	cycles.Flat(t, 300, func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := c.Capture(ctx, CaptureOptions{Host: i%2 == 0}, firstWrite(cancel))
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}
