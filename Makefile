# make            build bin/tapir
# make demo       see it work (needs only Go)
# make test       check everything; brings its tools on Debian and Ubuntu
# make help       the rest

GO        ?= go
PREFIX    ?= /usr/local
DESTDIR   ?=
BIN       ?= bin
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The version comes from git by way of VERSION; the toolchain's own stamping
# fails in a tree that another user owns.
export GOFLAGS += -buildvcs=false

bindir  = $(DESTDIR)$(PREFIX)/bin
mandir  = $(DESTDIR)$(PREFIX)/share/man/man1
bashdir = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# The binary is static: it runs in an empty container.
build     = GO='$(GO)' VERSION='$(VERSION)' .ci/program
# What takes longest begins first. The runner's directory begins with a dot, which
# ./... leaves out.
packages  = ./lab/check/programs ./lab/tool/demo ./lab/run/real ./... ./.ci/gotest ./.ci/dead ./.ci/count ./.ci/picture
# Implementations to test against that users shall not inherit live in a module
# of their own.
modules   = lab/check/oracle,lab/k8s
# Linters live in a module of their own for the same reason.
lint      = $(GO) tool -modfile=.ci/lint/go.mod staticcheck ./...
dead      = $(GO) run ./.ci/dead
# The long forms of applications under tapir run.
applications = ^Test(Applications|Languages|OpenMPI|UCX|LibfabricRoCE|Fabtests|TargetOutlivesNIC|Migration|Debuggers|Many|Forks|Kills|LargeMessages)$$
fuzz      = $(GO) run ./.ci/gotest -only-fuzz -targets '$(TARGETS)'

.PHONY: all build demo test interop newer race fuzz bench bench-ptp bench-virtual bench-compare count profile soak attack ledger mutate microbench cross images release install uninstall check clean help

all: build

build:
	$(build) -o $(BIN)/tapir

demo: build
	$(BIN)/tapir demo

test: build
	@sh .ci/tools
	TAPIR_BUILT=$(abspath $(BIN)/tapir) $(GO) run ./.ci/gotest -checks '$(lint);$(dead)' -skips .ci/skips -nested $(modules) $(if $(filter true,$(CI)),-fuzz 20s) $(packages)

interop: build
	@sh .ci/tools
	$(GO) run ./lab/check/siw/matrix -tapir $(BIN)/tapir -keep out $(if $(CELLS),-only '$(CELLS)',-o docs/evidence/interop.md)
	$(GO) run ./lab/check/siw/matrix -roce -tapir $(BIN)/tapir -keep out $(if $(CELLS),-only '$(CELLS)',-o docs/evidence/interop-roce.md)
	$(if $(CELLS),,.ci/again $(GO) run ./lab/check/siw/matrix -tapir $(BIN)/tapir -keep out -stream)
	$(if $(CELLS),,.ci/again $(BIN)/tapir lab test lab/examples/siw-interop/lab.yaml)
	$(if $(CELLS),,.ci/again $(GO) run ./lab/check/states)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 10m -run '^TestNIC$$' ./lab/tool/live -interop)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 10m -run '^TestVLANInterfaces$$' ./lab/host/peer -interop)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 30m -run '^(TestNetdevsim|TestQEMU)$$' ./lab/check/iplink -interop)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 10m -run '^TestSpeeds$$' ./lab/node/nicnode -interop)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 10m -run '^TestTools$$' ./lab/check/images -all)
	$(if $(CELLS),,TAPIR_BUILT=$(abspath $(BIN)/tapir) .ci/again $(GO) test -C lab/k8s -count=1 -timeout 10m -run '^TestAgainAndAgain$$' . -times 100)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 10m ./lab/check/rxe -interop)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 20m ./lab/check/release -interop)
	$(if $(CELLS),,TAPIR_BUILT=$(abspath $(BIN)/tapir) .ci/again $(GO) test -count=1 -timeout 20m -run '$(applications)' ./lab/check/programs -interop)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 20m ./lab/check/wires -interop)
	$(if $(CELLS),,GO='$(GO)' VERSION='$(VERSION)' .ci/again .ci/arm64)
	$(if $(CELLS),,.ci/again $(GO) test -count=1 -timeout 20m ./lab/check/storage -interop)

