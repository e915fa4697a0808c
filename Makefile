# kvbench: make run | demo | test | test-distributed | check | check-systems | fuzz | miri | bench | setup
#
# Outside the checkout, so that a new clone in its place finds everything compiled.
CARGO_TARGET_DIR ?= $(HOME)/.cache/kvbench-target
export CARGO_TARGET_DIR

# The engine that `make run` serves, and more options for it: make run STORE=lmdb ARGS="--port 7000"
STORE ?= map
ARGS ?=

# Only the server and the engine that is asked for are built: no benchmark, no TLS.
FEATURE := $(shell sed -n 's/^{"name":"$(STORE)",.*"feature":"\([^"]*\)".*/\1/p' docs/stores.json)
FEATURES := --no-default-features $(if $(FEATURE),--features $(FEATURE))

.PHONY: run demo test test-distributed check check-systems fuzz miri bench setup

run:
	@tools/setup $(STORE)
	cargo run --release $(FEATURES) -- --store $(STORE) $(ARGS)

# Engines that build in a minute; `kvbench stores --json` has the features of the others.
DEMO_FEATURES ?= lmdb,sled,redb
DEMO ?= kvbench-demo

demo:
	@tools/setup lmdb
	cargo build --release --no-default-features --features bench,$(DEMO_FEATURES)
	@tools/demo "$(CARGO_TARGET_DIR)/release/kvbench" "$(DEMO)"

TESTS = cargo test --release --workspace --features fault-injection,canopydb,redis

# Most tests wait: for a disk, a timer or another process.
test: export RUST_TEST_THREADS ?= $(shell expr 3 \* $$(getconf _NPROCESSORS_ONLN))
test:
	@tools/setup test
	$(TESTS)

# Over small clusters on this machine; Go builds that of TiKV's protocol the first time. See docs/distributed.md. Where all
# tests were built, DISTRIBUTED='$(TESTS) --test distributed' builds nothing else for the Redis Cluster.
CLUSTERS ?= redis tikv
NODES_redis := KVBENCH_NODES=127.0.0.1:17001,127.0.0.1:17002
NODES_tikv := KVBENCH_PD=127.0.0.1:2379
comma := ,
DISTRIBUTED = cargo test --release --no-default-features --features $(subst $() ,$(comma),$(strip $(CLUSTERS))),tls,fault-injection \
  --test distributed
# `make test` builds no TiKV.
UNIT_TESTS = $(subst --test distributed,--lib,$(DISTRIBUTED)) -- stores::tikv

test-distributed:
	@tools/setup map
	$(DISTRIBUTED) --no-run
	$(if $(filter tikv,$(CLUSTERS)),$(UNIT_TESTS))
	@set -e; $(foreach cluster,$(CLUSTERS),echo "== $(cluster)"; tools/cluster $(cluster) down; tools/cluster $(cluster) up; \
	  failed=0; \
	  tools/cluster $(cluster) exec env $(NODES_$(cluster)) CARGO_NET_OFFLINE=true $(DISTRIBUTED) -- --test-threads 4 --nocapture \
	    || failed=$$?; \
	  tools/cluster $(cluster) down; [ $$failed = 0 ] || exit $$failed;)

# What must be clean before a change lands, besides the tests.
check:
	@tools/setup all
	cargo fmt --check
	find src/engine/stores benches/bare/side tools/history -name target -prune -o -name '*.rs' -print | xargs rustfmt --check --edition 2024
	cargo clippy --release --workspace --all-targets --all-features -- -D warnings
	cargo clippy --release --test distributed --all-features -- -D warnings
	cargo clippy --release --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --lib --all-features
	tools/check-rocksdb $(TESTS)
	tools/package

# Whether the code compiles for macOS and for musl. Without a C compiler for them, of the engines those in Rust.
SYSTEMS ?= aarch64-apple-darwin x86_64-unknown-linux-musl

check-systems:
	rustup target add $(SYSTEMS)
	RUSTFLAGS="-D warnings" cargo check --lib --bins --no-default-features \
	  --features bench,top,manual,torture,redb,sled,fjall,redis $(addprefix --target ,$(SYSTEMS))

# Each target for so many seconds: make fuzz SECONDS=3600 TARGETS=decoder. Needs a nightly compiler and cargo-fuzz;
# what is found is kept in fuzz/artifacts, and new corpus entries in the target directory.
SECONDS ?= 60
TARGETS ?= decoder connection aof_replay bitcask_files glob options
FUZZ := $(CARGO_TARGET_DIR)-fuzz

fuzz:
	@for target in $(TARGETS); do \
	  mkdir -p "$(FUZZ)/corpus/$$target" && \
	  CARGO_TARGET_DIR="$(FUZZ)" cargo +nightly fuzz run $$target "$(FUZZ)/corpus/$$target" fuzz/corpus/$$target -- \
	    -max_total_time=$(SECONDS) -timeout=20 $$(test $$target = decoder && echo -dict=fuzz/resp.dict) || exit 1; \
	done

# What an interpreter of Rust that checks every access can run. Needs a nightly compiler with miri and rust-src.
MIRI := resp:: command::glob engine::batch engine::memory_table::hash engine::memory_table::concurrent_scan_tests

miri:
	CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)-miri" MIRIFLAGS=-Zmiri-disable-isolation \
	  cargo +nightly miri test --no-default-features --lib -- $(MIRI)

bench:
	@tools/setup all
	cargo bench

setup:
	@tools/setup test
