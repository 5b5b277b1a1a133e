package programs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/host/process"
)

// ucx is what Debian's UCX (1.13) needs to be told of a NIC with RoCE: by itself it asks for
// five and six elements of a request, where such a device has four, and it looks for the
// destination of a datagram where only the address of IPv6 is.
var ucx = []string{"UCX_IB_TX_MIN_SGE=3", "UCX_UD_ETH_DGID_CHECK=n", "UCX_NET_DEVICES=rxe0:1"}

// ucxTLS is UCX_TLS by transport: rc_verbs connects its queue pairs by datagrams.
var ucxTLS = map[string]string{"rc_verbs": "rc_verbs,ud_verbs:aux,self,sysv", "ud_verbs": "ud_verbs,self,sysv"}

// ucxCells are the tests of ucx_perftest: those that a transport has by itself, and those of
// the upper layer, of which every run has one for each transport.
func ucxCells(long bool) (list []Cell) {
	add := func(name, settings, args string) {
		cmd := "env " + strings.Join(ucx, " ") + " " + settings
		list = append(list, Cell{Name: name + " " + args, Server: cmd, Socket: true, Client: cmd + " -f -w 10 -t " + args + " " + IPv4})
	}
	lower := map[string][]string{"rc_verbs": {"put_bw -n 100 -s 65536 -D zcopy", "cswap -n 100"}, "ud_verbs": {"am_bw -n 100 -s 1000 -D zcopy"}}
	upper := []string{"tag_bw -n 100 -s 100000"}
	if long {
		lower["rc_verbs"] = append(lower["rc_verbs"], "am_lat -n 1000", "am_bw -n 1000 -s 8000 -D bcopy", "put_lat -n 1000", "get -n 1000 -s 65536 -D zcopy",
			"add_lat -n 1000", "add_mr -n 1000", "fadd -n 1000")
		lower["ud_verbs"] = append(lower["ud_verbs"], "am_lat -n 1000")
		for test := range strings.FieldsSeq("tag_lat tag_sync_lat ucp_put_lat ucp_add ucp_fadd ucp_swap ucp_cswap stream_lat ucp_am_lat") {
			upper = append(upper, test+" -n 1000")
		}
		for test := range strings.FieldsSeq("tag_bw tag_sync_bw ucp_put_bw ucp_get stream_bw ucp_am_bw") {
			upper = append(upper, test+" -n 100 -s 1048576")
		}
	}
	for _, transport := range slices.Sorted(maps.Keys(ucxTLS)) {
		for _, args := range lower[transport] {
			add(transport, "ucx_perftest -d rxe0:1 -x "+transport, args)
		}
		for _, args := range upper {
			add(ucxTLS[transport], "UCX_TLS="+ucxTLS[transport]+" ucx_perftest", args)
		}
	}
	return list
}

// TestUCX runs ucx_perftest over RoCE.
func TestUCX(t *testing.T) {
	needs(t, "ucx_perftest")
	l := roceLab(t)
	for _, c := range ucxCells(*interop) {
		t.Run(c.Name, func(t *testing.T) { runCell(t, l, c, Auto) })
	}
}

// TestLibfabricRoCE runs fi_pingpong over RoCE: by connections, and by datagrams, which iWARP
// has not. Nothing sends its datagrams again: the first one, between NICs that do not know each
// other yet, must arrive.
func TestLibfabricRoCE(t *testing.T) {
	l := roceLab(t)
	const dgram = "fi_pingpong -p verbs -e dgram -I 20 -S 1024 -c"
	t.Run("dgram", func(t *testing.T) {
		runCell(t, l, Cell{Server: dgram, Client: dgram + " " + IPv4, Want: "1k", Socket: true, Restarts: true}, Auto)
	})
	const rxd = "fi_pingpong -p verbs;ofi_rxd -e rdm -I 20 -S 4096 -c"
	for _, c := range append(libfabric(), Cell{Name: "ofi_rxd", Server: rxd, Client: rxd + " " + IPv4, Want: "4k", Socket: true, Restarts: true}) {
		t.Run(c.Name, func(t *testing.T) { runCell(t, l, c, Auto) })
	}
}

// fabtests are the tests of libfabric by unconnected endpoints, of messages and of memory: those
// that every run has, and with long those of `make interop`. Left out is what libfabric's own
// list leaves out for ofi_rxm, or says that the provider has not.
func fabtests(long bool) (list []string) {
	list = []string{"fi_rdm", "fi_rdm_tagged_pingpong -I 5 -S 65536 -v", "fi_rma_bw -o write -I 5 -S 65536", "fi_rma_bw -o read -I 5 -S 65536",
		"fi_rdm_atomic -I 1 -o min -v"}
	if !long {
		return list
	}
	list = []string{"fi_rdm", "fi_rdm -U", "fi_rdm_tagged_peek", "fi_rdm_multi_client -C 10 -I 5", "fi_rdm_multi_client -C 10 -I 5 -U",
		"fi_rdm_cntr_pingpong -I 5"}
	for _, more := range []string{"", " -U", " -v", " -v -U"} {
		for _, program := range []string{"fi_rdm_atomic -o all", "fi_rdm_pingpong", "fi_rdm_tagged_pingpong", "fi_rdm_tagged_bw", "fi_rdm_bw"} {
			list = append(list, program+" -I 5"+more)
		}
	}
	for _, op := range []string{"write", "read", "writedata"} {
		list = append(list, "fi_rma_bw -I 5 -o "+op, "fi_rma_bw -I 5 -U -o "+op)
	}
	return append(list, "fi_rma_pingpong -I 5 -o write", "fi_rma_pingpong -I 5 -o writedata")
}

