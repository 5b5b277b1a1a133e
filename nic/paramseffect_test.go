package nic

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/fastlinq/settings"
	faststorage "tapir/nic/fastlinq/storage"
	"tapir/nic/hostfn"
	"tapir/nic/iwarp"
	"tapir/nic/linkmode"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/roce/dcqcn"
	nicsettings "tapir/nic/settings"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/lldp"
)

// Each parameter sets its own field and no other, and shows as no other does but
// for an alias.
func TestParametersReachTheirFields(t *testing.T) {
	tcp := func(p toe.Params) Config { return Config{TCP: toe.Config{Params: p}} }
	iw := func(c iwarp.Config) Config { return Config{IWARP: c} }
	eth := func(e fastlinq.Ethernet) Config { return Config{Hardware: &fastlinq.Config{Ethernet: e}} }
	var ones [l2.KeyLen]byte
	for i := range ones {
		ones[i] = 1
	}
	roceCC := func(p dcqcn.Params) Config { return Config{RDMA: RDMA{DCQCN: p}} }
	adminOf := func(a dcb.Admin) Config { return Config{DCB: nicsettings.DCB{Admin: a}} }
	dcbOf := func(d fastlinq.DCB) Config { return Config{Hardware: &fastlinq.Config{DCB: d}} }
	limits := func(l verbs.Limits) Config { return Config{RDMA: RDMA{Limits: l}} }
	want := map[string]struct {
		value string
		cfg   Config
	}{
		"int_mode":                  {"inta", Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: "inta"}}}},
		"msix_vectors":              {"5", Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Vectors: 5}}}},
		"engines":                   {"2", Config{Hardware: &fastlinq.Config{Engines: 2}}},
		"iwarp_cmt":                 {"1", Config{Hardware: &fastlinq.Config{CMT: fastlinq.CMT{PinIWARP: true}}}},
		"llh_affinity":              {"1:engine1,0:both", Config{Hardware: &fastlinq.Config{CMT: fastlinq.CMT{Affinity: []settings.PPFIDAffinity{{PPFID: 1, Affinity: cmt.Engine1}, {Affinity: cmt.Both}}}}}},
		"llh_filters":               {"1 tcp-dst 3260,2 udp 7:8", Config{Hardware: &fastlinq.Config{CMT: fastlinq.CMT{Filters: []settings.LLHFilter{{PPFID: 1, Filter: cmt.Filter{Kind: cmt.FilterTCPDst, DstPort: 3260}}, {PPFID: 2, Filter: cmt.Filter{Kind: cmt.FilterUDPBoth, SrcPort: 7, DstPort: 8}}}}}}},
		"engine0":                   {"failed", Config{Hardware: &fastlinq.Config{CMT: fastlinq.CMT{States: [2]settings.EngineState{settings.EngineFailed, settings.EngineWorks}}}}},
		"engine1":                   {"no_filters", Config{Hardware: &fastlinq.Config{CMT: fastlinq.CMT{States: [2]settings.EngineState{settings.EngineWorks, settings.EngineUnfiltered}}}}},
		"selftest_fault":            {"memory,nvram", Config{Hardware: &fastlinq.Config{SelftestFault: 1<<selftest.Memory | 1<<selftest.NVM}}},
		"queue_usecs":               {"0:64/200,3:0/511", Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Queues: []fastlinq.QueueUsecs{{Rx: 64, Tx: 200}, {Queue: 3, Tx: 511}}}}}},
		"rx_usecs":                  {"64", Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{RxUsecs: 64}}}},
		"tx_usecs":                  {"64", Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{TxUsecs: 64}}}},
		"loopback_enabled":          {"0", Config{NoLoopback: true}},
		"mpa_crc_required":          {"0", iw(iwarp.Config{CRC: mpa.CRCOptional, CRCRequired: iwarp.Off})},
		"mpa_crc_strict":            {"1", iw(iwarp.Config{CRC: mpa.CRCRefused})},
		"zcopy_tx":                  {"0", iw(iwarp.Config{NoZeroCopy: true})},
		"tcp_nodelay":               {"0", tcp(toe.Params{Nagle: true})},
		"iface_list":                {"tap1, tap2", Config{IfaceList: []string{"tap1", "tap2"}}},
		"mpa_version":               {"1", iw(iwarp.Config{Revision: 1})},
		"peer_to_peer":              {"1", iw(iwarp.Config{PeerToPeer: true})},
		"rtr_type":                  {"read", iw(iwarp.Config{RTR: mpa.RTRRead})},
		"relaxed_ird_negotiation":   {"0", iw(iwarp.Config{StrictReads: true})},
		"try_gso":                   {"1", iw(iwarp.Config{GSO: true})},
		"siw_tcp_nagle":             {"1", tcp(toe.Params{Nagle: true})},
		"mpa_markers":               {"1", iw(iwarp.Config{Markers: true})},
		"mpa_fallback":              {"1", iw(iwarp.Config{Fallback: true})},
		"ooo_placement":             {"0", iw(iwarp.Config{InOrder: true})},
		"ird":                       {"7", iw(iwarp.Config{IRD: 7})},
		"ord":                       {"0", iw(iwarp.Config{ORD: cm.NoReads})},
		"max_ird":                   {"7", limits(verbs.Limits{MaxIRD: 7})},
		"max_ord":                   {"7", limits(verbs.Limits{MaxORD: 7})},
		"mpa_request_timeout":       {"2s", iw(iwarp.Config{RequestTimeout: 2 * time.Second})},
		"mpa_silent_share":          {"20", iw(iwarp.Config{SilentShare: 20})},
		"listen_paused":             {"1", iw(iwarp.Config{ListenPaused: true})},
		"ka_interval":               {"5s", tcp(toe.Params{KeepAliveInterval: 5 * time.Second})},
		"mpa_reply_timeout":         {"2s", iw(iwarp.Config{ReplyTimeout: 2 * time.Second})},
		"close_timeout":             {"2s", iw(iwarp.Config{CloseTimeout: 2 * time.Second})},
		"dprint":                    {"eh,wr", Config{Msglvl: msglog.Msglvl(msglog.Errors | msglog.WR)}},
		"msglvl":                    {"0x40000000", Config{Msglvl: 0x40000000}},
		"first_delay":               {"20ms", iw(iwarp.Config{FirstDelay: 20 * time.Millisecond})},
		"nudge":                     {"0", iw(iwarp.Config{Nudge: iwarp.Never})},
		"send_first":                {"0", iw(iwarp.Config{SendFirst: iwarp.Never})},
		"iwarp_rcv_wnd_size":        {"65536", Config{TCP: toe.Config{RcvWnd: 65536}}},
		"congestion":                {"reno", tcp(toe.Params{Congestion: toe.Reno})},
		"ecn":                       {"ask", tcp(toe.Params{ECN: toe.ECNAsk})},
		"tos":                       {"40", tcp(toe.Params{TOS: 40})},
		"user_timeout":              {"30s", tcp(toe.Params{UserTimeout: 30 * time.Second})},
		"keepalive":                 {"2m", tcp(toe.Params{KeepAlive: 2 * time.Minute})},
		"ka_max_probe_cnt":          {"3", tcp(toe.Params{KeepAliveProbes: 3})},
		"max_fin_rt":                {"4", tcp(toe.Params{FinRetries: 4})},
		"time_wait":                 {"1s", Config{TCP: toe.Config{TimeWait: time.Second}}},
		"phc_oscillator":            {"xo", Config{PHC: PHC{Oscillator: "xo"}}},
		"phc_ppb":                   {"-1.5", Config{PHC: PHC{PPB: -1.5}}},
		"phc_quantum":               {"8ns", Config{PHC: PHC{Quantum: 8}}},
		"phc_jitter":                {"4ns", Config{PHC: PHC{Jitter: 4}}},
		"phc_drift_register":        {"0", Config{PHC: PHC{Exact: true}}},
		"ptp_tx_lose":               {"40", Config{PTP: PTP{TxLose: 40}}},
		"ptp_tx_delay":              {"40", Config{PTP: PTP{TxDelay: 40}}},
		"ptp_tx_duplicate":          {"40", Config{PTP: PTP{TxDuplicate: 40}}},
		"ptp_tx_delay_by":           {"50ms", Config{PTP: PTP{TxDelayBy: 50 * time.Millisecond}}},
		"pkeys":                     {"0x8001,0xffff", Config{RDMA: RDMA{PKeys: []uint16{0x8001, 0xffff}}}},
		"prio_pfc":                  {"3:on", adminOf(dcb.Admin{Port: dcb.Port{Config: dcb.Config{PFC: 8}}})},
		"prio_tc":                   {"3:1", adminOf(dcb.Admin{Port: dcb.Port{Config: dcb.Config{PrioTC: [8]uint8{3: 1}}}, Mapped: true})},
		"tc_tsa":                    {"0:ets", adminOf(dcb.Admin{Port: dcb.Port{Config: dcb.Config{TSA: [8]dcb.TSA{dcb.ETS}}}, Selected: true})},
		"tc_bw":                     {"0:30,1:70", adminOf(dcb.Admin{Port: dcb.Port{Config: dcb.Config{Weight: [8]uint8{30, 70}}}})},
		"tc_maxrate":                {"1:2500M", adminOf(dcb.Admin{Port: dcb.Port{MaxRate: [8]uint32{1: 2_500_000}}})},
		"trust":                     {"dscp", adminOf(dcb.Admin{Port: dcb.Port{TrustDSCP: true}})},
		"prio_buffer":               {"3:1", adminOf(dcb.Admin{Port: dcb.Port{Buffers: dcb.Buffers{Mapped: true, Prio: [8]uint8{3: 1}}}})},
		"buffer_size":               {"3:1M", adminOf(dcb.Admin{Port: dcb.Port{Buffers: dcb.Buffers{Size: [8]uint32{3: 1 << 20}}}})},
		"pfc_prevention_tout":       {"100ms", Config{DCB: nicsettings.DCB{PauseLimit: 100 * time.Millisecond}}},
		"dscp_prio":                 {"26:3", adminOf(dcb.Admin{Port: dcb.Port{DSCP: &dcb.DSCPTable{26: 8 | 3}}})},
		"roce_enable_dcqcn":         {"1", roceCC(dcqcn.Params{Enable: true})},
		"notification_point":        {"0", roceCC(dcqcn.Params{NoNotification: true})},
		"reaction_point":            {"0", roceCC(dcqcn.Params{NoReaction: true})},
		"roce_congestion":           {"aimd", roceCC(dcqcn.Params{Algorithm: dcqcn.AIMD})},
		"dcqcn_cnp_dscp":            {"7", roceCC(dcqcn.Params{CNPDSCP: 7})},
		"dcqcn_cnp_vlan_priority":   {"7", roceCC(dcqcn.Params{CNPPriority: 7})},
		"dcqcn_cnp_send_timeout_us": {"7", roceCC(dcqcn.Params{CNPTimeout: 7})},
		"rl_bc_rate":                {"7000", roceCC(dcqcn.Params{ByteCount: 7000})},
		"rl_max_rate":               {"7", roceCC(dcqcn.Params{MaxRate: 7})},
		"rl_r_ai":                   {"7", roceCC(dcqcn.Params{RAI: 7})},
		"rl_r_hai":                  {"7", roceCC(dcqcn.Params{RHAI: 7})},
		"dcqcn_g":                   {"7", roceCC(dcqcn.Params{G: 7})},
		"dcqcn_k_us":                {"7", roceCC(dcqcn.Params{K: 7})},
		"dcqcn_timeout_us":          {"7", roceCC(dcqcn.Params{Timeout: 7})},
		"gid_types":                 {"v2", Config{RDMA: RDMA{GIDsV2: true}}},
		"personality":               {"eth", Config{RDMA: RDMA{Personality: verbs.Ethernet}}},
		"min_dpis":                  {"7", Config{RDMA: RDMA{MinDPIs: 7}}},
		"num_qps":                   {"7", Config{RDMA: RDMA{NumQPs: 7}}},
		"num_mrs":                   {"7", Config{RDMA: RDMA{NumMRs: 7}}},
		"num_srqs":                  {"7", Config{RDMA: RDMA{NumSRQs: 7}}},
		"max_cnq":                   {"7", limits(verbs.Limits{MaxCNQ: 7})},
		"desired_cnq":               {"7", Config{RDMA: RDMA{DesiredCNQs: 7}}},
		"max_qp_wr":                 {"7", limits(verbs.Limits{MaxQPWR: 7})},
		"max_srq_wr":                {"7", limits(verbs.Limits{MaxSRQWR: 7})},
		"max_cqe":                   {"7", limits(verbs.Limits{MaxCQE: 7})},
		"max_sge":                   {"7", limits(verbs.Limits{MaxSGE: 7})},
		"max_inline":                {"7", limits(verbs.Limits{MaxInline: 7})},
		"rx_mode":                   {"regular", eth(fastlinq.Ethernet{RxMode: settings.RxRegular})},
		"rx_macs":                   {"02:00:00:00:00:07, 02:00:00:00:00:08", eth(fastlinq.Ethernet{Ucast: []ether.Addr{{2, 0, 0, 0, 0, 7}, {2, 0, 0, 0, 0, 8}}})},
		"rx_groups":                 {"01:00:5e:00:00:01", eth(fastlinq.Ethernet{Mcast: []ether.Addr{{1, 0, 0x5e, 0, 0, 1}}})},
		"rx_vlans":                  {"5,4094", eth(fastlinq.Ethernet{VLANs: []uint16{5, 4094}})},
		"channels":                  {"7", eth(fastlinq.Ethernet{Channels: 7})},
		"rx_ring":                   {"128", eth(fastlinq.Ethernet{RxRing: 128})},
		"tx_ring":                   {"8191", eth(fastlinq.Ethernet{TxRing: 8191})},
		"rss_hash":                  {"tcp4,udp6", eth(fastlinq.Ethernet{Hashes: l2.HashIPv4TCP | l2.HashIPv6UDP})},
		"rss_key":                   {strings.Repeat("01", 40), eth(fastlinq.Ethernet{Key: ones})},
		"rss_table":                 {"0,0,3", eth(fastlinq.Ethernet{Table: []int{0, 0, 3}})},
		"ntuple": {"3 udp6 src-ip fd00::1 dst-ip fd00::2 src-port 5 dst-port 6 action 2, 4 tcp4 dst-port 80 action -1", eth(fastlinq.Ethernet{Rules: []hostfn.Rule{
			{Location: 3, Queue: 2, Proto: 17, V6: true, Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2"), SrcPort: 5, DstPort: 6},
			{Location: 4, Drop: true, Proto: 6, DstPort: 80}}})},
		"silent_vlan":    {"1", eth(fastlinq.Ethernet{SilentVLAN: true})},
		"vports":         {"02:07:07:07:07:01/30", eth(fastlinq.Ethernet{Stations: []qede.Station{{MAC: macvlan1, Weight: 30}}})},
		"tx_switching":   {"1", eth(fastlinq.Ethernet{TxSwitching: true})},
		"control_check":  {"type", eth(fastlinq.Ethernet{Control: settings.ControlType})},
		"pvid":           {"9", eth(fastlinq.Ethernet{PVID: 9})},
		"spoof_check":    {"1", eth(fastlinq.Ethernet{SpoofCheck: true})},
		"drop_ttl0":      {"1", eth(fastlinq.Ethernet{DropTTL0: true})},
		"queue_maxrate":  {"100,0,50", eth(fastlinq.Ethernet{TxRates: []int{100, 0, 50}})},
		"tx_maxrate":     {"250", eth(fastlinq.Ethernet{TxMaxRate: 250})},
		"gro_hw":         {"1", eth(fastlinq.Ethernet{GRO: true})},
		"vxlan_port":     {"4789", eth(fastlinq.Ethernet{VXLANPort: 4789})},
		"geneve_port":    {"6081", eth(fastlinq.Ethernet{GenevePort: 6081})},
		"tunnel_class":   {"inner", eth(fastlinq.Ethernet{InnerClass: true})},
		"rx_checksum":    {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoRxChecksum: true}}}},
		"tx_checksum":    {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoTxChecksum: true}}}},
		"tso":            {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoTSO: true}}}},
		"gro":            {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoGRO: true}}}},
		"lro":            {"1", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{LRO: true}}}},
		"rx_vlan_filter": {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoVLANFilter: true}}}},
		"ntuple_filters": {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoNTuple: true}}}},
		"rx_hash":        {"0", Config{Hardware: &fastlinq.Config{Features: fastlinq.Features{NoRxHash: true}}}},
		"media":          {"base-t", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Media: mfw.MediaBaseT}}}},
		"link":           {"down", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Down: true}}}},
		"link_speed":     {"25G", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Speed: linkmode.Speed25G}}}},
		"link_advertise": {"1G,100G", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Advertise: linkmode.Speed1G | linkmode.Speed100G}}}},
		"pause":          {"auto-tx", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Pause: settings.PauseAutoTx}}}},
		"phy_loopback":   {"mac", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Loopback: mfw.LoopbackMAC}}}},
		"eee":            {"off", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{EEE: settings.LinkEEE{Mode: settings.EEEOff}}}}},
		"eee_tx_lpi":     {"0", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{EEE: settings.LinkEEE{NoTxLPI: true}}}}},
		"eee_tx_timer":   {"256", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{EEE: settings.LinkEEE{Timer: 256}}}}},
		"eee_advertise":  {"10G", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{EEE: settings.LinkEEE{Caps: linkmode.EEE10G}}}}},
		"bw_min":         {"7", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{BandwidthMin: 7}}}},
		"ovlan":          {"100", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{OVLAN: 100}}}},
		"ufp_tc":         {"5", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{UFP: settings.UFP{TC: 5}}}}},
		"ufp_pri":        {"os", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{UFP: settings.UFP{OS: true}}}}},
		"bw_max":         {"70", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{BandwidthMax: 70}}}},
		"partner_speeds": {"10G", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Partner: mfw.Partner{Speeds: linkmode.Speed10G}}}}},
		"partner_forced": {"1", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Partner: mfw.Partner{Forced: true}}}}},
		"partner_pause":  {"asymmetric", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Partner: mfw.Partner{NoSymmetric: true, Asymmetric: true}}}}},
		"partner_eee":    {"1G", Config{Hardware: &fastlinq.Config{Link: fastlinq.Link{Partner: mfw.Partner{EEE: linkmode.EEE1G}}}}},
		"wol":            {"g", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{WoL: true}}}},
		"driver":         {"unloaded", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{Unloaded: true}}}},
		"driver_role":    {"kdump", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{CrashKernel: true}}}},
		"chip_fault":     {"dma", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{Chip: settings.FaultDMA}}}},
		"temperature":    {"77", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{Temperature: 77}}}},
		"module":         {"unplugged", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{Unplugged: true}}}},
		"fan":            {"failed", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{FanFailed: true}}}},
		"mfw":            {"stuck", Config{Hardware: &fastlinq.Config{Board: fastlinq.Board{Stuck: true}}}},
		"lldp":           {"nearest-bridge,nearest-customer", dcbOf(fastlinq.DCB{Agents: 5})},
		"lldp_interval":  {"7", dcbOf(fastlinq.DCB{Interval: 7})},
		"lldp_hold":      {"7", dcbOf(fastlinq.DCB{Hold: 7})},
		"lldp_credit":    {"7", dcbOf(fastlinq.DCB{Credit: 7})},
		"lldp_tlvs":      {"180178", dcbOf(fastlinq.DCB{TLVs: []byte{0x18, 1, 'x'}})},
		"lldp_register":  {"7", dcbOf(fastlinq.DCB{Register: 7})},
		"dcbx":           {"cee", dcbOf(fastlinq.DCB{Version: dcbx.CEE})},
		"dcbx_static":    {"1", dcbOf(fastlinq.DCB{Static: true})},
		"dcb_willing":    {"pfc,app", dcbOf(fastlinq.DCB{Willing: settings.WillingPFC | settings.WillingApp})},
		"dcb_app":        {"ethtype:0x8906:3,udp:4791:4", dcbOf(fastlinq.DCB{Apps: []lldp.AppEntry{{Selector: 1, Protocol: 0x8906, Priority: 3}, {Selector: 3, Protocol: 4791, Priority: 4}}})},
		"iwarp_port":     {"5000", dcbOf(fastlinq.DCB{IWARPPort: 5000})},
		"auto_recover":   {"1", Config{Hardware: &fastlinq.Config{Health: fastlinq.Health{AutoRecover: true}}}},
		"grace_period":   {"1m", Config{Hardware: &fastlinq.Config{Health: fastlinq.Health{Grace: time.Minute}}}},
		"fw_load_policy": {"flash", Config{Hardware: &fastlinq.Config{Firmware: fastlinq.Firmware{Policy: settings.LoadFlash}}}},

		"fcoe_is_target":               {"1", fcoeOf(settings.FCoE{Params: faststorage.Params{Target: true}})},
		"fcoe_num_cons":                {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{Conns: 7}})},
		"fcoe_num_tasks":               {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{Tasks: 7}})},
		"fcoe_conn_tasks":              {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{ConnTasks: 7}})},
		"fcoe_sq_num_pbl_pages":        {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{SQPages: 7}})},
		"fcoe_num_cqs":                 {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{Queues: 7}})},
		"fcoe_cq_num_entries":          {"77", fcoeOf(settings.FCoE{Params: faststorage.Params{CQEntries: 77}})},
		"fcoe_rq_num_entries":          {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{RQEntries: 7}})},
		"fcoe_cmdq_num_entries":        {"7", fcoeOf(settings.FCoE{Params: faststorage.Params{CmdQEntries: 7}})},
		"fcoe_mtu":                     {"700", fcoeOf(settings.FCoE{MTU: 700})},
		"iscsi_is_target":              {"1", iscsiOf(settings.ISCSI{Params: faststorage.Params{Target: true}})},
		"iscsi_num_cons":               {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{Conns: 7}})},
		"iscsi_num_tasks":              {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{Tasks: 7}})},
		"iscsi_conn_tasks":             {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{ConnTasks: 7}})},
		"iscsi_num_sq_pages_in_ring":   {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{SQPages: 7}})},
		"iscsi_num_uhq_pages_in_ring":  {"7", iscsiOf(settings.ISCSI{UHQPages: 7})},
		"iscsi_num_queues":             {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{Queues: 7}})},
		"iscsi_cq_num_entries":         {"77", iscsiOf(settings.ISCSI{Params: faststorage.Params{CQEntries: 77}})},
		"iscsi_rq_num_entries":         {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{RQEntries: 7}})},
		"iscsi_cmdq_num_entries":       {"7", iscsiOf(settings.ISCSI{Params: faststorage.Params{CmdQEntries: 7}})},
		"iscsi_max_fin_rt":             {"7", iscsiOf(settings.ISCSI{MaxFinRT: 7})},
		"iscsi_ka_max_probe_cnt":       {"7", iscsiOf(settings.ISCSI{KAMaxProbes: 7})},
		"iscsi_tos":                    {"7", iscsiOf(settings.ISCSI{TOS: 7})},
		"iscsi_two_msl_timer":          {"7s", iscsiOf(settings.ISCSI{TwoMSL: 7 * time.Second})},
		"iscsi_tx_sws_timer":           {"7s", iscsiOf(settings.ISCSI{TxSWS: 7 * time.Second})},
		"iscsi_half_way_close_timeout": {"7s", iscsiOf(settings.ISCSI{HalfWayClose: 7 * time.Second})},
	}
	for _, p := range allParams() {
		w, ok := want[p.Name]
		var got Config
		fastlinqOf(&got)
		fastlinqOf(&w.cfg)
		if err := got.Param(p.Name).Set(w.value); !ok || err != nil || !reflect.DeepEqual(got, w.cfg) {
			t.Errorf("%s=%s: %v, %+v", p.Name, w.value, err, got)
		}
		for _, other := range allParams() {
			if got.Param(other.Name).Get() != other.Get() && !together(p.Name, other.Name) {
				t.Errorf("%s=%s changes %s, and neither is an alias", p.Name, w.value, other.Name)
			}
		}
	}
}

