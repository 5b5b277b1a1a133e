// Asks the agents of a port by stock libibumad: "umad CA". Its header need not be
// installed, so what is used of it is declared here.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct port {
	char ca[20];
	int number;
	unsigned lid, lmc, sm_lid, sm_sl, state, phys, rate;
	uint32_t caps;
	uint64_t prefix, guid;
	unsigned pkeys;
	uint16_t *pkey;
	char link_layer[20];
};
int umad_init(void);
int umad_get_port(const char *ca, int number, struct port *p);
int umad_open_port(const char *ca, int number);
int umad_register(int port, int class, int version, uint8_t rmpp, long methods[]);
int umad_unregister(int port, int agent);
int umad_set_addr(void *umad, int lid, int qp, int sl, int qkey);
int umad_send(int port, int agent, void *umad, int length, int timeout, int retries);
int umad_recv(int port, void *umad, int *length, int timeout);
int umad_status(void *umad);
int umad_size(void);
void *umad_get_mad(void *umad);
int umad_close_port(int port);

enum { GET = 1, SET = 2, DIRECTED = 0x81, LID_ROUTED = 1, PERF = 4, COUNTERS = 0x1d, DESCRIPTION = 0x10, NODE = 0x11, PORT = 0x15 };

static int port;
static char umad[64 + 256];
static unsigned char *mad;

// ask sends a request, of which data stands already, and tells what comes of it.
static int ask(int agent, int class, int method, int attribute, int lid)
{
	int length = 256, from;
	unsigned char data[64];
	memcpy(data, mad + 64, sizeof data);
	memset(umad, 0, sizeof umad);
	mad[0] = 1, mad[1] = class, mad[2] = 1, mad[3] = method, mad[15] = 42, mad[17] = attribute;
	mad[23] = attribute == PORT; // its number
	memset(mad + 32, class == DIRECTED ? 0xff : 0, 4);
	memcpy(mad + 64, data, sizeof data);
	umad_set_addr(umad, lid, class == PERF, 0, 0);
	if (umad_send(port, agent, umad, 256, 100, 1) < 0) {
		printf("send: %s\n", strerror(errno));
		return -1;
	}
	from = umad_recv(port, umad, &length, 30000);
	if (from != agent || mad[15] != 42) {
		printf("received by agent %d for %d, transaction %d\n", from, agent, mad[15]);
		return -1;
	}
	if (umad_status(umad))
		printf("%s after %d octets\n", strerror(umad_status(umad)), length);
	else if (mad[3] != 0x81 || (mad[4] & 0x7f) || mad[5] || length != 256)
		printf("method %#x, status %#x, %d octets\n", mad[3], mad[4] << 8 | mad[5], length);
	else
		return 0;
	return -1;
}

int main(int argc, char **argv)
{
	struct port p;
	int directed, routed, perf;
	memset(&p, 0, sizeof p);
	umad_init();
	if (umad_get_port(argv[argc - 1], 1, &p) < 0 || (port = umad_open_port(argv[argc - 1], 1)) < 0) {
		printf("cannot open the port\n");
		return 1;
	}
	printf("%s port %d: lid %u state %u phys %u %s, header %d\n", p.ca, p.number, p.lid, p.state, p.phys, p.link_layer,
	       umad_size());
	mad = umad_get_mad(umad);
	directed = umad_register(port, DIRECTED, 1, 0, 0);
	routed = umad_register(port, LID_ROUTED, 1, 0, 0);
	printf("agents %d %d, rmpp %s\n", directed, routed, umad_register(port, DIRECTED, 1, 1, 0) < 0 ? "refused" : "taken");
	if (ask(directed, DIRECTED, GET, NODE, 0xffff) == 0)
		printf("node guid %02x%02x%02x%02x%02x%02x%02x%02x\n", mad[76], mad[77], mad[78], mad[79], mad[80], mad[81],
		       mad[82], mad[83]);
	if (ask(directed, DIRECTED, GET, PORT, 0xffff) == 0) {
		mad[64 + 17] = 0x12, mad[64 + 19] = 1;	 // LIDs of the port and of the manager
		mad[64 + 32] &= 0xf0, mad[64 + 33] &= 0x0f; // no change of state
		if (ask(directed, DIRECTED, SET, PORT, 0xffff) == 0)
			printf("lid is now %d\n", mad[64 + 17]);
	}
	if (ask(routed, LID_ROUTED, GET, DESCRIPTION, 0x12) == 0)
		printf("lid 0x12 is %s\n", mad + 64);
	perf = umad_register(port, PERF, 1, 0, 0);
	memset(mad + 64, 0, 192), mad[65] = 1; // of port 1
	if (ask(perf, PERF, GET, COUNTERS, 0x12) == 0)
		printf("words received: %d\n", mad[64 + 22] << 8 | mad[64 + 23]);
	printf("lid 0x13: ");
	if (ask(routed, LID_ROUTED, GET, DESCRIPTION, 0x13) == 0)
		printf("is %s\n", mad + 64);
	printf("unregistered: %d, then ", umad_unregister(port, routed));
	ask(routed, LID_ROUTED, GET, DESCRIPTION, 0x12);
	return umad_close_port(port);
}