// TestFabtests runs fabtests over NICs, which .ci/fabtests builds with the libfabric that they
// belong to, newer than Debian's.
func TestFabtests(t *testing.T) {
	dir := filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), "/var/tmp"), "tapir-fabtests", "bin")
	needs(t, filepath.Join(dir, "fi_rma_bw"))
	for name, lab := range map[string]func(*testing.T) *Lab{"iWARP": newLab, "RoCE": roceLab} {
		t.Run(name, func(t *testing.T) {
			l := lab(t)
			for _, test := range fabtests(*interop) {
				// Where a socket (-b) separates the sizes of a test of bandwidth, the first message of a size
				// meets a buffer that is left of the size before.
				socket := !strings.HasPrefix(test, "fi_rdm_bw") && !strings.HasPrefix(test, "fi_rdm_tagged_bw")
				cmd := filepath.Join(dir, test) + " -p verbs;ofi_rxm -e rdm -s "
				if socket {
					cmd = filepath.Join(dir, test) + " -b -p verbs;ofi_rxm -e rdm -s "
				}
				// It crashes as fi_pingpong does when a connection closes.
				c := Cell{Name: test, Server: cmd + IPv4, Client: cmd + "10.9.0.2 " + IPv4, Socket: socket, Restarts: true,
					Known: []string{"exit status 139"}}
				t.Run(test, func(t *testing.T) { runCell(t, l, c, Auto) })
			}
		})
	}
}

// mpiLayer is a library by which Open MPI uses a NIC: arguments of mpirun, and the ranks'
// environment.
type mpiLayer struct {
	args string
	env  []string
}

var (
	byLibfabric = mpiLayer{args: "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm --mca osc ^ucx"}
	mpiLayers   = map[string]mpiLayer{"libfabric": byLibfabric, "rc_verbs": byUCX("rc_verbs"), "ud_verbs": byUCX("ud_verbs")}
)

func byUCX(transport string) mpiLayer {
	return mpiLayer{"--mca pml ucx --mca osc ucx --mca btl ^openib", append(slices.Clone(ucx), "UCX_TLS="+ucxTLS[transport])}
}

// TestOpenMPI: ranks on two NICs, each with its own host TAP, by which mpirun starts the
// other node's.
func TestOpenMPI(t *testing.T) {
	needs(t, "mpirun")
	if err := exec.Command(python, "-c", "import mpi4py").Run(); err != nil {
		t.Skip("python3-mpi4py is not installed")
	}
	sizes := map[int]string{2: "65536"} // largest message by ranks
	if *interop {
		sizes = map[int]string{2: "4194304", 4: "1048576"}
	}
	for _, c := range []struct {
		name   string
		lab    func(*testing.T) *Lab
		layers map[string]mpiLayer
	}{{"iWARP", newLab, map[string]mpiLayer{"libfabric": byLibfabric}}, {"RoCE", roceLab, mpiLayers}} {
		t.Run(c.name, func(t *testing.T) {
			l := c.lab(t)
			write(t, filepath.Join(l.dir, "agent"), fmt.Sprintf("#!/bin/sh\nshift\nexec nsenter --net=/proc/%d/ns/net sh -c \"$*\"\n", l.nics[1].PID()))
			for name, layer := range c.layers {
				for ranks, large := range sizes {
					t.Run(fmt.Sprint(name, ranks), func(t *testing.T) { l.mpi(t, layer, ranks, large) })
				}
			}
		})
	}
}

// python is the interpreter for which Debian packages modules.
const python = "/usr/bin/python3"

// mpi runs ranks of testdata/mpi.py.
func (l *Lab) mpi(t *testing.T, layer mpiLayer, ranks int, large string) {
	script, err := filepath.Abs("testdata/mpi.py")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	argv := strings.Fields("mpirun --mca plm_rsh_agent ./agent --mca oob_tcp_if_include 10.9.0.0/24 " + layer.args)
	for i, host := range []string{"localhost", "10.9.0.2"} {
		argv = append(argv, "-np", fmt.Sprint(ranks/2), "-H", fmt.Sprintf("%s:%d", host, ranks/2))
		argv = append(argv, l.under([]string{server, client}[i], Auto, slices.Concat([]string{"env"}, layer.env, []string{python, script, large}))...)
		argv = append(argv, ":")
	}
	p, err := process.Start(ctx, l.pair.A.NS, process.Options{Dir: l.dir, Argv: argv[:len(argv)-1],
		Env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Wait(ctx); err != nil || p.Line(fmt.Sprintf("verified: %d ranks", ranks)) == "" {
		said := p.Said() // what a program says of its end comes before the traces of all ranks
		t.Errorf("%v: %s\n...\n%s%s", err, said[:min(len(said), 4000)], p.Tail(), l.state())
	}
	if err := l.empty(t.Context()); err != nil {
		t.Error(err)
	}
}
