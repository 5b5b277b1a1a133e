package uverbs

const getContextNumber = 0

// commands are those of the plain form by number (enum ib_uverbs_write_cmds).
// What has no row the kernel does not know either.
var commands = [...]command{
	getContextNumber: {name: "GET_CONTEXT", in: 8, out: 8, uhw: true, serve: getContext},
	1:                {name: "QUERY_DEVICE", in: 8, out: deviceAttrLen, serve: queryDevice},
	2:                {name: "QUERY_PORT", in: 16, out: portAttrLen, serve: queryPort},
	3:                {name: "ALLOC_PD", in: 8, out: 4, uhw: true, serve: allocPD},
	4:                {name: "DEALLOC_PD", in: 4, serve: deallocPD},
	5:                {name: "CREATE_AH", in: 56, out: 4, uhw: true, serve: unsupported},
	8:                {name: "DESTROY_AH", in: 4, serve: unsupported},
	9:                {name: "REG_MR", in: 40, out: 12, uhw: true, serve: regMR},
	11:               {name: "REREG_MR", in: 48, out: 8, uhw: true, serve: reregMR},
	13:               {name: "DEREG_MR", in: 4, serve: deregMR},
	14:               {name: "ALLOC_MW", in: 16, out: 8, uhw: true, serve: allocMW},
	16:               {name: "DEALLOC_MW", in: 4, serve: deallocMW},
	17:               {name: "CREATE_COMP_CHANNEL", in: 8, out: 4, serve: createCompChannel},
	18:               {name: "CREATE_CQ", in: 32, out: 8, uhw: true, serve: createCQ},
	19:               {name: "RESIZE_CQ", in: 16, out: 8, uhw: true, serve: resizeCQ},
	20:               {name: "DESTROY_CQ", in: 16, out: 8, serve: destroyCQ},
	21:               {name: "POLL_CQ", in: 16, out: 8, serve: pollCQ},
	23:               {name: "REQ_NOTIFY_CQ", in: 8, serve: reqNotifyCQ},
	24:               {name: "CREATE_QP", in: 56, out: createQPAnswerLen, uhw: true, serve: createQP},
	25:               {name: "QUERY_QP", in: 16, out: qpAttrLen, uhw: true, serve: queryQP},
	26:               {name: "MODIFY_QP", in: modifyQPLen, uhw: true, serve: modifyQP},
	27:               {name: "DESTROY_QP", in: 16, out: 4, serve: destroyQP},
	28:               {name: "POST_SEND", in: 24, out: 4, serve: postSend},
	29:               {name: "POST_RECV", in: 24, out: 4, serve: postRecv},
	30:               {name: "ATTACH_MCAST", in: 24, uhw: true, serve: unsupported},
	31:               {name: "DETACH_MCAST", in: 24, uhw: true, serve: unsupported},
	32:               {name: "CREATE_SRQ", in: 32, out: srqAnswerLen, uhw: true, serve: createSRQ},
	33:               {name: "MODIFY_SRQ", in: 16, uhw: true, serve: modifySRQ},
	34:               {name: "QUERY_SRQ", in: 16, out: 16, uhw: true, serve: querySRQ},
	35:               {name: "DESTROY_SRQ", in: 16, out: 4, serve: destroySRQ},
	36:               {name: "POST_SRQ_RECV", in: 24, out: 4, serve: postSRQRecv},
	37:               {name: "OPEN_XRCD", in: 16, out: 4, uhw: true, serve: unsupported},
	38:               {name: "CLOSE_XRCD", in: 4, serve: unsupported},
	39:               {name: "CREATE_XSRQ", in: 48, out: srqAnswerLen, uhw: true, serve: createXSRQ},
	40:               {name: "OPEN_QP", in: 32, out: createQPAnswerLen, uhw: true, serve: unsupported},
}

// extended are those of the extended form (IB_USER_VERBS_EX_CMD_*).
var extended = [...]command{
	1:  {name: "EX_QUERY_DEVICE", in: 8, least: 8, out: deviceAttrLen + 8, serve: queryDeviceEx},
	18: {name: "EX_CREATE_CQ", in: 32, least: 32, out: 16, serve: createCQEx},
	24: {name: "EX_CREATE_QP", in: 64, least: 56, out: createQPAnswerLen + 8, serve: createQPEx},
	26: {name: "EX_MODIFY_QP", in: modifyQPLen + 8, least: modifyQPLen, out: 8, serve: modifyQPEx},
	57: {name: "EX_MODIFY_CQ", in: 16, serve: unsupported},
}
