package ecore

// Resource is something of an engine that its functions share.
type Resource uint8

// The resources.
const (
	L2Queue Resource = iota
	VPort
	RSSEng
	PQ
	RL
	MAC
	VLAN
	CNQRAM
	ILT
	LL2Queue
	CmdQsCQs
	RDMAStats
	BDQ
	SB
	NumResources
)

var resourceNames = [...]string{
	"L2_QUEUE", "VPORT", "RSS_ENG", "PQ", "RL", "MAC", "VLAN", "RDMA_CNQ_RAM", "ILT", "LL2_QUEUE", "CMDQS_CQS",
	"RDMA_STATS_QUEUE", "BDQ", "SB",
}

// String is the resource's name.
func (r Resource) String() string { return resourceNames[r] }

// Share is what a function has of a resource: Num of them, from Start on.
type Share struct{ Start, Num int }

// pqStep is the granularity of physical queues.
const pqStep = 8

// defaultShare is what a function gets if nobody says otherwise: the engine's
// by the number of its functions.
func defaultShare(kind Kind, r Resource, functions, pf int, p Personality) Share {
	num := kindLimits[kind].res[r] / functions
	switch r {
	case PQ:
		num -= num % pqStep
	case BDQ:
		if p != ISCSI && p != FCoE {
			return Share{}
		}
		return Share{pf, 1}
	}
	return Share{num * pf, num}
}

// PFShare is what each of so many functions of an engine has of a resource.
func PFShare(kind Kind, r Resource, functions int) int { return kindLimits[kind].res[r] / functions }

// fits tells whether a share lies within the engine.
func (s Share) fits(kind Kind, r Resource) bool {
	return s.Start >= 0 && s.Num >= 0 && s.Start+s.Num <= kindLimits[kind].res[r]
}
