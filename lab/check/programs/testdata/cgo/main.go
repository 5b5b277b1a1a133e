// A program in Go on libibverbs and librdmacm by cgo: it makes objects of the first RDMA
// device, then sends 100,000 octets by an rsocket and gets them back. Its argument is the
// server's IPv4 address; the server's begins with "-s".
package main

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#include <stdlib.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rsocket.h>

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length) {
	return (ibv_reg_mr)(pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"unsafe"
)

const size = 100_000

func must(ok bool, what string) {
	if !ok {
		fmt.Println(what)
		os.Exit(1)
	}
}

func objects() {
	var count C.int
	list := C.ibv_get_device_list(&count)
	must(count > 0, "no device")
	defer C.ibv_free_device_list(list)
	ctx := C.ibv_open_device(*list)
	must(ctx != nil, "open")
	pd := C.ibv_alloc_pd(ctx)
	memory := C.malloc(1 << 20)
	defer C.free(memory)
	mr := C.reg(pd, memory, 1<<20)
	cq := C.ibv_create_cq(ctx, 16, nil, nil, 0)
	must(mr != nil && cq != nil, "objects")
	fmt.Println("device", C.GoString(C.ibv_get_device_name(*list)))
	must(C.ibv_destroy_cq(cq)+C.ibv_dereg_mr(mr)+C.ibv_dealloc_pd(pd)+C.ibv_close_device(ctx) == 0, "close")
}

func send(s C.int, data []byte) {
	for len(data) > 0 {
		n := C.rsend(s, unsafe.Pointer(&data[0]), C.size_t(len(data)), 0)
		must(n > 0, "rsend")
		data = data[n:]
	}
}

func receive(s C.int) []byte {
	data := make([]byte, size)
	for done := 0; done < size; {
		n := C.rrecv(s, unsafe.Pointer(&data[done]), C.size_t(size-done), 0)
		must(n > 0, "rrecv")
		done += int(n)
	}
	return data
}

func main() {
	host, server := strings.CutPrefix(os.Args[1], "-s")
	ip := netip.MustParseAddr(host).As4()
	addr := C.struct_sockaddr_in{sin_family: C.AF_INET, sin_port: C.htons(7802)}
	*(*[4]byte)(unsafe.Pointer(&addr.sin_addr)) = ip
	sa := (*C.struct_sockaddr)(unsafe.Pointer(&addr))
	objects()
	s := C.rsocket(C.AF_INET, C.SOCK_STREAM, 0)
	defer C.rclose(s)
	if server {
		must(C.rbind(s, sa, 16)+C.rlisten(s, 1) == 0, "listen")
		c := C.raccept(s, nil, nil)
		must(c >= 0, "accept")
		send(c, receive(c))
		C.rshutdown(c, C.SHUT_RDWR)
		C.rclose(c)
		return
	}
	must(C.rconnect(s, sa, 16) == 0, "connect")
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	send(s, data)
	must(bytes.Equal(receive(s), data), "the octets differ")
	fmt.Println("verified", size, "octets")
	C.rshutdown(s, C.SHUT_RDWR)
}
