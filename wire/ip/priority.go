package ip

// priorities are those of Linux for the four bits of a type of service that RFC 1349
// defined, the lowest of which (cost, now ECN) does not count: ip_tos2prio.
var priorities = [...]uint8{0, 2, 6, 4}

// Priority is what Linux makes of the TOS or traffic class octet of packets (rt_tos2priority;
// RDMA_OPTION_ID_TOS of rdma_cm): 0 best effort, 2 bulk, 4 interactive bulk, 6 interactive. A
// VLAN interface with the identity as its egress-qos-map puts it into the tag.
func Priority(tos uint8) uint8 { return priorities[tos>>3&3] }
