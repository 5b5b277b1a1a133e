package inspect

import (
	"slices"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/fibre"
	"tapir/lab/tool/inspect/nvmf"
	"tapir/lab/tool/inspect/scsi"
)

// Rule is something that a packet can break.
type Rule = clause.Rule

// trait is how a rule differs from others.
type trait func(*Rule)

func siw(r *Rule)    { r.Siw = true }
func should(r *Rule) { r.Should = true }
func last(r *Rule)   { r.Last = true }
func lost(r *Rule)   { r.Last, r.Lost = true, true }

var rules []*Rule

// Rules lists all rules in the order of the layers.
func Rules() []*Rule { return slices.Concat(rules, scsi.Rules(), nvmf.Rules(), fibre.Rules()) }

func rule(clause, says string, traits ...trait) *Rule {
	r := &Rule{Clause: clause, Says: says}
	for _, t := range traits {
		t(r)
	}
	rules = append(rules, r)
	return r
}

// IP and TCP.
var (
	ipHeader      = rule("RFC 791 section 3.1", "an impossible field in the IP header")
	ipLength      = rule("RFC 791 section 3.1", "Total Length exceeds the frame")
	ipChecksum    = rule("RFC 791 section 3.1", "the header checksum is wrong")
	tcpHeader     = rule("RFC 9293 section 3.1", "an impossible field in the TCP header")
	tcpReserved   = rule("RFC 9293 section 3.1", "the reserved bits of the TCP header are not zero")
	tcpChecksum   = rule("RFC 9293 section 3.1", "the TCP checksum is wrong")
	tcpAck        = rule("RFC 9293 section 3.10.7.4", "acknowledges octets that were never sent")
	tcpWindow     = rule("RFC 9293 section 3.8.6", "octets beyond the window that the receiver offered")
	tcpChanged    = rule("RFC 9293 section 3.8.1", "a retransmission has other octets than the segment before", lost)
	tcpBehindFIN  = rule("RFC 9293 section 3.6", "octets behind the sender's FIN", lost)
	streamInFrame = rule("RFC 5044 section 7.1.1", "the stream ends inside an MPA start-up frame", lost)
	streamInFPDU  = rule("RFC 5044 section 4.1", "the stream ends inside an FPDU", lost)
)

// udpChecksum is broken by carriers of PTP and of fabric packets.
var udpChecksum = rule("RFC 768", "the UDP checksum is wrong")

// MPA start-up.
var (
	mpaKey       = rule("RFC 5044 section 7.1.1", "the key of the MPA frame is wrong", lost)
	mpaBoth      = rule("RFC 5044 section 7.1.2", "both sides act as MPA initiator", lost)
	mpaPDTooLong = rule("RFC 5044 section 7.1.1", "PD_Length exceeds 512", lost)
	mpaPDLength  = rule("RFC 5044 section 7.1.1", "PD_Length is not the length of the private data", lost)
	mpaPDWraps   = rule("RFC 5044 section 7.1.1",
		"PD_Length is 256 less than the length of the private data", siw, lost)
	mpaReserved = rule("RFC 5044 section 7.1.1", "reserved bits of the MPA frame are not zero")
	mpaGSO      = rule("RFC 5044 section 7.1.1",
		"siw's bit for FPDUs over several segments lies in the reserved field", siw)
	mpaRejectReq = rule("RFC 5044 section 7.1.1", "R is set in a request")
	mpaRevision  = rule("RFC 5044 section 7.1.1", "an unknown MPA revision")
	mpaSWithout  = rule("RFC 6581 section 6", "S is set below revision 2")
	mpaSReply    = rule("RFC 6581 section 10", "S of the reply is not that of the request")
	mpaNoWords   = rule("RFC 6581 section 6", "S is set without the words for IRD and ORD")
	mpaORD       = rule("RFC 6581 section 9.1", "the responder's ORD exceeds the initiator's IRD")
	mpaLeft      = rule("RFC 6581 section 9.1",
		"a depth that the initiator left to the application is answered with a number", siw)
	mpaFlagA       = rule("RFC 6581 section 9.2", "A of the reply is not that of the request")
	mpaBCD         = rule("RFC 6581 section 9.2", "B, C or D is set without A")
	mpaNoRTR       = rule("RFC 6581 section 9.2", "A of a reply is set without an indication in B, C and D")
	mpaEarly       = rule("RFC 5044 section 7.1.2", "the initiator sends an FPDU before the reply")
	mpaRespFirst   = rule("RFC 5044 section 7.1.2", "the responder sends an FPDU before it has received one", siw)
	mpaAfterReject = rule("RFC 5044 section 7.1.2", "an FPDU on a connection that was rejected", last)
	mpaWrongRTR    = rule("RFC 6581 section 9.2", "the first message is none of the indications that were agreed on")
)

