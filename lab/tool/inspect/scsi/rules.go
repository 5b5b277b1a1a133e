package scsi

import "tapir/lab/tool/inspect/clause"

var book clause.Book

// Rules lists the rules of iSCSI in the order of RFC 7143's layers.
func Rules() []*clause.Rule { return book }

func rule(section, says string) *clause.Rule { return book.Rule("RFC 7143 section "+section, says) }

// PDUs and digests.
var (
	pduOpcode    = rule("11.2.1.2", "a reserved operation code, or one of the other side")
	pduAHS       = rule("11.2.1.5", "additional header segments in a PDU that has none")
	pduNoData    = rule("11.2.1.6", "data in a PDU that has none")
	pduLong      = rule("13.12", "a data segment longer than the receiver declared")
	headerDigest = rule("11.2.3", "the header digest is wrong")
	dataDigest   = rule("11.2.3", "the data digest is wrong")
	pduPad       = book.Should("RFC 7143 section 11.1", "pad octets are not zero")
	streamEnd    = rule("11.1", "the stream ends inside a PDU")
)

// Login.
var (
	loginFirst     = rule("4.2.4", "a PDU other than login in the login phase")
	loginAgain     = rule("4.2.4", "login in the full feature phase")
	loginTwo       = rule("6.3", "a second Login Request before the first is answered")
	loginUnasked   = rule("6.3", "a Login Response without a request")
	loginContinue  = rule("11.12.2", "C and T are both set")
	loginStage     = rule("11.12.3", "a reserved stage, or a next stage that is not behind the present one")
	loginBack      = rule("6.3", "a stage that does not follow the one before")
	loginVersion   = rule("11.12.4", "Version-max and Version-min are not zero")
	loginTSIH      = rule("11.12.6", "Login Requests have different TSIH")
	loginCID       = rule("11.12.7", "Login Requests have different CID")
	loginCmdSN     = rule("4.2.2.1", "Login Requests, which are immediate, have different CmdSN")
	loginNames     = rule("6.3", "the first Login Request names no initiator, or no target")
	loginTransit   = rule("11.13.6", "T is set though the request did not set it")
	loginNSG       = rule("6.3", "the next stage exceeds the one that the initiator stated")
	loginTSIHZero  = rule("11.13.3", "the last Login Response has TSIH 0, or an earlier one another")
	loginStatus    = rule("11.13.5", "a reserved status class")
	loginAfterFail = rule("11.13.5", "a PDU behind a login that has failed")
)

// Keys.
var (
	keyFormat     = rule("6.1", "text that is no list of key=value pairs, each with a null behind it")
	keyAgain      = rule("6.3", "a key is offered or declared again")
	keyRange      = rule("6.2.2", "a value that the key does not have")
	keyChoice     = rule("6.2.1", "the answer is none of the values offered")
	keyResult     = rule("6.2.2", "the answer does not follow from the offer")
	keyUnknown    = rule("6.2", "a key of RFC 7143 is not understood")
	keyUnanswered = rule("6.2.2", "login ends and a key that was offered has no answer")
	keyBursts     = rule("13.14", "FirstBurstLength exceeds MaxBurstLength")
	keyDiscovery  = rule("13.21", "a discovery session with an ErrorRecoveryLevel above 0")
)

// Sequence numbers.
var (
	cmdSNNext     = rule("4.2.2.1", "CmdSN is not the next")
	cmdSNOrder    = rule("4.2.2.1", "commands are not in the order of CmdSN")
	cmdSNCurrent  = rule("4.2.2.1", "an immediate command does not carry the current CmdSN")
	cmdSNWindow   = rule("4.2.2.1", "a command beyond MaxCmdSN")
	expCmdSN      = rule("4.2.2.1", "ExpCmdSN acknowledges commands that were never sent")
	expCmdSNLate  = rule("4.2.2.1", "status of a command that ExpCmdSN does not acknowledge")
	maxCmdSN      = rule("4.2.2.1", "MaxCmdSN is less than ExpCmdSN - 1")
	statSNNext    = rule("4.2.2.2", "StatSN is not the next")
	expStatSN     = rule("4.2.2.2", "ExpStatSN acknowledges status that was never sent")
	tagReserved   = rule("11.2.1.8", "the Initiator Task Tag of a task is 0xffffffff")
	tagInUse      = rule("11.2.1.8", "the Initiator Task Tag of a task that is not over is used again")
	tagUnknown    = rule("11.2.1.8", "the Initiator Task Tag is none of a task")
	logoutMore    = rule("11.14", "a request behind the Logout Request")
	logoutTheEnd  = rule("11.15", "a PDU behind the Logout Response")
	snackLevel    = rule("11.16", "a SNACK at ErrorRecoveryLevel 0")
	afterTaskMgmt = rule("11.5.1", "a response to a task that task management has ended")
)