// together tells whether two parameters are one, or parts of one.
func together(names ...string) bool {
	slices.Sort(names)
	switch strings.Join(slices.Compact(names), " ") {
	case names[0], "mpa_crc_required mpa_crc_strict", "dprint msglvl":
		return true
	}
	return slices.ContainsFunc(nicsettings.Aliases[:], func(a param.Alias) bool {
		return slices.Contains(names, a.Name) && slices.Contains(names, a.Of)
	})
}

// An alias sets and shows what its parameter does.
func TestAliases(t *testing.T) {
	for _, a := range nicsettings.Aliases {
		for _, v := range []string{"0", "1"} {
			var cfg Config
			alias, of, want := cfg.Param(a.Name), cfg.Param(a.Of), v
			if a.Inverse {
				want = param.Bit(v == "0")
			}
			if err := alias.Set(v); err != nil || alias.Get() != v || of.Get() != want {
				t.Errorf("%s=%s: %v, %s is %s", a.Name, v, err, a.Of, of.Get())
			}
			if alias.Runtime != of.Runtime || alias.Type != of.Type || alias.Set("maybe") == nil || of.Get() != want {
				t.Errorf("%s and %s differ: %+v, %+v", a.Name, a.Of, alias, of)
			}
		}
	}
}

// setting is a configuration with settings by name, such as int_mode=msi.
func setting(t *testing.T, settings string) (c Config) {
	t.Helper()
	fastlinqOf(&c)
	for s := range strings.FieldsSeq(settings) {
		name, v, _ := strings.Cut(s, "=")
		if err := c.Param(name).Set(v); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// with sets parameters of n while it runs.
func (n *node) with(list ...Setting) {
	n.w.t.Helper()
	if err := n.dev.Set(list...); err != nil {
		n.w.t.Fatal(err)
	}
}

// Without Nagle's algorithm a short message leaves at once, with it only when
// the one before is acknowledged.
func TestNoDelay(t *testing.T) {
	for _, c := range []struct {
		set  Setting
		want uint64
	}{
		{Setting{"tcp_nodelay", "1"}, 2}, {Setting{"tcp_nodelay", "0"}, 1},
		{Setting{"siw_tcp_nagle", "0"}, 2}, {Setting{"siw_tcp_nagle", "1"}, 1},
	} {
		w, a, b := twoNICs(t, Config{})
		a.with(c.set)
		x, s := dial(w, a, b, peer4, 4096)
		w.run(time.Second)
		before := a.counter("tcp_segments_out")
		for range 2 {
			x.post(verbs.OpWrite, 8, s)
			a.dev.Poll(w.now)
		}
		if n := a.counter("tcp_segments_out") - before; n != c.want {
			t.Errorf("%v: %d segments at once, want %d", c.set, n, c.want)
		}
		w.until(time.Second, func() bool { return x.completions() == 2 && a.counter("tcp_segments_out")-before >= 2 })
	}
}

// Parameters of the start-up that are set while the NIC runs decide on the next
// connection: on what its peer reads in the MPA request.
func TestStartupParameters(t *testing.T) {
	up := func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return c.saw(cm.ActiveComplete) }
	for _, c := range []struct {
		name string
		a, b []Setting
		want func(c *rdmaEnd, cep iwarp.CEPInfo) bool
	}{
		{"default", nil, nil, func(c *rdmaEnd, cep iwarp.CEPInfo) bool {
			return up(c, cep) && cep.Revision == 2 && !cep.P2P && !cep.Markers && cep.CRC && !cep.GSO && cep.IRD == 8 && cep.ORD == 8 // what the server names
		}},
		{"mpa_version", []Setting{{"mpa_version", "1"}}, nil, func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.Revision == 1 }},
		{"peer_to_peer", []Setting{{"peer_to_peer", "1"}}, nil, func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.P2P }},
		{"rtr_type", []Setting{{"peer_to_peer", "1"}, {"rtr_type", "send"}}, nil, func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.RTR == "send" }},
		{"rtr_type of the other side", []Setting{{"peer_to_peer", "1"}, {"rtr_type", "send"}}, []Setting{{"rtr_type", "read"}},
			func(c *rdmaEnd, _ iwarp.CEPInfo) bool { return c.saw(cm.Failed) }},
		{"mpa_markers", []Setting{{"mpa_markers", "1"}}, nil, func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.Markers }},
		{"mpa_crc_required", []Setting{{"mpa_crc_required", "0"}}, []Setting{{"mpa_crc_required", "0"}},
			func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && !cep.CRC }},
		{"mpa_crc_strict", nil, []Setting{{"mpa_crc_strict", "1"}}, func(c *rdmaEnd, _ iwarp.CEPInfo) bool { return c.saw(cm.Rejected) }},
		{"try_gso", []Setting{{"try_gso", "1"}}, []Setting{{"try_gso", "1"}}, func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.GSO }},
		{"ird, ord", []Setting{{"ird", "3"}, {"ord", "5"}}, nil, func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.IRD == 5 && cep.ORD == 3 }},
		{"relaxed_ird_negotiation=1", nil, nil, up},
		{"relaxed_ird_negotiation=0", []Setting{{"relaxed_ird_negotiation", "0"}}, nil,
			func(c *rdmaEnd, _ iwarp.CEPInfo) bool { return !c.saw(cm.ActiveComplete) }},
		{"mpa_fallback=0", nil, []Setting{{"mpa_version", "1"}}, func(c *rdmaEnd, _ iwarp.CEPInfo) bool { return !c.saw(cm.ActiveComplete) }},
		{"mpa_fallback=1", []Setting{{"mpa_fallback", "1"}}, []Setting{{"mpa_version", "1"}},
			func(c *rdmaEnd, cep iwarp.CEPInfo) bool { return up(c, cep) && cep.Revision == 1 }},
	} {
		w, a, b := twoNICs(t, Config{})
		a.with(c.a...)
		b.with(c.b...)
		x, err := dialQuietly(w, a, b, peer4)
		if err != nil {
			t.Fatal(err)
		}
		var cep iwarp.CEPInfo
		if list := b.dev.ShowCEP(); len(list) > 0 {
			cep = list[len(list)-1]
		}
		if !c.want(x, cep) {
			t.Errorf("%s: %+v, events %v", c.name, cep, x.events)
		}
	}
}

