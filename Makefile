# kvbench: make run | demo | test | check | bench | setup
#
# Outside the checkout, so that RocksDB (many minutes of C++) is compiled once and not for every clone.
CARGO_TARGET_DIR ?= $(HOME)/.cache/kvbench-target
export CARGO_TARGET_DIR

# The engine that `make run` serves, and more options for it: make run STORE=lmdb ARGS="--port 7000"
STORE ?= map
ARGS ?=

# Only the engine that is asked for is built.
NATIVE := $(filter-out map btree,$(STORE))
FEATURES := --no-default-features $(if $(NATIVE),--features $(NATIVE))

ROCKSDB_TAKES_TIME := echo "RocksDB compiles for 10 to 30 minutes, once."

.PHONY: run demo test check bench setup

run:
	@tools/setup $(STORE)
	@$(if $(filter rocksdb,$(STORE)),$(ROCKSDB_TAKES_TIME))
	cargo run --release $(FEATURES) -- --store $(STORE) $(ARGS)

# The engines that build in a minute; with those that are built already, DEMO_FEATURES=rocksdb,lmdb,sled,redb.
DEMO_FEATURES ?= lmdb,sled,redb
DEMO ?= kvbench-demo

demo:
	@tools/setup lmdb
	cargo build --release --no-default-features --features $(DEMO_FEATURES)
	@tools/demo $(CARGO_TARGET_DIR)/release/kvbench $(DEMO)

test:
	@tools/setup test
	@$(ROCKSDB_TAKES_TIME)
	cargo test --release --features fault-injection

# What must be clean before a change lands, besides the tests.
check:
	@tools/setup all
	cargo fmt --check
	cargo clippy --release --all-targets --features fault-injection -- -D warnings
	cargo clippy --release --all-targets --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps --lib
	tools/package

bench:
	@tools/setup all
	cargo bench

setup:
	@tools/setup test
