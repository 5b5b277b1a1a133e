// Opens the NIC's device files by system calls and asks what programs ask
// first, without a library of RDMA: it is linked with any C library.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int tell(const char *what, const char *file, int fd, const void *command, size_t size) {
	if (fd >= 0 && write(fd, command, size) == (ssize_t)size) return 0;
	printf("%s of %s: %s\n", what, file, strerror(errno));
	return 1;
}

static const char *yes(int b) { return b ? "true" : "false"; }

int main(void) {
	const char *verbs = "/dev/infiniband/uverbs0", *cm = "/dev/infiniband/rdma_cm";
	int v = open(verbs, O_RDWR | O_CLOEXEC), c = open(cm, O_RDWR | O_CLOEXEC);
	struct stat st;
	char type[32] = "";
	FILE *f = fopen("/sys/class/infiniband/rxe0/node_type", "r");
	if (!f || !fgets(type, sizeof type, f) || fstat(v, &st)) return printf("not found: %s\n", strerror(errno)), 1;

	uint32_t context[2] = {0}, device[44] = {0}, id = ~0u;
	struct { uint32_t nr; uint16_t in, out; uint64_t answer; } get = {0, 4, sizeof context / 4, (uintptr_t)context},
		query = {1, 4, sizeof device / 4, (uintptr_t)device};
	struct { uint32_t nr; uint16_t in, out; uint64_t user, answer; uint16_t space; uint8_t type, pad[5]; } create =
		{0, 24, sizeof id, 1, (uintptr_t)&id, 0x106, 2, {0}};
	if (tell("GET_CONTEXT", verbs, v, &get, sizeof get) || tell("QUERY_DEVICE", verbs, v, &query, sizeof query) ||
	    tell("CREATE_ID", cm, c, &create, sizeof create)) return 1;
	uint64_t largest; // MR
	memcpy(&largest, device + 6, sizeof largest);
	printf("%scharacter device %s, events %s, MRs of 1 MiB %s, id %s\n", type, yes(S_ISCHR(st.st_mode) && st.st_rdev), yes(context[0] > 2), yes(largest >= 1 << 20), yes(id != ~0u));
	return 0;
}
