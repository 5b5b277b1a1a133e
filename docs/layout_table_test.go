package docs

// line says what the packages of a path may import of this module: packages
// of these directories and below. A path that ends in "/..." is the directory
// and all below it; the longest path that matches a package counts.
type line struct {
	path string
	may  []string
}

var (
	protocols = []string{"wire", "mpa", "ddp", "rdmap", "opa", "vnic", "ptp"}
	// leaves are the bytes, what a NIC counts, logs and paces, its traffic classes, and its keys.
	leaves = []string{"wire", "nic/dcb", "nic/linkmode", "nic/msglog", "nic/nicdrop", "nic/pacing", "nic/secret"}
	// device is what programs on a NIC and its kernel interfaces may know of it.
	device = append([]string{"nic/verbs", "nic/cm", "nic/al"}, leaves...)
	// product is everything but the commands and what only tests use.
	product = append([]string{"nic", "lab/conf", "lab/topo", "lab/node", "lab/run", "lab/host", "lab/tool"}, protocols...)
)

func and(a []string, b ...string) []string { return append(b, a...) }

// layout is the table of allowed imports, from the bottom to the top.
var layout = []line{
	{".", nil},
	{"wire/...", []string{"wire"}},
	{"mpa", []string{"wire"}},
	{"ddp", []string{"wire"}},
	{"rdmap", []string{"wire", "ddp"}},
	{"opa/...", []string{"wire", "opa"}},
	{"vnic/...", []string{"wire", "opa", "vnic"}},
	{"ptp/...", []string{"wire", "ptp"}},

	{"nic/dcb", nil},
	{"nic/dcbx", []string{"wire", "nic/dcb"}},
	{"nic/lldp", []string{"wire"}},
	{"nic/linkmode", nil},
	{"nic/secret", nil},
	{"nic/msglog", []string{"wire"}},
	{"nic/nicdrop", []string{"wire"}},
	{"nic/pacing", []string{"wire"}},
	{"nic/buf", []string{"wire"}},
	{"nic/tap", []string{"wire"}},
	{"nic/tap/...", []string{"wire", "nic/tap"}},
	{"nic/sched", nil},
	{"nic/loop", []string{"wire", "nic/buf", "nic/sched", "nic/tap"}},
	{"nic/toe/...", []string{"wire", "nic/toe", "nic/pacing"}},
	{"nic/verbs/...", and(leaves, "nic/verbs")},
	{"nic/cm", and(leaves, "nic/verbs")},
	{"nic/al", device},
	{"nic/iwarp", and(leaves, "mpa", "ddp", "rdmap", "nic/cm", "nic/toe", "nic/verbs")},
	{"nic/roce", and(leaves, "nic/roce/dcqcn", "nic/verbs")},
	{"nic/roce/dcqcn", []string{"wire"}},
	{"nic/roce/gid", []string{"wire", "nic/verbs"}},
	{"nic/roce/ibcm", and(leaves, "nic/cm", "nic/roce", "nic/verbs")},
	{"nic/scsi", []string{"wire"}},
	{"nic/iscsi", []string{"wire", "nic/scsi", "nic/iscsi/keys"}},
	{"nic/iscsi/keys", []string{"wire"}},
	{"nic/iser", and(device, "nic/iscsi")},
	{"nic/nvme", and(device, "nic/scsi")},
	{"nic/fcoe", []string{"wire", "nic/scsi"}},
	{"nic/ptp", []string{"wire", "ptp", "nic/port", "nic/ip"}},
	{"nic/port/...", and(leaves, "ptp/clock", "nic/view")},
	{"nic/ip/...", and(leaves, "nic/port")},
	{"nic/hostfn/...", and(leaves, "nic/port", "nic/ip")},
	{"nic/transport", and(leaves, "nic/cm", "nic/fcoe", "nic/port", "nic/ip", "nic/roce", "nic/roce/dcqcn", "nic/toe",
		"nic/verbs", "nic/view")},
	{"nic/param", []string{"wire"}},
	{"nic/view", []string{"wire", "nic/dcb", "nic/dcbx", "nic/lldp", "nic/hostfn", "nic/param"}},
	{"nic/hardware", and(leaves, "nic/fcoe", "nic/toe", "nic/verbs", "nic/hostfn", "nic/param", "nic/view")},
	{"nic/fastlinq/...", and(leaves, "nic/dcbx", "nic/fastlinq", "nic/lldp")},
	{"nic/fastlinq/mfw/...", and(leaves, "nic/dcbx", "nic/fastlinq/status", "nic/fastlinq/mfw", "nic/lldp")},
	{"nic/fastlinq/ecore/...", and(leaves, "nic/fastlinq/status", "nic/fastlinq/ecore")},
	{"nic/fastlinq/vf", and(leaves, "nic/fastlinq", "nic/port", "nic/view")},
	{"nic/fastlinq/l2/...", and(leaves, "nic/fastlinq/status", "nic/fastlinq/l2")},
	{"nic/fastlinq", and(leaves, "nic/dcbx", "nic/fastlinq", "nic/fcoe", "nic/iscsi", "nic/lldp", "nic/toe", "nic/verbs", "nic/hardware",
		"nic/hostfn", "nic/param", "nic/view")},
	{"nic/fastlinq/storage", []string{"wire", "nic/fastlinq/status"}},
	{"nic/fastlinq/fcoe", []string{"wire", "nic/fastlinq/status", "nic/fastlinq/storage", "nic/fcoe"}},
	{"nic/fastlinq/iscsi", []string{"wire", "nic/fastlinq/status", "nic/fastlinq/storage", "nic/iscsi", "nic/toe"}},
	{"nic/npar", []string{"wire", "nic/nicdrop", "nic/port"}},
	{"nic/ideal", []string{"wire", "nic/fcoe", "nic/verbs", "nic/hardware", "nic/hostfn", "nic/pacing", "nic/param", "nic/view"}},
	{"nic/fastlinq/settings", and(leaves, "nic/dcbx", "nic/fastlinq", "nic/lldp", "nic/hardware", "nic/hostfn", "nic/param",
		"nic/verbs")},
	{"nic/timer", []string{"wire"}},
	{"nic/settings", and(leaves, "mpa", "ptp", "nic/cm", "nic/hardware", "nic/iwarp", "nic/param", "nic/ptp",
		"nic/roce/dcqcn", "nic/toe", "nic/verbs")},
	{"nic/show", and(leaves, "rdmap", "nic/cm", "nic/hardware", "nic/ip", "nic/iwarp", "nic/port", "nic/ptp", "nic/roce",
		"nic/toe", "nic/transport", "nic/verbs", "nic/view")},
	{"nic", and(protocols, "nic")},

	{"nic/ring", []string{"nic/verbs"}},
	{"nic/umode", and(device, "nic/ring", "nic/sched", "nic/umode", "nic/uapi/abi", "nic/uapi/doorbell", "nic/uapi/ipc",
		"nic/uapi/relay", "nic/uapi/runtimedir")},
	{"nic/umode/eventfile", []string{"nic/sched", "nic/verbs"}},
	{"nic/umode/proxy", and(device, "nic/uapi/abi", "nic/uapi/doorbell", "nic/uapi/errno", "nic/uapi/ipc")},
	{"nic/uapi/...", and(device, "nic/uapi")},
	{"nic/uapi/relay", and(device, "nic/uapi", "nic/umode/proxy")},
	{"nic/uapi/phc", []string{"wire", "ptp", "nic/ptp", "nic/uapi/errno", "nic/uapi/trap"}},
	{"nic/uapi/hfiverbs", []string{"wire", "nic/uapi/abi", "nic/uapi/trap"}},
	{"nic/uapi/umad", []string{"wire", "opa/rmpp", "nic/uapi/trap"}},
	{"nic/uapi/dcbnl", []string{"wire", "nic/dcb", "nic/dcbx", "nic/uapi/netlink"}},
	{"nic/uapi/sriov", []string{"wire", "nic/uapi/netlink", "nic/uapi/trap"}},
	{"nic/uapi/doorbell", []string{"nic/uapi/ipc"}},
	{"nic/uapi/uverbs", and(device, "nic/ring", "nic/uapi/abi", "nic/uapi/doorbell", "nic/uapi/errno", "nic/uapi/eventpipe")},
	{"nic/uapi/eventpipe", nil},
	{"nic/uapi/procmaps", nil},
	{"nic/uapi/ucma", and(device, "nic/toe", "nic/uapi/abi", "nic/uapi/errno")},

	{"lab/conf/...", and(protocols, "nic", "nic/tap", "lab/conf")},
	{"lab/host/...", and(protocols, "nic/loop", "nic/tap", "lab/conf", "lab/host")},
	{"lab/node/...", and(protocols, "nic", "lab/conf", "lab/host", "lab/node", "lab/tool")},
	{"lab/node/sw/fcf", []string{"wire", "lab/conf/swconf"}},
	{"lab/node/sw", []string{"wire", "opa", "ptp", "lab/conf", "lab/node/sw/fcf", "nic/dcb", "nic/dcbx", "nic/linkmode", "nic/lldp",
		"nic/pacing"}},
	{"lab/topo/...", and(protocols, "nic", "lab/conf", "lab/topo", "lab/host/fault")},
	{"lab/run/...", product},
	{"lab/tool/...", product},
	{"lab/labtest", product},
	{"lab/k8s/...", []string{"lab/tool/cni"}},
	{"lab/check/...", and(product, "lab/check", "lab/labtest")},

	{"cmd/tapir", product},
	{"examples/...", product},
	{".ci/...", nil},
}