// FPDUs.
var (
	fpduLength   = rule("RFC 5044 section 4.1", "ULPDU_Length leads to where no FPDU begins", lost)
	fpduTooLong  = rule("RFC 5044 section 4.5", "ULPDU_Length exceeds 64768", lost)
	fpduCRC      = rule("RFC 5044 section 4.4", "the CRC is wrong", lost)
	fpduPad      = rule("RFC 5044 section 4.1", "pad octets are not zero", siw)
	markerPtr    = rule("RFC 5044 section 4.3", "FPDUPTR is not the distance to the FPDU's start")
	markerLow    = rule("RFC 5044 section 4.2", "the low bits of FPDUPTR are not zero")
	markerResvd  = rule("RFC 5044 section 4.2", "the reserved field of a marker is not zero")
	ddpTruncated = rule("RFC 5041 section 4.4", "a ULPDU shorter than its DDP header", last)
)

// DDP and RDMAP.
var (
	ddpVersion    = rule("RFC 5041 section 4.1", "a DDP version other than 1", last)
	ddpReserved   = rule("RFC 5041 section 4.1", "reserved bits of the DDP control field are not zero")
	rdmapVersion  = rule("RFC 5040 section 4.1", "an RDMAP version other than 1", last)
	rdmapReserved = rule("RFC 5040 section 4.1", "reserved bits of the RDMAP control field are not zero")
	rdmapOpcode   = rule("RFC 5040 section 4.1", "a reserved opcode", last)
	rdmapTagged   = rule("RFC 5040 section 4.1", "the T bit does not suit the opcode", last)
	rdmapQueue    = rule("RFC 5040 section 4.1", "the queue number does not suit the opcode", last)
	rdmapInvSTag  = rule("RFC 5040 section 4.1", "an Invalidate STag in a message that invalidates nothing")
	ddpMSN        = rule("RFC 5041 section 4.3", "the MSN is not the next of its queue", last)
	ddpMO         = rule("RFC 5041 section 5.2", "the MO is not the offset in the message", last)
	ddpTO         = rule("RFC 5041 section 5.2", "the TO does not continue the message", last)
	ddpSTag       = rule("RFC 5041 section 5.2", "the STag changes inside a message", last)
	ddpLast       = rule("RFC 5041 section 4.1", "the L bit is not on the last segment of the message", last)
	ddpInterleave = rule("RFC 5041 section 5.3", "a message begins inside another one", last)
	ddpWrap       = rule("RFC 5041 section 7.1", "TO and length wrap around", siw)
	sendChanged   = rule("RFC 5041 section 5.2", "the opcode or Invalidate STag changes inside a message", last)
	readLast      = rule("RFC 5040 section 5.2.1", "a request of one segment without the L bit")
	readLength    = rule("RFC 5040 section 4.4", "a Read Request of another length than 28", last)
	readDepth     = rule("RFC 5040 section 6.1", "more outstanding Reads than were negotiated")
	respUnasked   = rule("RFC 5040 section 5.2.2", "a Read Response without a Read Request", last)
	respSTag      = rule("RFC 5040 section 4.4", "the STag of a Read Response is not the one that was asked for", last)
	respTO        = rule("RFC 5040 section 4.4", "the TO of a Read Response is not the one that was asked for", last)
	respSize      = rule("RFC 5040 section 4.4", "a Read Response of another length than was asked for", last)
	immLength     = rule("RFC 7306 section 6.2", "Immediate Data of another length than 8")
	atomicLength  = rule("RFC 7306 section 5.2.1", "an Atomic Request of another length than 52", last)
	atomicOp      = rule("RFC 7306 section 5.2.1", "a reserved atomic operation")
	atomicAnswer  = rule("RFC 7306 section 5.2.2", "an Atomic Response that answers no request", last)
	atomicID      = rule("RFC 7306 section 5.2.2", "the identifier of an Atomic Response is not that of the request")
)

