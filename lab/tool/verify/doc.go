// Package verify goes through every RDMA operation between a NIC and another
// verifier: the program verify in a Linux guest (package peer), or a second NIC.
// Each side verifies what the other did. It runs over iWARP and RoCE.
//
// The client says in its private data what it needs, little-endian: a magic
// number, flags, how many receives the server shall post and how large each
// is. Octets beyond these eight are a counted pattern. The server answers with
// the STags of one buffer of 4 MiB: with all rights, to be read only, to be
// written only, and of another protection domain; and its length and address.
// A server that was asked to reject does so, with a text.
//
// The client then works through its steps. It knows what the server's buffer
// must hold and compares what it reads. Each Send is answered by a Send of 16
// octets with the length and FNV-1a sum of what arrived, or, if it begins with
// "ECHO", by itself.
//
// A step is name[:size[:count]], size in octets:
//
//	write writei burst       RDMA Write: plain, of inline data, only the last signalled
//	read readn               RDMA Read, compared; readn posts count of them at once
//	send sendi echo          Send: plain, of inline data, to be echoed
//	sendse sendinv sendseinv with solicited event, invalidating the write-only STag, both
//	wbad wkey wbounds wlow wro wpd wwo wwrap   Writes that are wrong: unknown STag, wrong
//	                         key, past the end, below the start, no right, other protection
//	                         domain, write-only STag (right until it is invalidated), address
//	                         past 2^64
//	rbad rkey rbounds rlow rwo rpd             the same of Reads
//	sleep gone               pause; wait for the peer to end the connection, so many ms
//	abort                    end the connection at once
//
// Like the workloads of package perf it is a state machine on completion and
// connection events, without goroutine and clock.
package verify
