package mfw

import (
	"fmt"

	"tapir/wire/enum"
)

// Command is the upper half of a driver mailbox header: what the driver wants.
type Command uint32

// The commands that the firmware knows. It answers Unsupported to any other.
const (
	CmdNVMPutFileBegin     Command = 0x00010000
	CmdNVMPutFileData      Command = 0x00020000
	CmdNVMGetFileAtt       Command = 0x00030000
	CmdNVMRead             Command = 0x00050000
	CmdNVMWrite            Command = 0x00060000
	CmdSetVersion          Command = 0x000f0000
	CmdMCPHalt             Command = 0x00100000
	CmdSetVMAC             Command = 0x00110000
	CmdGetVMAC             Command = 0x00120000
	CmdGetStats            Command = 0x00130000
	CmdTransceiverRead     Command = 0x00160000
	CmdGPIORead            Command = 0x001c0000
	CmdGPIOWrite           Command = 0x001d0000
	CmdBISTTest            Command = 0x001e0000
	CmdGetTemperature      Command = 0x001f0000
	CmdSetLEDMode          Command = 0x00200000
	CmdResource            Command = 0x00230000
	CmdMdump               Command = 0x00250000
	CmdGPIOInfo            Command = 0x00270000
	CmdGetTLVDone          Command = 0x002f0000
	CmdFeatureSupport      Command = 0x00300000
	CmdGetFeatureSupport   Command = 0x00310000
	CmdGetNVMOption        Command = 0x003e0000
	CmdSetNVMOption        Command = 0x003f0000
	CmdInitiatePFFLR       Command = 0x02010000
	CmdLoadReq             Command = 0x10000000
	CmdLoadDone            Command = 0x11000000
	CmdCancelLoadReq       Command = 0x13000000
	CmdUnloadReq           Command = 0x20000000
	CmdUnloadDone          Command = 0x21000000
	CmdInitPHY             Command = 0x22000000
	CmdLinkReset           Command = 0x23000000
	CmdSetLLDP             Command = 0x24000000
	CmdRegisterLLDP        Command = 0x24100000
	CmdSetDCBX             Command = 0x25000000
	CmdUpdateCurrentConfig Command = 0x26000000
	CmdUpdateBusNum        Command = 0x27000000
	CmdUpdateBootProgress  Command = 0x28000000
	CmdUpdateStormFW       Command = 0x29000000
	CmdNIGDrain            Command = 0x30000000
	CmdUpdateDriverState   Command = 0x31000000
	CmdBWUpdateAck         Command = 0x32000000
	CmdUpdateMTU           Command = 0x33000000
	CmdGetResourceAlloc    Command = 0x34000000
	CmdSetResourceValue    Command = 0x35000000
	CmdUpdateWoL           Command = 0x38000000
	CmdUpdateESwitch       Command = 0x39000000
	CmdSTagUpdateAck       Command = 0x3b000000
)

// String is the name of the guide's constant, without its prefix.
func (c Command) String() string {
	if s, ok := commandNames[c]; ok {
		return s
	}
	return fmt.Sprintf("command %#08x", uint32(c))
}

