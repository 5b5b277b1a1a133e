package fibre

import "tapir/lab/tool/inspect/clause"

var book clause.Book

// Rules lists the rules of FIP and FCoE.
func Rules() []*clause.Rule { return book }

// FIP.
var (
	fipHeader     = book.Rule("FC-BB-6 clause 7.9", "a version other than 1, or descriptors longer than the frame")
	fipDescriptor = book.Rule("FC-BB-6 table 43", "a descriptor of a wrong length")
	fipUnknown    = book.Rule("FC-BB-6 table 43", "a reserved descriptor that receivers have to understand")
	fipMissing    = book.Rule("FC-BB-6 table 42", "a descriptor that the operation needs is missing")
	fipOperation  = book.Rule("FC-BB-6 table 40", "a reserved operation or subcode")
	fipGroup      = book.Rule("FC-BB-6 clause 7.9", "a group address that is not for this operation")
	fipAddress    = book.Rule("FC-BB-6 clause 7.8", "the MAC address of a VN_Port is not FC-MAP and FC_ID")
)

// Frames of FCoE.
var (
	frameShort     = book.Rule("FC-BB-6 clause 7.7", "shorter than its header, or a version other than 0")
	frameDelimiter = book.Rule("FC-FS-3 section 9.2", "delimiters of start and end are none of class 3")
	frameSOF       = book.Rule("FC-FS-3 section 9.2", "SOFi3 is not on the first frame of a sequence alone")
	frameEOF       = book.Rule("FC-FS-3 section 9.7", "EOFt and End_Sequence do not agree")
	frameCRC       = book.Rule("FC-FS-3 section 9.2", "the CRC is wrong")
	frameHeader    = book.Rule("FC-FS-3 section 9.7", "more fill octets than payload, or optional headers")
	frameLong      = book.Rule("FC-LS-2 section 6.6.2", "a payload longer than its receiver's login allows")
	frameSource    = book.Rule("FC-BB-6 clause 7.8", "the source MAC address is not that of S_ID")
	frameLogin     = book.Rule("FC-BB-6 clause 7.9", "a frame of a VN_Port that has logged out, or was never let in")
	frameProcess   = book.Rule("FCP-4 section 6.3", "FCP between ports without PLOGI and PRLI")
)

// Sequences and exchanges.
var (
	seqCount    = book.Rule("FC-FS-3 section 9.10", "SEQ_CNT goes back in its sequence")
	exchInUse   = book.Rule("FC-FS-3 section 9.11", "the OX_ID of an exchange that is open is used again")
	fcpShort    = book.Rule("FCP-4 section 9", "an information unit that is too short")
	fcpOffset   = book.Rule("FCP-4 section 9.3", "data is not where the data before it ends")
	fcpLong     = book.Rule("FCP-4 section 9.1", "more data than FCP_DL")
	fcpTransfer = book.Rule("FCP-4 section 9.2", "FCP_XFER_RDY for nothing, or for more than FCP_DL")
	fcpUnasked  = book.Rule("FCP-4 section 9.2", "written data that no FCP_XFER_RDY asks for")
	fcpResidual = book.Rule("FCP-4 section 9.5", "the residual does not suit the data")
	fcpEnd      = book.Rule("FCP-4 section 9.5", "FCP_RSP without FCP_CONF does not end its exchange")
)
