# kernel.sh: the newest kernel of this Debian release, the modules that the
# guest loads, netdevsim, which Debian does not build, dcbops, and siw twice: as it
# is ("stock"), and with its compile-time switches turned into module parameters of
# the same defaults ("tuned"). Runs in an empty directory; leaves vmlinuz,
# modules/, siw-stock.ko, siw-tuned.ko, netdevsim.ko, dcbops.ko and version.
set -eu

kver=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: linux-image-\([0-9][0-9.+a-z-]*-amd64\)$/\1/p' | head -n 1)
[ -n "$kver" ] || { echo "apt knows no package linux-image-amd64: run apt-get update; the guest is made of packages of Debian" >&2; exit 1; }
series=$(echo "$kver" | cut -d. -f1,2)
version=$(apt-cache policy "linux-image-$kver" | sed -n 's/.*Candidate: //p')
# Debian signs a kernel days after it has built it. Until then, its tools and
# source may be there in a newer version only, which does as well.
of() { apt-cache madison "$1" | awk -v v="$version" -v p="$1" '$3 == v {has = "=" v} END {print p has}'; }
apt-get -q -o APT::Sandbox::User=root download "linux-image-$kver=$version" "linux-headers-$kver=$version" \
	"linux-headers-${kver%-amd64}-common=$version" "$(of "linux-source-$series")" "$(of "linux-kbuild-$series")"
for d in *.deb; do dpkg-deb -x "$d" sys; done
rm -f ./*.deb

headers=$PWD/sys/usr/src/linux-headers-$kver
sed -i "s#include /.*/linux-headers#include $PWD/sys/usr/src/linux-headers#" "$headers/Makefile"
mkdir src
tar -C src --strip-components=2 -xJf sys/usr/src/linux-source-*.tar.xz --wildcards '*/drivers/infiniband/sw/siw' '*/drivers/net/netdevsim'
mv src/infiniband/sw/siw src/net/netdevsim src
cp -r src/siw src/tuned

cd src/tuned
switches='zcopy_tx try_gso mpa_crc_required mpa_crc_strict siw_tcp_nagle peer_to_peer'
for v in $switches; do
	sed -i "s/^const bool $v\( = [a-z]*\)\?;/bool $v\1; module_param($v, bool, 0644);/" siw_main.c
	sed -i "s/^extern const bool $v;/extern bool $v;/" siw.h
done
sed -i 's/^\(u_char mpa_version = .*;\)/\1 module_param(mpa_version, byte, 0644);/' siw_main.c
sed -i 's/^static __be16 rtr_type = \(.*\);/static ushort rtr_type = (ushort)(\1); module_param(rtr_type, ushort, 0644);/
	s/^static const bool relaxed_ird_negotiation = true;/static bool relaxed_ird_negotiation = true; module_param(relaxed_ird_negotiation, bool, 0644);/' siw_cm.c
cd ../..
mkdir src/dcbops
cp "$IN/dcbops.c" src/dcbops
echo 'obj-m := dcbops.o' >src/dcbops/Makefile

for d in siw tuned netdevsim dcbops; do
	make -s -C "$headers" M="$PWD/src/$d" CONFIG_RDMA_SIW=m CONFIG_NETDEVSIM=m modules || exit 1
	strip --strip-debug "src/$d"/*.ko
done
n=$(modinfo -p src/tuned/siw.ko | wc -l)
[ "$n" = 9 ] || { echo "siw of Linux $kver has other switches than expected: $n of 9 became parameters" >&2; exit 1; }

mods=sys/lib/modules/$kver
depmod -b sys "$kver"
for m in virtio_pci virtio_net virtio_console virtio_rng 8021q crc32c_intel crc32c_generic libcrc32c ib_core ib_cm iw_cm rdma_cm ib_uverbs rdma_ucm psample udp_tunnel rdma_rxe crc32_generic crc32_pclmul configfs target_core_mod target_core_file iscsi_target_mod ib_isert \
	sd_mod iscsi_tcp ib_iser ext4 virtio_blk dm_multipath dm_round_robin fcoe tcm_fc nvme_rdma nvmet_rdma; do
	modprobe -S "$kver" -d sys --show-depends "$m" 2>/dev/null || true
done | awk '/^insmod/ {print $2}' | sort -u | while read -r f; do
	install -D -m 644 "$f" "modules/lib/modules/$kver/${f#*"$mods"/}"
done
cp "$mods/modules.order" "$mods/modules.builtin" "$mods/modules.builtin.modinfo" "modules/lib/modules/$kver/"
depmod -b modules "$kver"
mv src/siw/siw.ko siw-stock.ko
mv src/tuned/siw.ko siw-tuned.ko
mv src/netdevsim/netdevsim.ko src/dcbops/dcbops.ko .
mv "sys/boot/vmlinuz-$kver" vmlinuz
echo "$kver $version" >version
rm -rf sys src
