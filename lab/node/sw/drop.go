package sw

import "tapir/wire/frame"

const firstDrop frame.DropReason = 80

// Reasons for which a switch does not forward a frame, beside those of
// wire/drop.
const (
	DropLinkLocal frame.DropReason = iota + firstDrop // a group that no bridge forwards
	DropSamePort                                      // the station is behind the port that the frame came from
	DropClock                                         // a PTP message that a transparent clock does not pass on
	DropPFC                                           // a PFC frame about priorities without PFC
	DropHeadroom                                      // received after XOFF, and headroom was full
	DropWatchdog                                      // of a class that PFC held back for too long
	DropBuffer                                        // the shared buffer has no room for the queue
	DropNoRoute                                       // to an address without a route
	DropTTL                                           // its TTL or hop limit is over
	DropNeighbor                                      // to a station that the router has not heard of
	DropNotRouted                                     // of a port for routed packets, and not to the router
)

func init() {
	frame.RegisterDrops(firstDrop, "link-local group", "same port", "not passed by clock",
		"PFC not enabled", "PFC headroom full", "PFC watchdog", "shared buffer full",
		"no route", "TTL expired", "no neighbor", "not for the router")
}