// Terminates.
var (
	termAfter   = rule("RFC 5040 section 5.4", "a message behind the sender's Terminate", last)
	termSwapped = rule("RFC 5040 section 4.8", "layer and type have changed places")
	termLayout  = rule("RFC 5040 section 4.8",
		"layer and type have changed places, M, D and R are the lowest bits", siw)
	termLength  = rule("RFC 5040 section 4.8", "the DDP Segment Length counts the payload alone", siw)
	termMSN     = rule("RFC 5040 section 4.8", "the quoted Read Request has the size in place of the MSN", siw)
	termTooLong = rule("RFC 5041 section 7.2",
		"no buffer is reported for a message of which a segment was accepted: it is too long", siw)
	termWrap     = rule("RFC 5041 section 7.2", "a TO that wraps is reported as a local catastrophic error", siw)
	termReserved = rule("RFC 5040 section 4.8", "the reserved bits of the Terminate are not zero")
	termUnknown  = rule("RFC 5040 section 4.8", "layer, type and code name no error")
	termHeaders  = rule("RFC 5040 section 4.8", "M, D and R do not suit the error", should)
	termSegment  = rule("RFC 5040 section 4.8", "the DDP Segment Length is not that of the quoted segment")
	termQuote    = rule("RFC 5040 section 4.8", "the quoted header is of no segment that was sent")
	termRead     = rule("RFC 5040 section 4.8", "the quoted Read Request is not the one that was sent")
	termShort    = rule("RFC 5040 section 4.8", "a Terminate shorter than M, D and R say")
	termExtra    = rule("RFC 5040 section 4.8", "octets behind the Terminate")
)

// Omni-Path: the fields as docs/howto/opa-wireshark.md has them.
var (
	opaFraming  = rule("OPA framing", "the header around the packet is impossible or names another vESW")
	opaShort    = rule("OPA 16B Length", "shorter than a packet can be")
	opaL2       = rule("OPA 16B L2", "the link format is not 2")
	opaLength   = rule("OPA 16B Length", "the length field is not that of the packet")
	opaL4       = rule("OPA 16B L4", "an L4 type that is not Ethernet")
	opaSLID     = rule("OPA SLID", "the source LID is not unicast")
	opaDLID     = rule("OPA DLID", "the destination LID suits neither a port nor a group of that service class")
	opaTail     = rule("OPA 16B Tail", "an impossible tail octet")
	opaPad      = rule("OPA 16B Pad", "pad octets are not zero")
	opaICRC     = rule("OPA ICRC", "the invariant CRC is wrong")
	opaLT       = rule("OPA 16B LT", "the mark of a header's quadword is missing")
	opaReserved = rule("OPA 16B Reserved", "reserved bits are not zero")
	opaRunt     = rule("OPA 16B Payload", "an Ethernet frame below 60 octets")
	opa9BL2     = rule("OPA 9B LVer", "the link version is not 0")
	opa9BLength = rule("OPA 9B Length", "the length field is not that of the packet")
	opa9BBTH    = rule("OPA 9B BTH", "no unreliable datagram")
	opa9BPad    = rule("OPA 9B Pad", "pad octets are not zero")
	opa9BQKey   = rule("OPA 9B Q_Key", "the Q_Key does not suit the queue pair")
)

