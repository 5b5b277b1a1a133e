package fault

import "time"

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