var commandNames = map[Command]string{
	CmdNVMPutFileBegin: "NVM_PUT_FILE_BEGIN", CmdNVMPutFileData: "NVM_PUT_FILE_DATA",
	CmdNVMGetFileAtt: "NVM_GET_FILE_ATT",
	CmdNVMRead:       "NVM_READ_NVRAM", CmdNVMWrite: "NVM_WRITE_NVRAM", CmdSetVersion: "SET_VERSION",
	CmdMCPHalt: "MCP_HALT",
	CmdSetVMAC: "SET_VMAC", CmdGetVMAC: "GET_VMAC", CmdGetStats: "GET_STATS", CmdTransceiverRead: "TRANSCEIVER_READ",
	CmdGPIORead: "GPIO_READ", CmdGPIOWrite: "GPIO_WRITE", CmdGPIOInfo: "GPIO_INFO", CmdBISTTest: "BIST_TEST",
	CmdGetTemperature: "GET_TEMPERATURE", CmdSetLEDMode: "SET_LED_MODE", CmdResource: "RESOURCE_CMD",
	CmdMdump:      "MDUMP_CMD",
	CmdGetTLVDone: "GET_TLV_DONE", CmdFeatureSupport: "FEATURE_SUPPORT",
	CmdGetFeatureSupport: "GET_MFW_FEATURE_SUPPORT",
	CmdInitiatePFFLR:     "INITIATE_PF_FLR", CmdLoadReq: "LOAD_REQ", CmdLoadDone: "LOAD_DONE",
	CmdCancelLoadReq: "CANCEL_LOAD_REQ",
	CmdUnloadReq:     "UNLOAD_REQ", CmdUnloadDone: "UNLOAD_DONE", CmdInitPHY: "INIT_PHY", CmdLinkReset: "LINK_RESET",
	CmdUpdateCurrentConfig: "OV_UPDATE_CURR_CFG", CmdUpdateBusNum: "OV_UPDATE_BUS_NUM",
	CmdUpdateBootProgress: "OV_UPDATE_BOOT_PROGRESS", CmdUpdateStormFW: "OV_UPDATE_STORM_FW_VER",
	CmdNIGDrain:          "NIG_DRAIN",
	CmdUpdateDriverState: "OV_UPDATE_DRIVER_STATE", CmdBWUpdateAck: "BW_UPDATE_ACK",
	CmdSTagUpdateAck:    "S_TAG_UPDATE_ACK",
	CmdUpdateMTU:        "OV_UPDATE_MTU",
	CmdGetResourceAlloc: "GET_RESOURCE_ALLOC", CmdSetResourceValue: "SET_RESOURCE_VALUE", CmdUpdateWoL: "OV_UPDATE_WOL",
	CmdUpdateESwitch: "OV_UPDATE_ESWITCH_MODE", CmdGetNVMOption: "GET_NVM_CFG_OPTION",
	CmdSetNVMOption: "SET_NVM_CFG_OPTION", CmdSetLLDP: "SET_LLDP", CmdRegisterLLDP: "REGISTER_LLDP_TLVS_RX",
	CmdSetDCBX: "SET_DCBX",
}

// Response is the upper half of a firmware mailbox header: the answer.
type Response uint32

// The answers.
const (
	Unsupported           Response = 0
	NVMOK                 Response = 0x00010000
	TransceiverNotPresent Response = 0x00020000
	MdumpInvalidCmd       Response = 0x00030000
	OK                    Response = 0x00160000
	Error                 Response = 0x00170000
	NVMInvalidDir         Response = 0x00050000
	NVMFileNotFound       Response = 0x000c0000
	NVMOperationFailed    Response = 0x000d0000
	NVMBadOffset          Response = 0x000f0000
	NVMBadSignature       Response = 0x00100000
	NVMPutFileFinishOK    Response = 0x00400000
	LoadEngine            Response = 0x10100000
	LoadPort              Response = 0x10110000
	LoadFunction          Response = 0x10120000
	RefusedPDA            Response = 0x10200000
	RefusedHSI1           Response = 0x10210000
	RefusedDiag           Response = 0x10220000
	RefusedHSI            Response = 0x10230000
	RefusedRequiresForce  Response = 0x10300000
	RefusedReject         Response = 0x10310000
	LoadDone              Response = 0x11100000
	UnloadEngine          Response = 0x20110000
	UnloadPort            Response = 0x20120000
	UnloadFunction        Response = 0x20130000
	UnloadDone            Response = 0x21100000
	InitPHYDone           Response = 0x21200000
	InitPHYInvalidArgs    Response = 0x21300000
	LinkResetDone         Response = 0x23000000
	LLDPUnsupportedAgent  Response = 0x24010000
	NIGDrainDone          Response = 0x30000000
	ResourceAllocOK       Response = 0x34000000
	ResourceAllocUnknown  Response = 0x35000000
	ResourceAllocDenied   Response = 0x36000000 // DEPRECATED: the firmware's share stands
)

// Message is a kind of message from the firmware to a driver: its place among
// the producers.
type Message uint8

