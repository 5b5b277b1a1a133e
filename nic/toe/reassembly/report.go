package reassembly

import "tapir/wire/tcp"

// Block is a range of stream offsets, [Left, Right).
type Block struct{ Left, Right uint64 }

// Report holds the ranges to report in SACK blocks, the most recent first.
type Report struct {
	blocks  [maxBlocks]Block
	nblocks int
	fresh   int              // blocks at the front that no acknowledgement has reported
	dsacks  [maxDSACKs]Block // duplicates to be reported once, each by its own acknowledgement (RFC 2883)
	ndsacks int
}

// maxDSACKs is how many duplicates of one batch are reported.
const maxDSACKs = 8

// Repeated notes a duplicate; the last one of those that are too many is lost.
func (r *Report) Repeated(b Block) {
	r.dsacks[min(r.ndsacks, maxDSACKs-1)] = b
	r.ndsacks = min(r.ndsacks+1, maxDSACKs)
}

// maxBlocks is how many ranges are remembered. More than one SACK option holds,
// because one acknowledgement may answer a whole batch of segments.
const maxBlocks = 16

// note makes b, joined with every reported range it touches, the most recent
// block (RFC 2018 section 4).
func (r *Report) note(b Block) {
	kept, fresh := 0, 1
	var keep [maxBlocks]Block
	for i, o := range r.blocks[:r.nblocks] {
		if o.Left <= b.Right && b.Left <= o.Right {
			b.Left, b.Right = min(b.Left, o.Left), max(b.Right, o.Right)
			continue
		}
		if i < r.fresh {
			fresh++
		}
		keep[kept] = o
		kept++
	}
	r.blocks[0] = b
	r.nblocks = 1 + copy(r.blocks[1:], keep[:kept])
	r.fresh = min(fresh, r.nblocks)
}

// Trim forgets the reported ranges that are in order now.
func (r *Report) Trim(next uint64) {
	kept, fresh := 0, 0
	for i, b := range r.blocks[:r.nblocks] {
		if b.Left > next {
			r.blocks[kept] = b
			kept++
			if i < r.fresh {
				fresh++
			}
		}
	}
	r.nblocks, r.fresh = kept, fresh
}

// Pending reports whether an acknowledgement has ranges to report.
func (r *Report) Pending() bool { return r.nblocks > 0 || r.ndsacks > 0 }

// Owed reports whether there are some that none has reported yet.
func (r *Report) Owed() bool { return r.fresh > 0 || r.ndsacks > 0 }

// Fill writes the SACK option, base being the number of offset 0: a duplicate first, then the most recent ranges.
// Ranges that no acknowledgement has reported yet come first the next time.
func (r *Report) Fill(o *tcp.Options, base tcp.Seq) {
	limit := len(o.SACK)
	if o.HasTS {
		limit = 3 // what fits beside the timestamps
	}
	put := func(b Block) {
		o.SACK[o.NSACK] = tcp.SACKBlock{Left: base + tcp.Seq(b.Left), Right: base + tcp.Seq(b.Right)}
		o.NSACK++
	}
	if r.ndsacks > 0 {
		put(r.dsacks[0])
		r.ndsacks = copy(r.dsacks[:], r.dsacks[1:r.ndsacks])
	}
	n := min(limit-o.NSACK, r.nblocks)
	for _, b := range r.blocks[:n] {
		put(b)
	}
	if r.fresh > n {
		var rest [maxBlocks]Block
		copy(rest[:], r.blocks[:n])
		copy(r.blocks[:], r.blocks[n:r.nblocks])
		copy(r.blocks[r.nblocks-n:], rest[:n])
	}
	r.fresh = max(0, r.fresh-n)
}
