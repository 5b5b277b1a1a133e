package hfinode

import "tapir/wire/frame"

// Carrier tells the HFI that its link is up or down.
func (n *Node) Carrier(up bool) { n.Do(func(now frame.Time) { n.carrier(up, now) }) }