newer:
	@sh .ci/newer

race:
	@sh .ci/tools
	$(GO) run ./.ci/gotest -skips .ci/skips -race $(or $(PACKAGES),$(packages))

fuzz:
	$(fuzz) -fuzz $(or $(CPU),20s) -fuzz-budget 24h $(packages)

bench: build
	$(GO) build -trimpath -pgo=cmd/tapir/default.pgo -o $(BIN)/bench ./lab/check/bench
	$(GO) build -C lab/check/oracle -trimpath -o $(abspath $(BIN))/netstack ./netstack
	$(BIN)/bench -tapir $(abspath $(BIN))/tapir -netstack $(BIN)/netstack $(if $(BENCH),-sets $(BENCH),-o docs/evidence/performance.md)

bench-ptp: build
	@sh .ci/tools
	$(GO) build -trimpath -o $(BIN)/ptpbench ./lab/check/ptpbench
	$(GO) test -C lab/check/oracle -c -o $(abspath $(BIN))/oracle.test .
	$(BIN)/ptpbench -tapir $(abspath $(BIN))/tapir -oracle $(BIN)/oracle.test $(if $(ROWS),-rows $(ROWS),-o docs/evidence/ptp-performance.md)

bench-virtual:
	$(GO) build -trimpath -o $(BIN)/scale ./lab/check/scale
	$(BIN)/scale -o docs/evidence/performance.md

count:
	@$(GO) run ./.ci/count $(OLD)

bench-compare:
	@$(GO) run ./lab/check/compare -old '$(OLD)' $(if $(ROWS),-rows $(ROWS))