// RoCE: sections of the InfiniBand Architecture, volume 1; docs/concepts/roce.md tells more of each.
var (
	roceUDPLength = rule("IBTA annex A17.9", "UDP and IP headers have different lengths")
	roceOptions   = rule("IBTA annex A17.9.1", "an IP header with options")
	roceGRH       = rule("IBTA section 8.3", "a GRH with an impossible version, next header or payload length")
	roceShort     = rule("IBTA section 9.6.1", "shorter than the headers and pad of its opcode")
	roceICRC      = rule("IBTA section 7.8", "the invariant CRC is wrong")
	roceVersion   = rule("IBTA section 9.2.5", "a transport header version other than 0")
	roceOpcode    = rule("IBTA section 9.2.1", "a reserved opcode")
	roceReserved  = rule("IBTA section 9.2", "reserved bits of the BTH are not zero")
	rocePad       = rule("IBTA section 9.2.4", "payload and pad are not a multiple of 4 octets")
	rocePKey      = rule("IBTA section 9.6.1.1.5", "partition keys of a connection do not suit each other")
	roceDestQP    = rule("IBTA section 9.6.1.1.2", "a connected service to a queue pair for management or multicast")
	roceCNP       = rule("IBTA annex A17.9.4", "a congestion notification with a PSN or without BECN")
	roceNoPayload = rule("IBTA section 9.4", "payload in a packet that has none")
	roceDMALen    = rule("IBTA section 9.3.3.3", "a DMA length above 2^31")
	roceFull      = rule("IBTA section 9.7.4.1.6", "a First or Middle packet is not as long as the path MTU")
	roceRest      = rule("IBTA section 9.7.4.1.6", "an Only or Last packet exceeds the MTU, or a Last one is empty")
	roceLength    = rule("IBTA section 9.7.4.1.6", "the payload of a Write is not as long as its DMA length")
	rocePSN       = rule("IBTA section 9.7.2", "a request whose PSN is neither the next nor one that was sent")
	roceChanged   = rule("IBTA section 9.7.3.1", "another request with the PSN of one before")
	roceOrder     = rule("IBTA section 9.7.4.1.3", "a packet that may not follow the one with the PSN before")
	roceRetry     = rule("IBTA section 9.7.6.1.1", "sent more often than the retry count allows")
	roceSyndrome  = rule("IBTA section 9.7.5.2.4", "a syndrome that is reserved, or not that of a response")
	roceAckPSN    = rule("IBTA section 9.7.5.1", "acknowledges a PSN that was never sent")
	roceMSN       = rule("IBTA section 9.7.7.1", "the MSN is not the number of messages completed")
	roceNAK       = rule("IBTA section 9.7.5.2.8", "a sequence error is reported though nothing behind it was sent")
	roceNAKTwice  = rule("IBTA section 9.7.5.2.8", "a sequence error is reported twice before the PSN was sent again")
	roceRNR       = rule("IBTA section 9.7.5.2.8", "receiver not ready for a request that takes no receive")
	roceAccess    = rule("IBTA section 9.7.5.2.8", "an access error is reported for a request without R_Key")
	roceAfterNAK  = rule("IBTA section 9.9.3", "a PSN is acknowledged and refused by a NAK that ends the connection")
	roceUnasked   = rule("IBTA section 9.7.5.1.2", "a response of another kind than its request")
	roceResponse  = rule("IBTA section 9.7.5.1.2", "a packet of a response that does not suit the Read")
)

