package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// A lab goes the same way, to the last octet, whether somebody watches or not.
func TestWatchedLabIsTheSame(t *testing.T) {
	for _, name := range []string{"first-write", "lossy-link"} {
		file := "../../examples/" + name + "/lab.yaml"
		_, alone := run(t, load(t, file), virtual.Options{})
		events, at := 0, time.Duration(0)
		_, watched := run(t, load(t, file), virtual.Options{Step: func(_ context.Context, e *virtual.Event) error {
			if events++; e.Number != events || e.At < at || len(e.Lines) == 0 {
				t.Errorf("%s: after %d events until %v: %v", name, events-1, at, e)
			}
			at = e.At
			return nil
		}})
		if watched != alone {
			t.Errorf("%s: %swatched, instead of\n%s", name, watched, alone)
		}
		if events < 500 {
			t.Errorf("%s: %d events", name, events)
		}
	}
}

// The events tell the whole way of a Write: the request, the memory that is
// read, the FPDU, the frame, the memory that is written, the completion. An
// error ends the lab.
func TestEventsOfWrite(t *testing.T) {
	lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24, frames: gso}
  b: {kind: nic, ip: 10.0.0.2/24, frames: gso}
links: [[a, b]]
steps: [{perf: write-bw, server: a, client: b, size: 6000, iters: 2}]
`))
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var said strings.Builder
	r, err := virtual.Run(t.Context(), lab, virtual.Options{Step: func(_ context.Context, e *virtual.Event) error {
		fmt.Fprintln(&said, e)
		if strings.Contains(e.String(), "done WR 1 write") {
			return enough
		}
		return nil
	}})
	if err != nil || r.Verdict != result.Failed || r.Steps[0].Error != enough.Error() || r.Error != "" {
		t.Errorf("%v: %+v", err, r)
	}
	at := 0
	for _, want := range []string{
		`a +sends +packet \d+ on a-b: ARP 10.0.0.1 asks for 10.0.0.1\n`,
		`b +sends .*10.0.0.2:\d+ > 10.0.0.1:18515 SYN seq \d+ ack 0 len 0; TCP SYN\n`,
		`a +gets `, `a +cm .*`,
		`b +wr +QP 1 post WR 1 RDMA Write SGEs 1 len 6000\n`,
		`b +tx +QP 1 WR 1 RDMA Write STag 0x\w+ TO 0x\w+ len 1428, 4 such segments\n`,
		`b +data +read MR 1 STag 0x\w+ offset \d+ len 5712: (\w\w ){15}\w\w\.\.\.\n`,
		`b +sends .* len 6100; RDMA Write, 6000 octets, `,
		`a +gets `,
		`a +data +write MR 1 STag 0x\w+ offset 0 len 1428: `,
		`a +rx +QP 1 RDMA Write STag 0x\w+ TO 0x\w+ len 288 last\n`,
		`b +wr +QP 1 done WR 1 write: success`,
	} {
		place := regexp.MustCompile(want).FindStringIndex(said.String()[at:])
		if place == nil {
			t.Fatalf("no %s behind\n%s", want, said.String()[:at])
		}
		at += place[0]
	}
}