// What overtakes a lost frame is placed at once, or held.
func TestPlacementParameter(t *testing.T) {
	for value, early := range map[string]bool{"1": true, "0": false} {
		w, a, b := twoNICs(t, Config{})
		b.with(Setting{"ooo_placement", value})
		c, s := dial(w, a, b, peer4, 100_000)
		fill(c.mem, 1)
		c.post(verbs.OpWrite, 8, s) // the peer knows the way now
		w.run(time.Second)
		n := 0
		w.lose = func(from *node, data []byte) bool {
			if from != a || len(data) < 1000 {
				return false
			}
			n++
			return n == 3
		}
		c.post(verbs.OpWrite, 100_000, s)
		w.until(10*time.Second, func() bool { return bytes.Equal(c.mem, s.mem) })
		if got := b.counter("rdma_early_placed") > 0; got != early || (b.counter("rdma_early_refused_off") > 0) == early {
			t.Errorf("ooo_placement=%s: placed early %v", value, got)
		}
	}
}

// The limits of objects are those of the parameters.
func TestObjectLimits(t *testing.T) {
	var cfg Config
	for _, name := range []string{"max_qp_wr", "max_srq_wr", "max_cqe", "max_sge", "max_inline"} {
		if err := cfg.Param(name).Set("3"); err != nil {
			t.Fatal(err)
		}
	}
	_, a, _ := twoNICs(t, cfg)
	pd, err := a.dev.Verbs.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := a.dev.Verbs.CreateCQ(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	qp := func(c verbs.QPConfig) error {
		c.SendCQ, c.RecvCQ = cq, cq
		_, err := pd.CreateQP(c)
		return err
	}
	srq := func(n, sge int) error {
		_, err := pd.CreateSRQ(n, sge)
		return err
	}
	create := func(n int) error {
		_, err := a.dev.Verbs.CreateCQ(n, nil)
		return err
	}
	for name, try := range map[string]func(n int) error{
		"max_cqe":              create,
		"max_qp_wr, sends":     func(n int) error { return qp(verbs.QPConfig{MaxSend: n, MaxRecv: 1}) },
		"max_qp_wr, receives":  func(n int) error { return qp(verbs.QPConfig{MaxSend: 1, MaxRecv: n}) },
		"max_sge":              func(n int) error { return qp(verbs.QPConfig{MaxSend: 1, MaxRecv: 1, MaxSGE: n}) },
		"max_inline":           func(n int) error { return qp(verbs.QPConfig{MaxSend: 1, MaxRecv: 1, MaxInline: n}) },
		"max_srq_wr":           func(n int) error { return srq(n, 1) },
		"max_sge, shared ones": func(n int) error { return srq(1, n) },
	} {
		if most, over := try(3), try(4); most != nil || !errors.Is(over, verbs.ErrInvalid) {
			t.Errorf("%s: 3: %v, 4: %v", name, most, over)
		}
	}
}

// fcoeOf has parameters of the FCoE function, iscsiOf those of the iSCSI function.
func fcoeOf(f settings.FCoE) Config { return Config{Hardware: &fastlinq.Config{FCoE: f}} }

// iscsiOf has them.
func iscsiOf(i settings.ISCSI) Config { return Config{Hardware: &fastlinq.Config{ISCSI: i}} }
