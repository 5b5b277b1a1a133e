// Package nvme is NVM Express over RDMA (NVM Express base specification 2.0, NVMe RDMA transport
// specification 1.0), as a program on a NIC's verbs: a target, which serves namespaces and
// is a client of the access layer, and a host, which uses those of any target. Both are event-driven:
// completions, events of connections and the time go in; they own no thread and no clock.
//
// The files of a target in the order of a command's way: target.go takes connections, queue.go
// receives commands and moves their data, controller.go and admin.go do those of the admin
// queue, namespace.go those of I/O queues.
//
// # Memory
//
// A queue of a target takes a capsule of memory for each entry: 64 octets and 1024 of data in the admin
// queue, 4096 in others. Data that does not come in a capsule takes a buffer of a power of two from 4
// KiB to 1 MiB, 64 MiB in all; commands beyond wait.
package nvme