// Communication management.
var (
	roceQKey       = rule("IBTA section 10.2.5", "a datagram to queue pair 0, or to queue pair 1 without its Q_Key")
	roceMADLength  = rule("IBTA section 13.4.2", "a management datagram that is not 256 octets long")
	roceMADHeader  = rule("IBTA section 12.6.1", "version, method or attribute is none of communication management")
	roceREQChanged = rule("IBTA section 12.9.6", "a REQ is sent again with other contents")
	roceREPChanged = rule("IBTA section 12.9.6", "a REP is sent again with other contents")
	roceREQMTU     = rule("IBTA section 12.7.29", "a REQ with a reserved path MTU")
	roceREQService = rule("IBTA section 12.7.6", "a REQ for a transport service that RoCE does not have")
	roceREQPath    = rule("IBTA annex A17.7", "the GIDs of a REQ are not the addresses of its packet")
	roceCMA        = rule("IBTA annex A11.4", "a REQ for an IP service without the address header")
	roceTID        = rule("IBTA section 12.6.4", "an answer with another transaction id than its request")
	roceCommID     = rule("IBTA section 12.6", "communication ids that the connection does not have")
	roceReject     = rule("IBTA section 12.6.7.2", "a reserved reason of a REJ")
	roceDREQ       = rule("IBTA section 12.6.10", "a DREQ for another queue pair than that of the connection")
)

// PTP. Section numbers are those of IEEE 1588-2019.
var (
	ptpVersion   = rule("IEEE 1588 section 13.3", "versionPTP is not 2")
	ptpMinor     = rule("IEEE 1588 section 13.3", "minorVersionPTP above 1")
	ptpType      = rule("IEEE 1588 section 13.3", "a reserved messageType")
	ptpLength    = rule("IEEE 1588 section 13.3", "messageLength does not suit the message")
	ptpFlags     = rule("IEEE 1588 section 13.3", "flagField has flags that the messageType does not")
	ptpLeap      = rule("IEEE 1588 section 13.3", "leap61 and leap59 together")
	ptpCorrect   = rule("IEEE 1588 section 13.3", "a correctionField in a message that has none")
	ptpSpecific  = rule("IEEE 1588 section 13.3", "messageTypeSpecific of a general message is not zero")
	ptpControl   = rule("IEEE 1588 section 13.3", "controlField is not that of the messageType")
	ptpInterval  = rule("IEEE 1588 section 13.3", "logMessageInterval of a message that has none is not 0x7F")
	ptpNanos     = rule("IEEE 1588 section 5.3.3", "a timestamp with a second or more of nanoseconds")
	ptpTLV       = rule("IEEE 1588 section 14.1", "TLVs do not fill the rest of the message, or have odd lengths")
	ptpPort      = rule("IEEE 1588 section 7.5.2", "a sourcePortIdentity that no port can have")
	ptpUDPPort   = rule("IEEE 1588 annex C", "event messages go to port 319, general ones to port 320")
	ptpGroup     = rule("IEEE 1588 annexes C to E", "a group address that is not for this messageType")
	ptpSequence  = rule("IEEE 1588 section 7.3.7", "sequenceId is not the next of its messageType")
	ptpTwoStep   = rule("IEEE 1588 section 9.5.9", "twoStepFlag and Follow_Up do not agree")
	ptpFollowUp  = rule("IEEE 1588 section 9.5.10", "a Follow_Up without a Sync")
	ptpDelayResp = rule("IEEE 1588 section 9.5.12", "a Delay_Resp that answers no Delay_Req")
	ptpPdelay    = rule("IEEE 1588 section 11.4", "a Pdelay_Resp that answers no Pdelay_Req")
	ptpPdelayFU  = rule("IEEE 1588 section 11.4", "a Pdelay_Resp_Follow_Up without a Pdelay_Resp")
	ptpSteps     = rule("IEEE 1588 section 9.3.2.5", "stepsRemoved of 255 or more")
)
