package abi

// Commands of a uverbs file (enum ib_uverbs_write_cmds).
const (
	CmdGetContext        = 0
	CmdQueryDevice       = 1
	CmdQueryPort         = 2
	CmdAllocPD           = 3
	CmdDeallocPD         = 4
	CmdCreateAH          = 5
	CmdDestroyAH         = 8
	CmdRegMR             = 9
	CmdReregMR           = 11
	CmdDeregMR           = 13
	CmdAllocMW           = 14
	CmdDeallocMW         = 16
	CmdCreateCompChannel = 17
	CmdCreateCQ          = 18
	CmdResizeCQ          = 19
	CmdDestroyCQ         = 20
	CmdPollCQ            = 21
	CmdReqNotifyCQ       = 23
	CmdCreateQP          = 24
	CmdQueryQP           = 25
	CmdModifyQP          = 26
	CmdDestroyQP         = 27
	CmdPostSend          = 28
	CmdPostRecv          = 29
	CmdAttachMcast       = 30
	CmdDetachMcast       = 31
	CmdCreateSRQ         = 32
	CmdModifySRQ         = 33
	CmdQuerySRQ          = 34
	CmdDestroySRQ        = 35
	CmdPostSRQRecv       = 36
	CmdOpenXRCD          = 37
	CmdCloseXRCD         = 38
	CmdCreateXSRQ        = 39
	CmdOpenQP            = 40
)

// Commands of verbs of the HCA driver kit that the kernel has not, with numbers
// that it leaves free.
const (
	CmdAllocRDD     = 46
	CmdRegPages     = 47
	CmdRegShared    = 48
	CmdCreateCQOfPD = 49
)
