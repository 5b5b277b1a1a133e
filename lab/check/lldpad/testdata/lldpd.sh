# lldpd.sh INTERFACE runs lldpd until its input ends, and prints the neighbors that it gets to know. It
# has the user that lldpd becomes, and a /run of its own, in its mount namespace alone.
d=$(mktemp -d)
{ cat /etc/passwd; echo _lldpd:x:64990:64990::/run/lldpd:/bin/false; } >"$d/passwd"
{ cat /etc/group; echo _lldpd:x:64990:; } >"$d/group"
mount --bind "$d/passwd" /etc/passwd && mount --bind "$d/group" /etc/group && mount -t tmpfs run /run || exit 1
lldpd -d -u /run/lldpd.socket -I "$1" -L "$(command -v lldpcli)" 2>"$d/log" &
until lldpcli -u /run/lldpd.socket -f keyvalue show neighbors details 2>/dev/null | grep . >"$d/seen"; do sleep 0.1; done
cat "$d/seen"
echo .
read -r _
kill $!
wait
rm -r "$d"
