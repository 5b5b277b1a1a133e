package fault

import (
	"fmt"
	"strings"
	"time"
)

// Impairment is what a bad cable does to the TCP segments and RoCE packets of one direction.
// Other frames only take rate, queue and delay, unless All is set: address
// resolution has no checksum and would drown what is to be seen. Chances are in
// parts per million.
type Impairment struct {
	Loss      int           // the segment vanishes
	Duplicate int           // it arrives twice
	Corrupt   int           // one bit behind the Ethernet header is flipped
	Reorder   int           // 1 to Depth later segments overtake it
	Depth     int           // default 1
	Delay     time.Duration // of everything
	Jitter    time.Duration // added to Delay, from 0 to this much; the order stays
	Rate      int64         // bits of frames per second; 0: no limit
	Queue     int           // octets that may wait for their turn at that rate; default 256 KiB
	All       bool          // any frame is lost, duplicated or reordered; still only TCP and RoCE corrupted
	Down      bool          // everything vanishes
}

// String is what happens, in the words of a lab's file, such as "loss 1%, delay 3ms"; "none"
// without anything. It does not tell what is down.
func (i *Impairment) String() string {
	var all []string
	for _, c := range []struct {
		name string
		ppm  int
	}{{"loss", i.Loss}, {"duplicate", i.Duplicate}, {"corrupt", i.Corrupt}, {"reorder", i.Reorder}} {
		if c.ppm > 0 {
			all = append(all, fmt.Sprintf("%s %g%%", c.name, float64(c.ppm)/1e4))
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"delay", i.Delay}, {"jitter", i.Jitter}} {
		if d.d > 0 {
			all = append(all, fmt.Sprint(d.name, " ", d.d))
		}
	}
	if i.Rate > 0 {
		all = append(all, fmt.Sprintf("rate %gMbit", float64(i.Rate)/1e6))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
