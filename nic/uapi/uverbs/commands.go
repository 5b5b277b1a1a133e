package uverbs

import "tapir/nic/uapi/abi"

// commands are those of the plain form by number (enum ib_uverbs_write_cmds).
// What has no row the kernel does not know either; those that it leaves out are
// the HCA driver kit's.
var commands = [...]command{
	abi.CmdGetContext:        {name: "GET_CONTEXT", in: 8, out: 8, uhw: true, first: true, serve: getContext},
	abi.CmdQueryDevice:       {name: "QUERY_DEVICE", in: 8, out: deviceAttrLen, serve: queryDevice},
	abi.CmdQueryPort:         {name: "QUERY_PORT", in: 16, out: portAttrLen, serve: queryPort},
	abi.CmdAllocPD:           {name: "ALLOC_PD", in: 8, out: 4, uhw: true, serve: allocPD},
	abi.CmdDeallocPD:         {name: "DEALLOC_PD", in: 4, serve: ends[*pd](0)},
	abi.CmdCreateAH:          {name: "CREATE_AH", in: 56, out: 4, uhw: true, serve: fabric(createAH)},
	abi.CmdDestroyAH:         {name: "DESTROY_AH", in: 4, serve: fabric(ends[*ah](0))},
	abi.CmdRegMR:             {name: "REG_MR", in: 40, out: 12, uhw: true, serve: regMR},
	abi.CmdReregMR:           {name: "REREG_MR", in: 48, out: 8, uhw: true, serve: about(8, reregMR)},
	abi.CmdDeregMR:           {name: "DEREG_MR", in: 4, serve: ends[*mr](0)},
	abi.CmdAllocMW:           {name: "ALLOC_MW", in: 16, out: 8, uhw: true, serve: about(8, allocMW)},
	abi.CmdDeallocMW:         {name: "DEALLOC_MW", in: 4, serve: ends[*mw](0)},
	abi.CmdCreateCompChannel: {name: "CREATE_COMP_CHANNEL", in: 8, out: 4, serve: createCompChannel},
	abi.CmdCreateCQ:          {name: "CREATE_CQ", in: 32, out: 8, uhw: true, serve: createCQ},
	abi.CmdResizeCQ:          {name: "RESIZE_CQ", in: 16, out: 8, uhw: true, serve: about(8, resizeCQ)},
	abi.CmdDestroyCQ:         {name: "DESTROY_CQ", in: 16, out: 8, serve: ends[*cq](8)},
	abi.CmdPollCQ:            {name: "POLL_CQ", in: 16, out: 8, serve: about(8, pollCQ)},
	abi.CmdReqNotifyCQ:       {name: "REQ_NOTIFY_CQ", in: 8, serve: about(0, reqNotifyCQ)},
	abi.CmdCreateQP:          {name: "CREATE_QP", in: 56, out: createQPAnswerLen, uhw: true, serve: createQP},
	abi.CmdQueryQP:           {name: "QUERY_QP", in: 16, out: qpAttrLen, uhw: true, serve: about(8, queryQP)},
	abi.CmdModifyQP:          {name: "MODIFY_QP", in: modifyQPLen, uhw: true, serve: modifyQP},
	abi.CmdDestroyQP:         {name: "DESTROY_QP", in: 16, out: 4, serve: ends[*qp](8)},
	abi.CmdPostSend:          {name: "POST_SEND", in: 24, out: 4, serve: about(8, postSend)},
	abi.CmdPostRecv:          {name: "POST_RECV", in: 24, out: 4, serve: about(8, postRecv)},
	abi.CmdAttachMcast:       {name: "ATTACH_MCAST", in: 24, uhw: true, serve: fabric(about(16, attachMcast))},
	abi.CmdDetachMcast:       {name: "DETACH_MCAST", in: 24, uhw: true, serve: fabric(about(16, detachMcast))},
	abi.CmdCreateSRQ:         {name: "CREATE_SRQ", in: 32, out: srqAnswerLen, uhw: true, serve: createSRQ},
	abi.CmdModifySRQ:         {name: "MODIFY_SRQ", in: 16, uhw: true, serve: about(0, modifySRQ)},
	abi.CmdQuerySRQ:          {name: "QUERY_SRQ", in: 16, out: 16, uhw: true, serve: about(8, querySRQ)},
	abi.CmdDestroySRQ:        {name: "DESTROY_SRQ", in: 16, out: 4, serve: ends[*srq](8)},
	abi.CmdPostSRQRecv:       {name: "POST_SRQ_RECV", in: 24, out: 4, serve: about(8, postSRQRecv)},
	abi.CmdOpenXRCD:          {name: "OPEN_XRCD", in: 16, out: 4, uhw: true, serve: fabric(openXRCD)},
	abi.CmdCloseXRCD:         {name: "CLOSE_XRCD", in: 4, serve: fabric(ends[*xrcd](0))},
	abi.CmdCreateXSRQ:        {name: "CREATE_XSRQ", in: 48, out: srqAnswerLen, uhw: true, serve: createXSRQ},
	abi.CmdAllocRDD:          {name: "ALLOC_RDD", in: 16, out: 4, serve: about(8, allocRDD)},
	abi.CmdRegPages:          {name: "REG_PAGES", in: 64, out: 12, uhw: true, serve: about(32, regPages)},
	abi.CmdRegShared:         {name: "REG_SHARED", in: 32, out: 12, serve: about(16, regShared)},
	abi.CmdCreateCQOfPD:      {name: "CREATE_CQ_OF_PD", in: 40, out: 8, uhw: true, serve: about(32, createCQOfPD)},
	abi.CmdOpenQP:            {name: "OPEN_QP", in: 32, out: createQPAnswerLen, uhw: true, serve: unsupported},
}

// extended are those of the extended form (IB_USER_VERBS_EX_CMD_*).
var extended = [...]command{
	abi.CmdQueryDevice: {name: "EX_QUERY_DEVICE", in: 8, least: 8, out: deviceAttrLen + 8, serve: queryDeviceEx},
	abi.CmdCreateCQ:    {name: "EX_CREATE_CQ", in: 32, least: 32, out: 16, serve: createCQEx},
	abi.CmdCreateQP:    {name: "EX_CREATE_QP", in: 64, least: 56, out: createQPAnswerLen + 8, serve: createQPEx},
	abi.CmdModifyQP:    {name: "EX_MODIFY_QP", in: modifyQPLen + 8, least: modifyQPLen, out: 8, serve: modifyQPEx},
	57:                 {name: "EX_MODIFY_CQ", in: 16, serve: unsupported},
}