// The messages, in the order of the firmware mailbox.
const (
	MsgLinkChange Message = iota
	MsgFLRAckFailed
	MsgVFDisabled
	MsgLLDPDataUpdated
	MsgDCBXRemoteMIB
	MsgDCBXOperationalMIB
	MsgErrorRecovery
	MsgBWUpdate
	MsgSTagUpdate
	MsgGetLANStats
	MsgGetFCoEStats
	MsgGetISCSIStats
	MsgGetRDMAStats
	MsgFailureDetected
	MsgTransceiverChange
	MsgCriticalError
	MsgEEEComplete
	MsgGetTLVReq
	MsgOEMCfgUpdate
	MsgLLDPReceivedTLVs
	NumMessages
)

var messageNames = [NumMessages]string{
	"LINK_CHANGE", "FLR_FW_ACK_FAILED", "VF_DISABLED", "LLDP_DATA_UPDATED", "DCBX_REMOTE_MIB_UPDATED",
	"DCBX_OPERATIONAL_MIB_UPDATED", "ERROR_RECOVERY", "BW_UPDATE", "S_TAG_UPDATE", "GET_LAN_STATS", "GET_FCOE_STATS",
	"GET_ISCSI_STATS", "GET_RDMA_STATS", "FAILURE_DETECTED", "TRANSCEIVER_STATE_CHANGE", "CRITICAL_ERROR_OCCURRED",
	"EEE_NEGOTIATION_COMPLETE", "GET_TLV_REQ", "OEM_CFG_UPDATE", "LLDP_RECEIVED_TLVS_UPDATED",
}

func (m Message) String() string {
	return enum.Name(messageNames[:], m, "message %d")
}

// Role says which kind of driver loads.
type Role uint8

// The roles of LOAD_REQ.
const (
	RoleNone Role = iota
	RolePreboot
	RoleOS
	RoleKDUMP
)

func (r Role) String() string {
	return [...]string{"NONE", "PREBOOT", "OS", "KDUMP"}[min(r, RoleKDUMP)]
}

// Force says what a LOAD_REQ may push aside.
type Force uint8

// The force commands of LOAD_REQ.
const (
	ForceNone Force = iota
	ForcePF
	ForceAll
)

// Lock time-outs of LOAD_REQ, in seconds; 1 to 254 stand for themselves.
const (
	LockDefault = 0
	LockNone    = 255 // never
)

// WoL is the parameter of UNLOAD_REQ and of OV_UPDATE_WOL.
type WoL uint8

// What the driver wants of a magic packet.
const (
	WoLUnknown WoL = iota
	WoLMCP         // as the NVM has it: the default
	WoLDisabled
	WoLEnabled
)

func (w WoL) String() string {
	return [...]string{"unknown", "default", "disabled", "enabled"}[min(w, WoLEnabled)]
}

// DriverState is what a driver says of itself.
type DriverState uint8

// The driver states.
const (
	DriverUnknown DriverState = 1 + iota
	DriverNotLoaded
	DriverLoading
	DriverDisabled
	DriverActive
)

func (s DriverState) String() string {
	return [...]string{"", "UNKNOWN", "NOT_LOADED", "LOADING", "DISABLED", "ACTIVE"}[min(s, DriverActive)]
}

// ESwitch is the mode of the embedded switch.
type ESwitch uint8

// The modes.
const (
	ESwitchNone ESwitch = iota
	ESwitchVEB
	ESwitchVEPA
)

func (e ESwitch) String() string { return [...]string{"none", "veb", "vepa"}[min(e, ESwitchVEPA)] }

// Client is who changed the configuration.
type Client uint8

// The clients of OV_UPDATE_CURR_CFG.
const (
	ClientOS Client = 1 + iota
	ClientVendor
	ClientOther
	ClientVCCLP
	ClientCNU
	ClientDCI
	ClientHII
)

// LED is the mode of a port's light.
type LED uint8

// The modes.
const (
	LEDOper LED = iota
	LEDOn
	LEDOff
)

func (l LED) String() string { return [...]string{"oper", "on", "off"}[min(l, LEDOff)] }

// Protocol is what a function does beside Ethernet.
type Protocol uint8

// The protocols of func_info.
const (
	ProtocolEthernet Protocol = iota
	ProtocolISCSI
	ProtocolFCoE
	ProtocolRoCE
)

// Features are optional abilities, of firmware and driver.
type Features uint32

// The features.
const (
	FeatureSmartLinQ   Features = 1 << 0
	FeatureEEE         Features = 1 << 1
	FeatureLoadTimeout Features = 1 << 2
)
