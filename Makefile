# Two commands do everything on a fresh Debian or Ubuntu machine: `make demo` and `make test`.

RUST = 1.95
MUSL = x86_64-unknown-linux-musl
# Peers that Debian does not have, built by scripts/netperf, scripts/neper and others.
BUILT = $(CURDIR)/target/bench/bin
.PHONY: help demo test fuzz bench bench-mpi build mpi shop static deb rust clean

help:
	@echo 'make demo   the main job: IPv6 against IPv4 in a lab on this machine, 2.5 minutes of measuring'
	@echo 'make test   every test'
	@echo 'make fuzz   every fuzz target for SECONDS=60 each (fuzz/README.md)'
	@echo 'make bench  fabricmark against its peers and against bare C loops, 2.5 hours or more;'
	@echo '            a look in minutes: make bench BENCH="--quick --rows stream" (docs/bench.md)'
	@echo 'make build  the program, at target/release/fabricmark'
	@echo 'make mpi    fabricmark-mpi for each MPI library of this machine, beside it (docs/mpi.md)'
	@echo 'make shop   fabricmark-shop, the tiers of a bookstore, beside it (docs/shop.md)'
	@echo 'make static the program for any host of this architecture, at target/$(MUSL)/release/fabricmark'
	@echo 'make deb    a Debian package, in target/debian'

demo: build
	@scripts/need ip=iproute2 tc=iproute2
	target/release/fabricmark run plans/ipv6-vs-ipv4.toml --quick

# RDMA and netem in a kernel that has them.
IN_GUEST = --limit 3h --writable target/bench -- target/release/fabricmark-bench --json target/bench
WITH_NETEM = (RTT 100 ms|^delay).*emulated

bench: rust
	cargo build --release --locked
	@scripts/need cc=build-essential taskset=util-linux ip=iproute2
	@scripts/need iperf3=iperf3 qperf=qperf sockperf=sockperf nuttcp=nuttcp || echo 'going on with the peers that are there'
	@scripts/need setpriv=util-linux nsenter=util-linux
	@export PATH=$(BUILT):$$PATH; \
	{ command -v mm-delay && command -v mm-link; } >/dev/null || scripts/mahimahi || echo 'going on without mahimahi (docs/bench.md)'; \
	command -v netperf >/dev/null || scripts/netperf || echo 'going on without netperf'; \
	command -v tcp_stream >/dev/null || scripts/neper || echo 'going on without neper'; \
	iperf3 --help 2>&1 | grep -q -e --gsro || scripts/iperf3 || echo 'going on without --gsro of iperf3'; \
	code=0; \
	target/release/fabricmark-bench --json target/bench/latest.json $(BENCH) || code=$$?; \
	case "$(BENCH)" in *--rows*|*--quick*|*--ends*) ;; *) \
		target/release/fabricmark lab calibrate --fresh || code=$$?; \
		if command -v qemu-system-x86_64 >/dev/null; then \
			target/release/fabricmark lab guest $(IN_GUEST)/rdma.json --ends 10.9.0.1,10.9.0.2 $(BENCH) || code=$$?; \
			target/release/fabricmark lab guest $(IN_GUEST)/netem.json --rows '$(WITH_NETEM)' $(BENCH) || code=$$?; \
		else echo 'no QEMU: going on without RDMA and netem'; fi; \
		taskset -c 0 target/release/fabricmark-bench-model || code=$$?; \
		for what in connect latency flood hosts; do \
			target/release/fabricmark-bench-agents $$what || code=$$?; \
		done ;; \
	esac; \
	exit $$code

# Rows of MPI operations, 15 minutes: make bench-mpi BENCH="--library mpich --rows PingPong". IMB and OSU by scripts/imb and scripts/osu.
bench-mpi: mpi
	cargo build --release --locked --package fabricmark-bench
	target/release/fabricmark-bench-mpi $(BENCH)

