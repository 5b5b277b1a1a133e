# programs.sh: the guest's own programs, into bin/. Runs in an empty directory.
set -eu

sys=$OUT/userland/sys
lib=$sys/usr/lib/x86_64-linux-gnu:$sys/lib/x86_64-linux-gnu
mkdir bin
gcc -O2 -Wall -static -o bin/agent "$IN/agent.c"
for p in verify wireapp; do
	gcc -O2 -Wall -I"$sys/usr/include" -o bin/$p "$IN/$p.c" -L"$sys/usr/lib/x86_64-linux-gnu" -L"$sys/lib/x86_64-linux-gnu" \
		-Wl,-rpath-link,"$lib" -lrdmacm -libverbs -lpthread
done
