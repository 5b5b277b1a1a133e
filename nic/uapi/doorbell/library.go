package doorbell

// Command is what the library writes to a device file, of CommandLen octets: a
// header of the plain form and the address of the answer, two descriptors of 4
// octets: of the memory and of the eventfd.
const (
	Command    = 0x7a0000d0
	CommandLen = 16
)

// FirstFile and LastFile are the descriptors that the library takes for those of
// device files.
const (
	FirstFile = 900
	LastFile  = 963
)

// Path is where a program finds the library.
const Path = "/usr/lib/tapir/doorbell.so"

// Library is the library as a file, for the loader's list LD_PRELOAD (ld.so(8)). It
// is made from c/doorbell.c by c/build, and is linked with nothing: one file serves
// programs of glibc and of musl.
func Library() string { return library }