// crossings are imports that break a rule, each with its reason.
var crossings = map[string]string{}

// driverCore are the parts of the driver core that its package puts together.
var driverCore = []string{
	"nic/fastlinq/ecore/chain", "nic/fastlinq/ecore/cxt", "nic/fastlinq/ecore/hw", "nic/fastlinq/ecore/rt",
	"nic/fastlinq/ecore/spq",
}

// mayRun are the packages that own threads and clocks; "." unpacks its files once.
var mayRun = []string{".", "nic/loop", "nic/uapi", "nic/umode", "lab", "cmd", "examples", ".ci"}

var (
	systemCalls = []string{"nic/tap", "nic/loop", "nic/ring", "nic/uapi", "lab/host/netns", "lab/host/link", "lab/host/peer", "lab/host/repair"}
	// reserved names the packages that may import a library directly.
	reserved = map[string][]string{
		"golang.org/x/sys/unix":          append([]string{"nic/sched", "nic/umode", "lab/check/attack"}, systemCalls...),
		"github.com/vishvananda/netlink": systemCalls,
		"github.com/songgao/water":       systemCalls,
		"github.com/google/gopacket":     {"lab/tool/capture/layers"},
		"net/http":                       {"lab/tool/ctl", "lab/tool/ui"},
		"github.com/spf13/cobra": {"cmd", "lab/tool/clab", "lab/tool/cli", "lab/tool/cni", "lab/tool/complete", "lab/tool/dcb", "lab/tool/disk", "lab/tool/fcoe", "lab/tool/firmware", "lab/tool/iscsi", "lab/tool/labs", "lab/tool/ll2", "lab/tool/man", "lab/tool/nvme", "lab/tool/params", "lab/tool/running",
			"lab/tool/ui", "lab/tool/vf", "lab/tool/vfdriver"},
		"github.com/containernetworking": {"lab/tool/cni"},
		"google.golang.org/grpc":         {"lab/k8s"},
		"k8s.io":                         {"lab/k8s"},
		"github.com/agext/levenshtein":   {"lab/conf"},
	}
)

