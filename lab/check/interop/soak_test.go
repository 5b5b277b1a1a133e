//go:build soak

package interop

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestSoak runs the full product up to 1 % loss; see SoakFromEnv.
func TestSoak(t *testing.T) {
	s, out, err := SoakFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if n := s.Run(t.Context(), out, os.Stderr, "linux", Product(), Linux); n > 0 {
		t.Errorf("%d cells failed", n)
	}
}

// TestSoakOpenClose opens and closes 100,000 connections with TIME-WAITs of a
// second.
func TestSoakOpenClose(t *testing.T) {
	_, out, err := SoakFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	const n = 100_000
	begun := time.Now()
	openClose(t, n, 30*time.Minute)
	verdict := "in the end no connection, timer or memory was left"
	if t.Failed() {
		verdict = "FAILED"
	}
	fmt.Fprintf(out, "%d connections with linux opened and closed one after the other, TIME-WAIT 1 s, in %v: %s.\n\n",
		n, time.Since(begun).Round(time.Second), verdict)
}
