// Package toe is the NIC's TCP offload engine: RFC 9293 with the options of
// RFC 7323 and RFC 2018, loss recovery after RFC 6298, 6582 and 6675,
// congestion control after RFC 5681 or 9438 with the marks of RFC 3168, and
// the defences of RFC 5961 and 6528. It sends from a Source that can
// render any range of the stream again, one or more whole MPA FPDUs per
// segment (RFC 5044 annex A).
package toe