# cmd/tapir/default.pgo tells the compiler where the time goes: about a tenth
# of the processor time of bulk traffic. Dots hide where it was taken.
profile:
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$(GO) build -trimpath -o $$dir/bench ./lab/check/bench && \
	$$dir/bench -sets gso,wire,ping,capture,run,host -rounds 1 -duration 2s -profiles $$dir && \
	$(GO) tool pprof -proto $$dir/*.pprof | gunzip | \
	LC_ALL=C sed "s#$$dir#$$(echo $$dir | tr '[:print:]' .)#g" | gzip -9n >cmd/tapir/default.pgo

microbench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

soak:
	status=0; $(fuzz) -fuzz $(or $(CPU),10m) -table docs/evidence/fuzz.md -slow .ci/fuzz-slow $(packages) || status=1; \
	$(if $(TARGETS),,sh .ci/soak || status=1;) exit $$status

attack: build
	@sh .ci/tools
	$(GO) build -trimpath -o $(BIN)/attack ./lab/check/attack
	$(BIN)/attack -tapir $(BIN)/tapir $(if $(ATTACKTIME),-time $(ATTACKTIME)) $(if $(ROWS),-rows $(ROWS),-o docs/evidence/attack.md)

ledger:
	$(GO) run ./lab/check/ledger

mutate:
	$(GO) run ./lab/check/ledger -mutate -n $(or $(N),60) -seed $(or $(SEED),1) $(if $(N)$(SEED),,-o docs/evidence/mutate.md)

check:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run: gofmt -w on these files'; exit 1; }
	$(GO) vet $(packages)
	$(lint)
	$(dead)

cross:
	GOOS=linux GOARCH=amd64 $(build) -o $(BIN)/tapir-linux-amd64
	GOOS=linux GOARCH=arm64 $(build) -o $(BIN)/tapir-linux-arm64

images:
	.ci/images out/images

# The tag stands on what was built; pushing it is left to people.
release:
	@test -z "$$(git status --porcelain)" || { echo 'commit first: git status is not clean'; exit 1; }
	@grep -q '^## $(VERSION:v%=%)\b' CHANGELOG.md || { echo 'CHANGELOG.md has no section of $(VERSION:v%=%)'; exit 1; }
	.ci/release/build $(VERSION) out/release
	git tag -a -m 'Tapir $(VERSION)' $(VERSION)

install: build
	install -d $(bindir) $(mandir) $(bashdir) $(zshdir) $(fishdir)
	install -m 755 $(BIN)/tapir $(bindir)/tapir
	$(BIN)/tapir man $(mandir)
	$(BIN)/tapir completion bash > $(bashdir)/tapir
	$(BIN)/tapir completion zsh > $(zshdir)/_tapir
	$(BIN)/tapir completion fish > $(fishdir)/tapir.fish

uninstall:
	rm -f $(bindir)/tapir $(mandir)/tapir.1 $(mandir)/tapir-*.1
	rm -f $(bashdir)/tapir $(zshdir)/_tapir $(fishdir)/tapir.fish

clean:
	rm -rf $(BIN) out

help:
	@echo 'make                     build bin/tapir'
	@echo 'make demo                two NICs, verified RDMA, a capture to open'
	@echo 'make test                gofmt, vet, staticcheck and all tests; in CI fuzzing too'
	@echo 'make interop             NICs against siw and rxe of Linux; into docs/evidence/interop.md, interop-roce.md'
	@echo '                         and the wire scripts, compared with docs/evidence/scripts-state.md,'
	@echo '                         and with a program under tapir run,'
	@echo '                         and VLAN interfaces of a guest through a host TAP,'
	@echo '                         and ip link about VFs of netdevsim, and a guest with a VF,'
	@echo '                         and applications under tapir run, the long forms,'
	@echo '                         and demo and rping on an arm64 machine that QEMU emulates'
	@echo 'make interop CELLS=smoke only the cells whose name has this, printed'
	@echo 'make newer SUITE=trixie  RDMA programs of another Debian release against those here'
	@echo 'make race                the race detector, wherever goroutines meet; PACKAGES=./nic/... there'
	@echo 'make fuzz CPU=1m         every fuzz target for that long'
	@echo 'make soak                every fuzz target for ten CPU minutes, into docs/evidence/fuzz.md; then TCP'
	@echo '                         against Linux and gVisor for hours; writes docs/evidence/soak.md'
	@echo 'make soak TARGETS=^tapir/wire CPU=1m  only these fuzz targets, for that long'
	@echo 'make attack              hostile peers, programs and files; writes docs/evidence/attack.md'
	@echo 'make attack ROWS=syn,live only these rows, printed'
	@echo 'make attack ATTACKTIME=1h all rows for so long, about (default 10m)'
	@echo 'make bench               NICs against the kernel'\''s TCP, into docs/evidence/performance.md'
	@echo 'make bench BENCH=gso,ucx only these parts, printed (bin/bench -help lists all)'
	@echo 'make bench-ptp           clocks, simulated and against ptp4l, into docs/evidence/ptp-performance.md'
	@echo 'make bench-ptp ROWS=R1,S3 only these rows, printed'
	@echo 'make bench-virtual       labs in virtual time, to 1,000 NICs, into docs/evidence/performance.md'
	@echo 'make bench-compare OLD=v1 tapir against that of an older revision; fails when slower'
	@echo 'make bench-compare OLD=v1 ROWS=write,small only these rows'
	@echo 'make count OLD=v1        statements and lines by packages; OLD= beside those of a revision'
	@echo 'make profile             measure where the time goes, for the compiler'
	@echo 'make ledger              docs/evidence/ledger.md: each clause of the iWARP RFCs and its test'
	@echo 'make mutate              disable 60 clauses, see their tests fail; into docs/evidence/mutate.md'
	@echo 'make mutate SEED=7 N=0   drawn by another seed; N=0: all that have a mutation'
	@echo 'make microbench          all Go benchmarks'
	@echo 'make cross               static binaries for linux/amd64 and linux/arm64'
	@echo 'make images              OCI images of the program, and with RDMA and PTP tools, in out/images'
	@echo 'make release VERSION=v0.1.0  programs, deb, rpm and list of modules in out/release, and a tag'
	@echo 'make install PREFIX=DIR  binary, man pages, completions (DESTDIR= for packagers)'
	@echo 'make uninstall           remove what install wrote'
	@echo 'make check               gofmt, vet, staticcheck, functions that nothing calls'
	@echo 'make clean               remove bin and out'
