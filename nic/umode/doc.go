// Package umode is the RDMA verbs in another process than the NIC's: a Go
// program opens a running NIC by name, and posts, polls and connects with the
// types and names of nic/verbs and nic/cm. Octets of its registered memory
// are read and written by the NIC where they are, without a copy; work
// requests and completions pass through shared memory too.
//
// It is the user-mode half of the HCA driver kit's architecture (section
// 2.4). A verb takes this way, and a library of the NIC's vendor stands at
// both ends of it:
//
//	1  the application calls this package, the user-mode access layer
//	2  the library's pre trigger prepares, and fills a private buffer
//	3  the buffer goes with the command to the proxy in the NIC's process
//	4-8  the proxy checks every handle, calls the access layer there, that
//	   calls the driver, and both keep account of what was made
//	9  the library's post trigger takes the driver's answer
//	10 the application gets its object
//
// The library built in maps the queues that the NIC offers, so that posting,
// polling and arming need no command but the doorbell. Without a library (Options)
// all of it goes through the proxy, in batches.
//
// The proxy cleans up after a program that ends, however it ends.
//
// All methods may be called from any goroutine, except that one queue is
// posted to, or polled, by one goroutine at a time.
package umode
