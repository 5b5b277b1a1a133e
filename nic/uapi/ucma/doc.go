// Package ucma serves /dev/infiniband/rdma_cm, the kernel's connection manager
// for programs, over the connection managers (nic/cm) of one or several NICs:
// what librdmacm writes into that file, version 4 of the interface
// (rdma_user_cm.h).
//
// A File is one event channel of a program. It belongs to the thread of the
// NIC through which it was opened, its home. What another NIC has to do happens
// on that NIC's thread, and comes back: a command is then answered later.
//
// The way of a connection, each step a command unless it is an event:
//
//	client: CREATE_ID, RESOLVE_IP, (ADDR_RESOLVED), RESOLVE_ROUTE,
//	        (ROUTE_RESOLVED), INIT_QP_ATTR, CONNECT, (ESTABLISHED)
//	server: CREATE_ID, BIND_IP, LISTEN, (CONNECT_REQUEST), INIT_QP_ATTR,
//	        ACCEPT, (ESTABLISHED)
//	both:   DISCONNECT, (DISCONNECTED), DESTROY_ID
//
// Numbers in commands, answers and events are in the byte order of the
// machine, which is little endian; ports, addresses and GUIDs in network order.
package ucma