// neverReaches lists what a package must not reach in any number of steps.
var neverReaches = map[string][]string{
	"wire/frame": {"mpa", "ddp", "rdmap", "nic", "lab"},
	"mpa":        {"ddp", "rdmap", "nic", "lab"},
	"ddp":        {"mpa", "rdmap", "nic", "lab"},
	"rdmap":      {"mpa", "nic", "lab"},
	"nic/toe":    {"mpa", "ddp", "rdmap", "nic/verbs", "nic/cm", "nic/iwarp", "lab"},
	"nic/verbs":  {"mpa", "ddp", "rdmap", "nic/toe", "nic/iwarp", "lab"},
	"nic/cm":     {"mpa", "ddp", "rdmap", "nic/toe", "nic/iwarp", "nic/al", "lab"},
	"nic/al":     {"mpa", "ddp", "rdmap", "nic/toe", "nic/iwarp", "lab"},
	"nic":        {"nic/tap", "nic/loop", "lab", "cmd"},
}

const (
	maxPackageLines  = 3000
	maxDeviceLines   = 1200 // of package nic, which only puts a NIC together
	maxFileLines     = 600
	maxFuncLines     = 60
	maxColumns       = 120
	maxMethods       = 60
	maxDeviceMethods = 40
)

// oversize are the packages, files, functions and types over their limit, each
// with its reason.
var oversize = map[string]string{
	"lab/tool/ctl":                   "one protocol with all that a NIC is asked for",
	"lab/tool/script":                "one language: its parser, and actions for each protocol",
	"nic/verbs":                      "the RDMA objects refer to each other both ways, so a cut would export their insides",
	"lab/check/bench":                "one program with all benchmarks",
	"lab/tool/inspect":               "the state machines of all protocols share their flows",
	"nic/fastlinq/l2":                "the stages of one function share its queues and filters",
	"opa/em":                         "one state machine: what there is, what should be, and the next MAD of each port and switch",
	"nic/iwarp":                      "start-up, the two halves and the end of a connection share one state",
	"cmd/tapir.newCapture":           "most of it is text: help and flags",
	"lab/check/bench.allCases":       "a table",
	"nic/toe":                        "a connection's state machine, and its whole state as it moves",
	"nic/fastlinq":                   "what a FastLinQ device is made of, and its face",
	"type nic/fastlinq/l2.Function":  "the driver core has a function for each operation",
	"type ptp.port":                  "the states and messages of one port, as IEEE 1588 has them",
	"type vnic.Netdev":               "the operations of a network interface",
	"type nic/fastlinq/mfw/mcp.MCP":  "one method for each command of the mailbox",
	"type nic/fastlinq/ecore.Hwfn":   "one method for each operation of the driver core",
	"type nic/fastlinq/mfw.Firmware": "one method for each command of the mailbox",
	"type opa/em.Manager":            "the sweeps, agents and tables of one manager",
}
