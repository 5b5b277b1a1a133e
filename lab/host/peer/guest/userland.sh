# userland.sh: the packages listed in the file $IN/packages and everything they
# depend on, unpacked into sys/. Runs in an empty directory.
set -eu

mkdir -p debs/partial
: >status # an empty package database makes apt bring every dependency
# shellcheck disable=SC2046 # one word per package
apt-get -q -y --no-install-recommends --download-only -o Dir::State::status="$PWD/status" -o Dir::Cache::archives="$PWD/debs/" \
	-o Debug::NoLocking=1 -o APT::Sandbox::User=root install $(grep -v '^#' "$IN/packages")
for d in debs/*.deb; do dpkg-deb -x "$d" sys; done
for p in rdmacm-utils ibverbs-utils perftest iperf3; do
	dpkg-deb -c debs/${p}_*.deb | awk '$1 ~ /^-..x/ && $6 ~ /^.\/usr\/bin\// {print $6}'
done >tools
rm -rf debs status sys/usr/share/doc sys/usr/share/locale sys/usr/share/man
