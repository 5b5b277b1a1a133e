# image.sh: kernel and initial ramdisk, as vmlinuz and initrd. Runs in an empty
# directory.
set -eu

sys=$OUT/userland/sys kernel=$OUT/kernel
libs=$sys/usr/lib/x86_64-linux-gnu:$sys/lib/x86_64-linux-gnu:$sys/lib
mkdir -p root/bin root/usr/bin root/usr/lib/x86_64-linux-gnu root/lib64 root/etc
cp -r "$kernel/modules/lib" root/
cp "$kernel/siw-stock.ko" "$kernel/siw-tuned.ko" "$kernel/netdevsim.ko" "$kernel/dcbops.ko" root/lib/
ln -s ../usr/lib/x86_64-linux-gnu root/lib/x86_64-linux-gnu
cp "$sys/bin/busybox" root/bin/busybox
cp "$sys/bin/dash" root/bin/sh # unlike busybox it honours PATH, so that the real ip and tc win
install -m 755 "$IN/init" root/init
install -m 755 "$IN/siw-load" "$IN/rxe-load" "$OUT/programs/bin/agent" "$OUT/programs/bin/verify" "$OUT/programs/bin/wireapp" root/bin/
ln -s verify root/bin/siwt # its former name

: >need
add() {
	echo "$1" >>need
	install -m 755 "$1" root/usr/bin/
}
while read -r f; do add "$sys/$f"; done <"$OUT/userland/tools"
for f in sbin/ethtool bin/ip sbin/ip bin/ss usr/bin/ip usr/bin/ss usr/sbin/ethtool usr/sbin/rdma sbin/rdma usr/bin/rdma bin/rdma sbin/tc sbin/dcb usr/sbin/dcb usr/sbin/lldpad usr/sbin/lldptool usr/sbin/dcbtool sbin/iscsid usr/sbin/iscsid sbin/iscsiadm usr/sbin/iscsiadm sbin/mke2fs usr/sbin/mke2fs sbin/e2fsck usr/sbin/e2fsck sbin/dmsetup usr/sbin/dmsetup bin/kmod usr/bin/kmod; do
	if [ -f "$sys/$f" ] && [ ! -L "$sys/$f" ]; then add "$sys/$f"; fi
done
# lldpad of Debian 12 clears its whole state of CEE DCBX before it builds the TLV, and so never sends
# one. Here it clears the parts of the last TLV alone (a memset of 0x50 octets at 0x20).
n='\x90\x90\x90\x90\x90\x90\x90' o='\x00\x00\x00'
LC_ALL=C sed -i "s/\x48\x8d\x7b\x08\(\x48\x89\xd9\x31\xc0\x48\x83\xe7\xf8\)\x48\xc7\x03$o\x00\(\x48\x89\xee\)\x48\xc7\x83\x80$o$o\x00\(\x48\x29\xf9\x81\xc1\)\x88/\x48\x8d\x7b\x20\1$n\2$n\x90\x90\x90\x90\3\x70/" \
	root/usr/bin/lldpad
for k in modprobe insmod rmmod lsmod modinfo; do ln -s kmod root/usr/bin/$k; done
for d in siw rxe; do
	so=$(ls "$sys"/usr/lib/x86_64-linux-gnu/libibverbs/lib$d-rdmav*.so)
	install -D -m 644 "$so" "root/usr/lib/x86_64-linux-gnu/libibverbs/${so##*/}"
	install -D -m 644 "$sys/etc/libibverbs.d/$d.driver" "root/etc/libibverbs.d/$d.driver"
	echo "$so" >>need
done
echo "$sys/bin/dash" >>need
echo "$OUT/programs/bin/verify" >>need

ld=$(ls "$sys"/lib64/ld-linux-x86-64.so.2 "$sys"/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$sys"/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 2>/dev/null | head -n 1)
while read -r f; do "$ld" --library-path "$libs" --list "$f" 2>/dev/null || true; done <need |
	awk '/=> not found/ {print "missing library: " $1 > "/dev/stderr"; bad = 1} / => \// {print $3} END {exit bad}' | sort -u >libs
ls "$sys"/lib/x86_64-linux-gnu/libgcc_s.so.1 "$sys"/usr/lib/x86_64-linux-gnu/libgcc_s.so.1 2>/dev/null | head -n 1 >>libs # pthread_exit loads it
while read -r f; do install -m 755 "$f" root/usr/lib/x86_64-linux-gnu/; done <libs
cp "$ld" root/lib64/ld-linux-x86-64.so.2

echo 'root:x:0:0:root:/:/bin/sh' >root/etc/passwd
echo 'root:x:0:' >root/etc/group
printf '127.0.0.1 localhost\n::1 localhost\n' >root/etc/hosts
mkdir root/etc/iscsi
cp "$sys/etc/iscsi/iscsid.conf" root/etc/iscsi/
echo 'InitiatorName=iqn.2026-11.guest:peer' >root/etc/iscsi/initiatorname.iscsi
echo 'hosts: files' >root/etc/nsswitch.conf
cp "$sys/etc/services" root/etc/ 2>/dev/null || :
(cd root && find . | cpio -o -H newc --quiet -R 0:0) >initrd
cp "$kernel/vmlinuz" vmlinuz
rm -rf root need libs
