package nvmf

import "tapir/lab/tool/inspect/clause"

var book clause.Book

// Rules lists the rules of NVMe over RDMA in the order of the layers.
func Rules() []*clause.Rule { return book }

// rdma is a rule of the NVM Express RDMA transport specification 1.0, base one of the NVM Express
// base specification 2.0.
func rdma(section, says string) *clause.Rule {
	return book.Rule("NVMe RDMA transport section "+section, says)
}
func base(section, says string) *clause.Rule { return book.Rule("NVMe base section "+section, says) }

// Connections and capsules.
var (
	cmFormat   = rdma("3.1", "the private data of a request is shorter than 32 octets or not of format 0")
	cmCntlID   = rdma("3.1", "the private data names a controller though it is for the admin queue")
	cmQueue    = rdma("3.1", "the Queue ID of Connect is not that of the private data")
	cmSize     = rdma("3.1", "HSQSIZE of the private data is not SQSIZE of Connect")
	hostSends  = rdma("3.3", "a host sends a command capsule by Send with Invalidate")
	hostDrives = rdma("3.3", "an RDMA Write or Read of the host: the controller begins all of them")
	cmdShort   = rdma("3.3", "a command capsule shorter than 64 octets")
	cmdLong    = rdma("3.3", "a capsule with data in the admin queue")
	rspLength  = rdma("3.3", "a response capsule of another length than 16 octets")
	sglKind    = rdma("3.3", "an SGL descriptor that RDMA does not have, or that the queue does not allow")
	sglCapsule = rdma("3.3", "data in the capsule beyond its end")
)

// Memory of the host.
var (
	memKey   = rdma("3.6", "an RDMA Write or Read with a key of no command under way")
	memRange = rdma("3.6", "an RDMA Write or Read beyond the memory that the command's SGL describes")
	memWrite = rdma("3.3", "an RDMA Write to memory of a command that does not move data to the host")
	memRead  = rdma("3.3", "an RDMA Read of memory of a command that does not move data to the controller")
	memEarly = rdma("3.3", "a completion before the RDMA Reads of the command are answered")
	memLess  = rdma("3.3", "success though not all data of the command was moved")
	memInv   = rdma("3.6", "a key is invalidated that the last keyed SGL of the command does not give up")
)

// Queues.
var (
	connectFirst  = base("6.3", "a command before Connect")
	connectWait   = base("6.3", "a command before Connect is answered")
	connectAgain  = base("6.3", "a second Connect in a queue")
	connectFormat = base("6.3", "a Connect with another record format, or a queue of no entry")
	property      = base("6.6", "a property in an I/O queue, or of another length than 4 or 8 or place")
	cmdPSDT       = base("3.3.3.1", "the command has PRPs, or reserved bits, where it needs an SGL")
	cmdID         = base("3.3.3.1", "the identifier of a command under way is used again")
	queueFull     = base("3.3.2", "more commands are under way than the queue has entries")
	cqeID         = base("3.3.3.2", "a completion of a command that is not under way")
	cqeQueue      = base("3.3.3.2", "the SQ Identifier is not that of the queue")
	cqeHead       = base("3.3.3.2", "the SQ Head Pointer is beyond the queue or the commands sent")
	cqePhase      = base("3.3.3.2", "the Phase Tag, which is reserved in Fabrics, is set")
)
