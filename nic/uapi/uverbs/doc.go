// Package uverbs serves the kernel's verbs interface, the character device
// /dev/infiniband/uverbsN, on a NIC: the commands that libibverbs and a
// provider library write into it. Objects are those of nic/verbs, opened
// through nic/al; queues are rings in memory that the program shares, laid out
// as the kernel's rxe driver does (nic/ring), so that the stock rxe provider
// works on them.
//
// A File has one table of handles. Every handle that a program names is
// authenticated by lookup, every command is found in one of two tables
// (commands, extended), and whatever a program leaves behind goes in
// File.Close.
//
// Layouts are those of include/uapi/rdma/ib_user_verbs.h and rdma_user_rxe.h,
// errnos those of the kernel's drivers/infiniband/core/uverbs_cmd.c and
// uverbs_ioctl.c. Newer libibverbs asks by ioctl(2): a method (methods) has
// attributes, of which the request of a command is made, and INVOKE_WRITE brings any
// command. Methods that the rxe driver has not either fail with EPROTONOSUPPORT.
package uverbs
