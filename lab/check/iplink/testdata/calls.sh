# calls.sh PF makes calls of ip link that show and change VFs of a PF without any, and
# prints of each what ip says, its exit code, and what is shown of the VFs then, as text
# and as JSON.
pf=$1

shown() {
	ip link show "$pf" | grep '^    vf'
	ip -d -j link show "$pf" | sed 's/.*,"vfinfo_list":/"vfinfo_list":/; s/}\]$//; /^"vfinfo_list"/!s/.*/no VFs/'
}

set_() {
	echo "\$ ip link set $*"
	ip link set "$pf" "$@" 2>&1
	echo "rc $?"
	shown
}

numvfs() {
	echo "\$ echo $1 >sriov_numvfs"
	(echo "$1" >"/sys/class/net/$pf/device/sriov_numvfs") 2>/dev/null
	echo "rc $?"
	shown
}

shown
set_ vf 0 mac 02:00:00:00:00:05
numvfs 4
set_ vf 0 mac 02:00:00:00:00:05
set_ vf 0 vlan 100
set_ vf 0 vlan 100 qos 3
set_ vf 1 rate 2000
set_ vf 1 max_tx_rate 3000 min_tx_rate 1000
set_ vf 1 min_tx_rate 4000
set_ vf 1 max_tx_rate 500
set_ vf 1 min_tx_rate 2000
set_ vf 2 spoofchk on
set_ vf 2 mac 02:00:00:00:00:07
set_ vf 2 trust on
set_ vf 3 state enable
set_ vf 3 query_rss on
set_ vf 4 mac 02:00:00:00:00:06
set_ vf 0 mac 01:00:00:00:00:05
set_ vf 0 mac ff:ff:ff:ff:ff:ff
set_ vf 0 vlan 4096
set_ vf 0 vlan 4095
set_ vf 0 vlan 5 qos 8
set_ vf 0 vlan 5 qos 7
set_ vf 0 vlan 0
set_ vf 0 vlan 6 proto 802.1Q
set_ vf 1 state disable
set_ vf 1 state auto
set_ vf 1 state sideways
set_ vf 4 vlan 5
set_ vf 4 rate 2000
set_ vf 4 spoofchk on
set_ vf 4 trust on
set_ vf 4 state enable
set_ vf 4 query_rss on
set_ vf 2 spoofchk off trust off
set_ vf 3 mac 02:00:00:00:00:08 vlan 7 spoofchk on state disable query_rss off
set_ vf 3 vlan 8 mac 03:00:00:00:00:08
set_ vf 1 rate 0
set_ vf 1 max_tx_rate 0 min_tx_rate 0
set_ vf 0 mac 00:00:00:00:00:00
set_ vf 0 mac 02:00:00
set_ vf x mac 02:00:00:00:00:05
set_ vf 0 bogus on
set_ vf 0 node_guid 00:11:22:33:44:55:66:77
numvfs 3
numvfs 4
numvfs 0
set_ vf 0 trust on
