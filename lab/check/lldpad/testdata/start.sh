# start.sh VERSION begins lldpad with no memory of what was, as one that speaks IEEE DCBX or CEE
# DCBX on eth0.
[ -e /sys/module/dcbops ] || insmod /lib/dcbops.ko || exit 1
[ -z "$(pidof lldpad)" ] || kill "$(pidof lldpad)"
while [ -n "$(pidof lldpad)" ]; do usleep 20000; done
mkdir -p /var/lib/lldpad /var/run
rm -f /var/lib/lldpad/* /dev/shm/lldpad.state
[ "$1" = ieee ] || echo 'dcbx: { version = "1.0"; dcbx_version = 6; };' >/var/lib/lldpad/lldpad.conf # 6: CEE alone
lldpad -d || exit 1
until lldptool -L -i eth0 adminStatus=rxtx 2>/dev/null; do usleep 50000; done
[ "$1" = ieee ] || dcbtool sc eth0 dcb on
