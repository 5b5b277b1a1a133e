package programs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tapir/lab/host/process"
	"tapir/nic/view"
)

var interop = flag.Bool("interop", false, "run the long form of the applications' tests")

// The target of iSER, and who may log in.
const (
	target    = "iqn.2026-11.tapir:disk"
	initiator = "iqn.2007-10.com.github:sahlberg:libiscsi:"
)

// tgtd serves a disk by iSER; its portal of TCP, which it cannot do without, is on
// loopback. It is ready when tgtadm has made the disk.
const (
	tgtd    = "env TGT_IPC_SOCKET=tgt.sock tgtd -f -C 0 --iser pool_sz_mb=64 --iscsi portal=127.0.0.1:3261"
	tgtdSet = `
export TGT_IPC_SOCKET=tgt.sock
adm() { tgtadm -C 0 --lld iser --mode "$@"; }
truncate -s 64M disk
until tgtadm -C 0 --op show --mode sys >/dev/null 2>&1; do sleep 0.05; done
adm target --op new --tid 1 -T ` + target + `
adm logicalunit --op new --tid 1 --lun 1 -b disk
adm target --op bind --tid 1 -I ALL
for i in iscsi-inq iscsi-readcapacity16 iscsi-test iscsi-test-2; do adm target --op bind --tid 1 -Q ` + initiator + `$i; done
adm target --op bind --tid 1 -Q iqn.2010-11.libiscsi:iscsi-perf
`
	disk = "iser://" + IPv4 + "/" + target + "/1"
)

// apps are the cells of applications: those that every run of the tests has, and with
// long those of `make interop`.
func apps(long bool) (list []Cell) {
	add := func(c Cell) { list = append(list, c) }
	for _, f := range fioCells(long) {
		add(f)
	}
	suites := []string{"TestUnitReady", "ReadCapacity16", "Write16.Simple"}
	if long { // those that pass over TCP as well, and do not crash in libiscsi
		suites = append(suites, strings.Fields("Write16 CompareAndWrite Mandatory NoMedia OrWrite Prefetch10 Prefetch16 PreventAllow PrinReadKeys"+
			" PrinReportCapabilities Read6 Read12 Read16 ReadCapacity10 ReadDefectData10 ReadDefectData12 ReadOnly ReceiveCopyResults"+
			" ReportSupportedOpcodes Sanitize StartStopUnit Unmap Verify10 Verify12 Verify16 Write12 WriteAtomic16 WriteSame10 WriteSame16"+
			" WriteVerify10 WriteVerify12 WriteVerify16 MultipathIO ProutRegister ProutClear ProutPreempt")...)
	}
	script := "set -e\niscsi-inq " + disk + "\n"
	for _, s := range suites {
		script += "iscsi-test-cu -d -t ALL." + s + " " + disk + "\n"
	}
	add(Cell{Name: "iSER", Needs: "tgtd iscsi-test-cu", Server: tgtd, Prepare: tgtdSet, Socket: true, Stays: true, Kills: true,
		Files: map[string]string{"iser.sh": script + "echo all passed\n"}, Client: "sh iser.sh", Want: "all passed"})
	transactions := "20"
	if long {
		transactions = "1000"
	}
	dat := map[string]string{"dat.conf": `ia0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "eth0 0" ""` + "\n"}
	dapl := "env DAT_OVERRIDE=dat.conf dapltest -T "
	add(Cell{Name: "dapltest", Needs: "dapltest", Server: dapl + "S -D ia0", Stays: true, Files: dat, Client: dapl + "T -s " + IPv4 +
		" -D ia0 -V -i " + transactions + " client SR 1024 4 server SR 1024 4 client RW 4096 server RR 65536 client RR 8192", Want: "End of Work"})
	const preload = "LD_PRELOAD=librspreload.so:/usr/lib/$(uname -m)-linux-gnu/rsocket/librspreload.so exec nc.traditional "
	add(Cell{Name: "librspreload", Needs: "nc.traditional", Server: "sh nc-server.sh", Client: "sh nc.sh", Copies: 3_000_000,
		Files: map[string]string{"nc-server.sh": preload + "-l -p 7777 -s " + IPv4 + " >to\n", "nc.sh": preload + "-q 1 " + IPv4 + " 7777 <from\n"}})
	return list
}

