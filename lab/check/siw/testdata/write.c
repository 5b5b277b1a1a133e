/* write PORTAL TARGET: logs in by iSER with libiscsi and writes 1 MiB to logical unit 0,
   octet i of which is i * 7 + i / 4096, 64 KiB at a time. Debian's package with the library
   alone has no headers: the declarations are those of iscsi/iscsi.h. */
#include <stdint.h>
#include <stdio.h>

struct iscsi_context;
struct scsi_task { int status; };
struct iscsi_context *iscsi_create_context(const char *initiator);
int iscsi_init_transport(struct iscsi_context *iscsi, int transport);
int iscsi_set_targetname(struct iscsi_context *iscsi, const char *name);
int iscsi_set_session_type(struct iscsi_context *iscsi, int type);
int iscsi_full_connect_sync(struct iscsi_context *iscsi, const char *portal, int lun);
struct scsi_task *iscsi_write16_sync(struct iscsi_context *iscsi, int lun, uint64_t lba, unsigned char *data,
	uint32_t len, int blocksize, int wrprotect, int dpo, int fua, int fua_nv, int group);
int iscsi_logout_sync(struct iscsi_context *iscsi);
const char *iscsi_get_error(struct iscsi_context *iscsi);

enum { iser = 1, normal = 2, block = 512, piece = 65536, pieces = 16 };

int main(int argc, char **argv)
{
	static unsigned char data[piece];
	struct iscsi_context *c = iscsi_create_context("iqn.2026-11.tapir:initiator");
	if (argc != 3 || !c || iscsi_init_transport(c, iser) || iscsi_set_targetname(c, argv[2]) ||
	    iscsi_set_session_type(c, normal) || iscsi_full_connect_sync(c, argv[1], 0)) {
		fprintf(stderr, "login: %s\n", c ? iscsi_get_error(c) : "no context");
		return 1;
	}
	for (int n = 0; n < pieces; n++) {
		for (int i = 0; i < piece; i++) {
			int at = n * piece + i;
			data[i] = at * 7 + at / 4096;
		}
		struct scsi_task *t = iscsi_write16_sync(c, 0, (uint64_t)n * piece / block, data, piece, block, 0, 0, 0, 0, 0);
		if (!t || t->status != 0) {
			fprintf(stderr, "write %d: %s\n", n, iscsi_get_error(c));
			return 1;
		}
	}
	iscsi_logout_sync(c);
	puts("written");
	return 0;
}
