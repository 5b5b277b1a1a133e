package ctl

import (
	"tapir/lab/tool/schema"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/uapi/relay"
	"tapir/nic/view"
)

// The tables of an RDMA NIC, for the schemas of tapir show; others have theirs where they are made.
var (
	_ = schema.Add("show", 1, []nicRow{})
	_ = schema.Add("show nic", 1, nicRow{})
	_ = schema.Results("show qp", 1, (*nic.Device).ShowQP, (*nic.Device).ShowRoCEQP)
	_ = schema.Results("show device", 1, (*nic.Device).ShowDevice)
	_ = schema.Results("show gid", 1, (*nic.Device).ShowGID)
	_ = schema.Results("show ah", 1, (*nic.Device).ShowAH)
	_ = schema.Results("show cq", 1, (*nic.Device).ShowCQ)
	_ = schema.Results("show mr", 1, (*nic.Device).ShowMR)
	_ = schema.Results("show mw", 1, (*nic.Device).ShowMW)
	_ = schema.Results("show cep", 1, (*nic.Device).ShowCEP)
	_ = schema.Results("show resource", 1, (*nic.Device).ShowResources)
	_ = schema.Results("show neigh", 1, (*nic.Device).ShowNeighbors)
	_ = schema.Results("show stats", 1, (*nic.Device).ShowStats)
	_ = schema.Results("show params", 1, (*nic.Device).ShowParams)
	_ = schema.Results("set", 1, (*nic.Device).ShowParams)
	_ = schema.Results("show events", 1, (*nic.Device).ShowEvents)
	_ = schema.Results("show log", 1, (*nic.Device).ShowLog)
	_ = schema.Results("show ethtool", 1, (*nic.Device).ShowEthtool)
	_ = schema.Results("show irq", 1, (*fastlinq.Device).ShowIRQ)
	_ = schema.Results("show vport", 1, (*fastlinq.Device).ShowVport)
	_ = schema.Results("show queue", 1, (*fastlinq.Device).ShowQueues)
	_ = schema.Results("show link", 1, (*fastlinq.Device).ShowLink)
	_ = schema.Results("show lldp", 1, (*fastlinq.Device).ShowLLDP)
	_ = schema.Results("show dcb", 1, (*fastlinq.Device).ShowDCB)
	_ = schema.Results("show mfw", 1, (*fastlinq.Device).ShowMFW)
	_ = schema.Results("show ll2", 1, (*fastlinq.Device).ShowLL2)
	_ = schema.Results("show vf", 1, (*fastlinq.Device).ShowVF)
	_ = schema.Results("show nvm", 1, (*fastlinq.Device).ShowNVM)
	_ = schema.Results("show tlv", 1, (*fastlinq.Device).ShowTLV)
	_ = schema.Add("show clients", 1, []relay.ClientInfo{})
	_ = schema.Add("show counters", 1, []view.Counter{})
)
