package fcf

import "tapir/wire/frame"

const firstDrop frame.DropReason = 92

// Reasons for which an FCF does not forward a frame, beside those of wire/drop. Their numbers
// follow those of a switch.
const (
	DropNoPort frame.DropReason = iota + firstDrop // nobody is logged in by the D_ID
	DropZone                                       // the two N_Ports share no zone
)

func init() { frame.RegisterDrops(firstDrop, "no N_Port", "FC zone") }
