# The verbs of ClientMCP. `make` alone lists them; CI calls the same ones.

help: # lists the verbs
	@sed -n 's/^\([a-z-]*\):.*# /make \1	/p' Makefile

run: # builds the bridge and serves it, with a demo page; more flags with ARGS='--listen 127.0.0.1:9000'
	@cargo build --bin clientmcp
	@cargo run --quiet --bin clientmcp -- serve --dev $(ARGS)

test: # runs all tests, after installing the agents that some of them drive
	@sh tests/agents/install.sh
	@sh tests/browser/install.sh
	@sh tests/proxy/install.sh
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-8} cargo test --workspace --no-fail-fast

lint: # checks the format, clippy's lints, the dependencies (deny.toml) and what proto promises
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@sh .ci/promises
	@sh .ci/dependencies lint

advisories: # compares all dependencies with the RustSec database, where that can be fetched
	@sh .ci/dependencies advisories

sbom: # lists what is linked into the bridge, as CycloneDX, in target/sbom
	@sh .ci/dependencies sbom

static: # builds one static binary, and one that only serves, and runs both where there is nothing else
	@sh bench/static $$(rustc -vV | sed -n 's/^host: //p') static

RUNS ?= 5000000
HISTORIES ?= 100000
FUZZ = $(or $(TARGET),http1 json token headers channel offer agent mrtr notes upstream)
# What is found goes to fuzz/target; what is worth keeping is copied to fuzz/corpus, which `make test` replays.
fuzz: # runs HISTORIES of the simulation and every fuzz target RUNS times, or TIME=60 seconds long; one with TARGET=json
	@command -v cargo-fuzz >/dev/null || { echo "fuzz: cargo-fuzz is missing, installing it"; cargo install cargo-fuzz --locked; }
	@rustup run nightly rustc --version >/dev/null || { echo "fuzz: libFuzzer needs a nightly compiler: rustup toolchain install nightly"; exit 1; }
	@$(if $(TARGET),,echo "fuzz: $(HISTORIES) histories on a pretend network" && HISTORIES=$(HISTORIES) cargo test --lib simulation)
	@for target in $(FUZZ); do \
		mkdir -p fuzz/target/corpus/$$target && \
		echo "fuzz: $$target" && \
		cargo +nightly fuzz run --sanitizer none $$target fuzz/target/corpus/$$target fuzz/corpus/$$target -- \
			$(if $(TIME),-max_total_time=$(TIME),-runs=$(RUNS)) -max_len=2560 -timeout=10 \
			-dict=fuzz/words.dict -print_final_stats=1 || exit 1; \
	done

static-musl: # the same on musl, where its Rust target is installed
	@sh bench/static $$(uname -m)-unknown-linux-musl static-musl

bench: static # measures the static bridge against a baseline and a floor; more flags with ARGS
	cargo run --release -p clientmcp-bench -- --server $${CARGO_TARGET_DIR:-target}/static/clientmcp $(ARGS)

MINUTES ?= 30
soak: static # everything that agents and clients do, for MINUTES=30, with books kept, on the static bridge
	cargo run --release -p clientmcp-bench -- soak --minutes $(MINUTES) --server $${CARGO_TARGET_DIR:-target}/static/clientmcp $(ARGS)

attack: static # throws all that is bad at the static bridge while a hundred agents call
	cargo run --release -p clientmcp-bench -- attack --server $${CARGO_TARGET_DIR:-target}/static/clientmcp $(ARGS)

.PHONY: help run test lint advisories sbom static static-musl bench soak attack fuzz
