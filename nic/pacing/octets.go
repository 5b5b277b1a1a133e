package pacing

import (
	"tapir/wire/frame"
	"tapir/wire/udp"
)

// tcpOffset is where a TCP header holds its length.
const tcpOffset = 12

// Segments tells of how many true frames f consists: count of them, which share
// headers of that many octets, each with at most size octets behind. Headers are 0
// if f is one frame.
func Segments(f *frame.Frame) (count, headers, size int) {
	if f.GSO == frame.GSONone {
		return 1, 0, f.Len()
	}
	b := f.Bytes()
	size = int(f.GSOSize)
	if f.GSO == frame.GSOUDP {
		headers = int(f.CsumStart) + udp.HeaderLen
	} else if size > 0 && int(f.CsumStart)+tcpOffset < len(b) {
		headers = int(f.CsumStart) + int(b[int(f.CsumStart)+tcpOffset]>>4)*4
	}
	if headers == 0 || size == 0 || len(b) <= headers+size {
		return 1, 0, len(b)
	}
	return (len(b) - headers + size - 1) / size, headers, size
}

// Octets are those of the true frames of which f consists, with so many more for
// each; before are those of all but the last.
func Octets(f *frame.Frame, more int) (all, before int64) {
	count, headers, size := Segments(f)
	all = int64(f.Len() + (count-1)*headers + count*more)
	return all, int64((count - 1) * (headers + size + more))
}
