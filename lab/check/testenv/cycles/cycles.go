// Package cycles asserts that what is done again and again leaves nothing
// behind: no memory, goroutine or file descriptor.
package cycles

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Variable is the environment variable that sets the number of cycles of every
// such test; without it there are few of them.
const Variable = "TAPIR_CYCLES"

// usage is what a process holds.
type usage struct {
	heap, objects           uint64 // live, after garbage collection
	rss                     int    // octets
	goroutines, descriptors int
}

func (u usage) String() string {
	return fmt.Sprintf("live heap %d KiB in %d objects, resident %d KiB, %d goroutines, %d descriptors",
		u.heap>>10, u.objects, u.rss>>10, u.goroutines, u.descriptors)
}

// measure collects garbage twice, which empties pools, and looks.
func measure(t testing.TB) usage {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return usage{m.HeapAlloc, m.HeapObjects, pages * os.Getpagesize(), runtime.NumGoroutine(), len(fds)}
}

// Flat runs cycle n times, or as often as Variable says, and compares what the
// process holds after a third of the cycles with what it holds after all of
// them. The live heap may have grown by a twentieth and 64 KiB; goroutines and
// descriptors not at all.
func Flat(t testing.TB, n int, cycle func(i int)) {
	t.Helper()
	if s := os.Getenv(Variable); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 3 {
			t.Fatalf("%s=%s: want a number of cycles from 3 on", Variable, s)
		}
	}
	var early usage
	for i := range n {
		if i == n/3 {
			early = measure(t)
		}
		cycle(i)
	}
	late := measure(t)
	more := func() bool { return late.goroutines > early.goroutines || late.descriptors > early.descriptors }
	for tries := 0; tries < 1000 && more(); tries++ {
		time.Sleep(10 * time.Millisecond) // what has been told to end does so by and by
		late = measure(t)
	}
	t.Logf("after %d cycles: %v; after %d: %v", n/3, early, n, late)
	if late.heap > early.heap+early.heap/20+64<<10 {
		t.Errorf("the live heap grew by %d octets a cycle", (late.heap-early.heap)/uint64(n-n/3))
	}
	if more() {
		t.Error("goroutines or descriptors were left behind")
	}
}
