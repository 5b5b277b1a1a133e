package iscsi

import (
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// note says in the capture of a NIC which PDU begins in the frame in hand, with its fields.
func note(n *frame.Notes, h *iscsi.BHS) {
	if n != nil && n.On {
		n.Append(func(b []byte) []byte { return h.Append(append(b, "iSCSI "...)) })
	}
}

// noteBad says that a digest is wrong.
func noteBad(n *frame.Notes, which string, h *iscsi.BHS) {
	if n != nil && n.On {
		n.Append(func(b []byte) []byte { return h.Append(append(append(b, which...), " digest is wrong: iSCSI "...)) })
	}
}