// fioCells are those of its engine rdma: reads and writes of three depths. Sends, which
// wait for no receive, are not for iWARP.
func fioCells(long bool) (list []Cell) {
	size := "8m"
	if long {
		size = "256m"
	}
	for _, c := range []struct {
		verb, depth string
		long        bool
	}{{"write", "16", false}, {"read", "16", false}, {"write", "1", true}, {"write", "64", true}, {"read", "1", true}, {"read", "64", true}} {
		if c.long && !long {
			continue
		}
		job := func(name, more string) string {
			return "[" + name + "]\nioengine=rdma\nport=8888\nbs=64k\nsize=" + size + "\niodepth=" + c.depth + "\n" + more
		}
		list = append(list, Cell{Name: "fio " + c.verb + " " + c.depth, Needs: "fio", Server: "fio server.fio", Client: "fio client.fio",
			Want: "err= 0", Files: map[string]string{"server.fio": job("receiver", "rw=read\n"),
				"client.fio": job("sender", "rw=write\nhostname="+IPv4+"\nverb="+c.verb+"\n")}})
	}
	return list
}

// needs skips a test whose programs are not installed, which .ci/tools does for Debian.
func needs(t *testing.T, programs string) {
	t.Helper()
	for name := range strings.FieldsSeq(programs) {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}

// TestApplications runs applications of storage and high performance computing.
func TestApplications(t *testing.T) {
	l := newLab(t)
	for _, c := range apps(*interop) {
		t.Run(c.Name, func(t *testing.T) {
			needs(t, c.Needs)
			runCell(t, l, c, Auto)
		})
	}
}

// TestLanguages: programs in Go, by cgo, and in Rust on the distribution's libraries.
func TestLanguages(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct{ name, compiler string }{{"Go", "go build -o %s testdata/cgo/main.go"}, {"Rust", "rustc -O testdata/rsockets.rs -o %s"}} {
		t.Run(c.name, func(t *testing.T) {
			needs(t, strings.Fields(c.compiler)[0])
			file := filepath.Join(t.TempDir(), "program")
			cmd := exec.Command("sh", "-c", fmt.Sprintf(c.compiler, file))
			cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			runCell(t, l, Cell{Name: c.name, Server: file + " -s" + IPv4, Client: file + " " + IPv4, Want: "verified 100000 octets", Restarts: true}, Auto)
		})
	}
}

// TestTargetOutlivesNIC ends and kills the NIC of a server that threads use, with requests
// in flight: it is told so by each call, and ends when it is asked to.
func TestTargetOutlivesNIC(t *testing.T) {
	needs(t, "tgtd iscsi-perf")
	for name, end := range map[string]func(*process.Process){"ends": (*process.Process).Stop, "killed": (*process.Process).Kill} {
		if name == "ends" && !*interop {
			continue
		}
		t.Run(name, func(t *testing.T) { targetOutlives(t, end) })
	}
}

func targetOutlives(t *testing.T, end func(*process.Process)) {
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	start := func(nic, argv string) *process.Process {
		p, err := process.Start(ctx, l.side(nic).NS, process.Options{Dir: l.dir, Argv: l.under(nic, Auto, strings.Fields(argv))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	srv := start(server, tgtd)
	if err := l.ready(ctx, Cell{Socket: true, Prepare: tgtdSet}, srv); err != nil {
		t.Fatal(err)
	}
	start(client, "iscsi-perf -m 8 -b 8 -t 60 "+disk)
	if err := process.Until(ctx, l.transfers(ctx, 1<<20)); err != nil {
		t.Fatal(err)
	}
	end(l.nics[0])
	if err := srv.Await(ctx, "rdma_get_cm_event failed, No such device"); err != nil {
		t.Errorf("%v: %s", err, srv.Tail())
	}
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	adm := exec.CommandContext(soon, "tgtadm", "-C", "0", "--op", "show", "--mode", "sys")
	adm.Env, adm.Dir = append(os.Environ(), "TGT_IPC_SOCKET=tgt.sock"), l.dir
	if out, err := adm.CombinedOutput(); err != nil {
		t.Errorf("it no longer answers: %v %s", err, out)
	}
	l.ctls[0].Close()
	l.ctls = l.ctls[1:]
}

// transfers reports whether the server's NIC has sent so many octets of RDMA.
func (l *Lab) transfers(ctx context.Context, octets uint64) func() (bool, error) {
	return func() (bool, error) {
		var rows []view.Counter
		err := l.ctls[0].Show(ctx, "counters", &rows)
		for _, r := range rows {
			if r.Name == "rdma_bytes_out" {
				return r.Value > octets, err
			}
		}
		return false, err
	}
}
