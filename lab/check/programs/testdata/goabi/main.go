// The counterpart of abi.c in Go, which makes its system calls itself.
package main

import (
	"fmt"
	"os"
	"unsafe"
)

type header struct {
	nr      uint32
	in, out uint16
}

func command[T any](f *os.File, c *T) error {
	_, err := f.Write(unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
	return err
}

func run() error {
	verbs, err := os.OpenFile("/dev/infiniband/uverbs0", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	cm, err := os.OpenFile("/dev/infiniband/rdma_cm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	kind, err := os.ReadFile("/sys/class/infiniband/rxe0/node_type")
	if err != nil {
		return err
	}
	st, err := verbs.Stat()
	if err != nil {
		return err
	}
	context, device, id := new([2]uint32), new([22]uint64), new(uint32)
	*id = ^uint32(0)
	type query struct {
		header
		answer uintptr
	}
	if err := command(verbs, &query{header{0, 4, 2}, uintptr(unsafe.Pointer(context))}); err != nil {
		return err
	}
	if err := command(verbs, &query{header{1, 4, 44}, uintptr(unsafe.Pointer(device))}); err != nil {
		return err
	}
	create := struct {
		header
		user   uint64
		answer uintptr
		space  uint16
		kind   uint8
		_      [5]uint8
	}{header{0, 24, 4}, 1, uintptr(unsafe.Pointer(id)), 0x106, 2, [5]uint8{}}
	if err := command(cm, &create); err != nil {
		return err
	}
	fmt.Printf("%scharacter device %t, events %t, MRs of 1 MiB %t, id %t\n", kind, st.Mode()&os.ModeCharDevice != 0,
		context[0] > 2, device[3] >= 1<<20, *id != ^uint32(0))
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