// Commands and data of the initiator.
var (
	cmdFlags      = rule("11.3.1", "neither W nor F is set, or neither R nor W though data is expected")
	cmdUnsol      = rule("13.10", "unsolicited Data-Out is announced though InitialR2T is Yes")
	cmdImmediate  = rule("13.11", "immediate data though ImmediateData is No")
	cmdFirstBurst = rule("13.14", "unsolicited data exceeds FirstBurstLength")
	cmdTooMuch    = rule("11.3.4", "more data than the Expected Data Transfer Length")
	outUnsol      = rule("4.2.5.2", "data that was not solicited")
	outPart       = rule("4.2.5.2", "unsolicited data ends before FirstBurstLength, or all, is sent")
	outOrder      = rule("4.2.5.2", "unsolicited data is not in the order of the commands")
	outTag        = rule("11.7.4", "a Target Transfer Tag that no R2T has given")
	outLUN        = rule("11.7.4", "the LUN is not that of the R2T")
	outSN         = rule("11.7.5", "DataSN is not the next of its sequence")
	outOffset     = rule("11.7.6", "Buffer Offset does not continue the sequence")
	outRange      = rule("11.8", "data beyond what the R2T asks for")
	outFinal      = rule("11.8", "F is set before, or not with, the last octet that the R2T asks for")
	nopImmediate  = rule("11.18.1", "a NOP-Out without Initiator Task Tag is not immediate")
	nopTag        = rule("11.18.2", "a Target Transfer Tag that no NOP-In has given")
	taskFunction  = rule("11.5.1", "a reserved function")
	logoutReason  = rule("11.14.1", "a reserved reason")
)

// iSER.
var (
	iserShort   = iserRule("9.1", "a Send that ends inside the iSER header or the PDU behind it")
	iserOpcode  = iserRule("9.1", "an unassigned operation code of an iSER message")
	iserZero    = iserRule("9.2", "reserved bits, or the fields of an STag that is not valid, are not zero")
	iserKey     = iserRule("6.3", "iSER though RDMAExtensions is not Yes")
	iserHello   = iserRule("5.1.3", "a Hello or HelloReply that nobody waits for")
	iserVersion = iserRule("9.3",
		"a Hello or HelloReply with another version than 10, reserved bits, or more than a header")
	iserORD    = iserRule("5.1.3", "the iSER-ORD of the HelloReply exceeds the iSER-IRD of the Hello")
	iserData   = iserRule("7.2", "Data-In, R2T or solicited Data-Out in a Send")
	iserNoSTag = iserRule("7.3.1", "a command for solicited data advertises no STag for it")
	iserAdvert = iserRule("9.2", "an STag is advertised by a PDU that moves no such data")
	iserDriver = iserRule("1.4", "an RDMA Write or Read of the initiator: the target drives all data transfer")
	iserSink   = iserRule("7.3.5", "an RDMA Write to an STag that no command under way has advertised for reading")
	iserSource = iserRule("7.3.6", "an RDMA Read from an STag that no command under way has advertised for writing")
	iserRange  = iserRule("7.3.5", "an RDMA Write or Read beyond the buffer that the command has advertised")
	iserEarly  = iserRule("9.5.1", "a SCSI Response before the RDMA Reads of its data are complete")
	iserInv    = iserRule("7.3.2", "a Send invalidates an STag that the answered command has not advertised")
)

func iserRule(section, says string) *clause.Rule { return book.Rule("RFC 7145 section "+section, says) }

// Data and answers of the target.
var (
	inKind      = rule("11.7", "Data-In for a command that does not read")
	inSN        = rule("4.2.2.4", "DataSN or R2TSN is not the next of its command")
	inOffset    = rule("11.7.6", "Buffer Offset does not continue the data")
	inTooMuch   = rule("11.4.5.2", "data beyond the Expected Data Transfer Length")
	inBurst     = rule("11.7.1", "a sequence exceeds MaxBurstLength")
	inStatus    = rule("11.7.3", "S is set without F, or with a status of an error")
	r2tKind     = rule("11.8", "an R2T for a command that does not write")
	r2tTag      = rule("11.8.5", "the Target Transfer Tag of an R2T is 0xffffffff or in use")
	r2tDesired  = rule("11.8.4", "Desired Data Transfer Length is 0 or exceeds MaxBurstLength")
	r2tRange    = rule("11.8.4", "an R2T for more than the Expected Data Transfer Length")
	r2tOffset   = rule("11.8", "R2Ts are not in the order of offsets")
	r2tMany     = rule("13.17", "more R2Ts are outstanding than MaxOutstandingR2T")
	r2tLUN      = rule("4.2.5.3", "the LUN is not that of the command")
	rspFlags    = rule("11.4.1", "overflow and underflow are both set")
	rspCode     = rule("11.4.3", "a reserved response code")
	rspSense    = rule("11.4.7", "CHECK CONDITION without sense data, or with more than the data segment holds")
	rspExpSN    = rule("11.4.8", "ExpDataSN is not the number of R2T and Data-In")
	rspResidual = rule("11.4.5.2", "the residual does not suit the data")
	rspKind     = rule("11.2.1.2", "a response of another kind than its request")
	nopEcho     = rule("11.19", "a NOP-In does not return the data of the NOP-Out")
	nopUnasked  = rule("11.19", "a NOP-In that answers nothing has data, or one that answers has a Target Transfer Tag")
	textFlags   = rule("11.11", "C and F are both set, or the Target Transfer Tag does not suit F")
	textMany    = rule("11.10", "a second Text Request before the first is answered")
	rejectBHS   = rule("11.17.4", "a Reject without the header of the PDU")
)