build: rust
	@scripts/need cc=build-essential
	@[ -e target/release/fabricmark ] || echo 'the first build takes two to seven minutes on two CPUs'
	cargo build --release --locked --package fabricmark

# One program for each library, which it links. Open MPI and MPICH may be installed side by side.
mpi: rust
	@[ -n "$$MPICC" ] || command -v mpicc.openmpi >/dev/null || command -v mpicc.mpich >/dev/null || \
		scripts/need "mpicc.openmpi=libopenmpi-dev openmpi-bin"
	@scripts/mpi

shop: build
	cargo build --release --locked --package fabricmark-shop
	@scripts/need nginx=nginx mariadbd=mariadb-server-core my_print_defaults=mariadb-client-core

# Without verbs, whose libraries a static program cannot load. For another architecture name its target and linker:
# make static MUSL=aarch64-unknown-linux-musl CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-musl-gcc
static: rust
	@scripts/need cc=build-essential musl-gcc=musl-tools
	@rustup target add $(MUSL)
	cargo build --release --locked --package fabricmark --target $(MUSL)

deb: build
	@scripts/need dpkg-deb=dpkg readelf=binutils
	@packaging/deb target/release/fabricmark target/debian

test: rust
	@scripts/need cc=build-essential ip=iproute2 tc=iproute2 unshare=util-linux setpriv=util-linux script=bsdutils \
		kill=procps dpkg-deb=dpkg readelf=binutils
	@scripts/need tshark=tshark || echo 'no tshark: the tests of packets will be skipped'
	@scripts/need iperf3=iperf3 openssl=openssl ethtool=ethtool jq=jq || \
		echo 'without iperf3, openssl, ethtool or jq their tests will be skipped'
	@scripts/need qemu-system-x86_64=qemu-system-x86 busybox=busybox-static depmod=kmod rdma=iproute2 \
		"ibv_devices=ibverbs-utils ibverbs-providers" || echo 'no QEMU: the tests in a guest kernel will be skipped'
	@scripts/need "mpicc.openmpi=libopenmpi-dev openmpi-bin" "mpicc.mpich=libmpich-dev mpich" || \
		echo 'no MPI: the tests of MPI will be skipped'
	@scripts/need slurmctld=slurm-wlm munged=munge || echo 'no Slurm: its test will be skipped'
	@scripts/need nginx=nginx || echo 'no nginx: the tests of the shop will be skipped'
	@scripts/need node=nodejs npm=npm || echo 'no Node.js: the test of the shop in a browser will be skipped'
	@scripts/need mariadbd=mariadb-server-core my_print_defaults=mariadb-client-core || echo 'no MariaDB: the test of the shop with it will be skipped'
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || scripts/need initdb=postgresql || \
		echo 'no PostgreSQL: the test of the shop with it will be skipped'
	@scripts/need chronyd=chrony || echo 'no chronyd: the test of NTP will be skipped'
	@scripts/need chromium=chromium || echo 'no chromium: the test of the page will be skipped'
	@command -v netperf >/dev/null || [ -x $(BUILT)/netperf ] || scripts/netperf || echo 'no netperf: its tests will be skipped'
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	@# Built without optimisation: it is used once, for a second.
	@cargo deny --version >/dev/null 2>&1 || CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --quiet --debug cargo-deny
	@# The iperf3 that `make bench` builds has no authentication.
	@PATH=$$PATH:$(BUILT) scripts/test-all

SECONDS = 60
fuzz: rust
	@scripts/fuzz $(SECONDS)

rust:
	@command -v cargo >/dev/null 2>&1 || { \
		echo 'Rust is missing: README.md says how to get it (https://rustup.rs)' >&2; exit 66; }
	@have=$$(rustc --version | cut -d' ' -f2); \
	[ "$$(printf '%s\n' $(RUST) "$$have" | sort -V | head -n1)" = "$(RUST)" ] || { \
		echo "Rust $$have is too old: run rustup update (needs $(RUST))" >&2; exit 66; }

clean:
	cargo clean
	rm -rf fabricmark-results
