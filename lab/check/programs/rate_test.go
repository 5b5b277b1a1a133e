package programs

import (
	"fmt"
	"testing"

	"tapir/lab/host/process"
)

// TestRateLimit: a program limits what its queue pair sends, by all that libibverbs has
// for it, where the library of the doorbells is in it; else it is told that it cannot.
func TestRateLimit(t *testing.T) {
	l := newLab(t)
	file := compiled(t, "cc", "testdata/rate.c", "-lrdmacm", "-libverbs", "-lpthread")
	const kbps = 20_000
	for i, c := range []struct {
		via  string
		can  bool
		rate []string
	}{{"auto", true, []string{fmt.Sprint(kbps)}}, {"preload", true, []string{fmt.Sprint(kbps)}}, {"trap", false, nil}} {
		argv := append([]string{tapir, "run", "--via", c.via, "--nic", server, "--", file, IPv4, fmt.Sprint(7710 + i)}, c.rate...)
		p, err := process.Start(t.Context(), l.pair.A.NS, process.Options{Argv: argv})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Wait(t.Context())
		var limited, free int
		said := p.Said()
		if !c.can {
			if want := "from 0 to 0 kb/s, RC false\nlimit: Operation not supported\n"; err != nil || said != want {
				t.Errorf("%s: %v\n%s", c.via, err, said)
			}
			continue
		}
		_, scan := fmt.Sscanf(said, "from 1 to 100000000 kb/s, RC true\nbeyond the NIC: Invalid argument\n"+
			"bursts: Invalid argument\nlimited %d ms, free %d ms\n", &limited, &free)
		// 1 MB in Writes, without the headers; a late thread makes up for 4 ms.
		if least := 1_000_000*8/kbps - 5; err != nil || scan != nil || limited < least {
			t.Errorf("%s: %v, %v, want %d ms at least\n%s", c.via, err, scan, least, said)
		}
		t.Logf("%s: %s", c.via, said)
	}
}
