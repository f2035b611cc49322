# The verbs of ClientMCP. `make` alone lists them; CI calls the same ones.

help: # lists the verbs
	@sed -n 's/^\([a-z]*\):.*# /make \1	/p' Makefile

run: # builds the bridge and serves it, with a demo page; more flags with ARGS='--listen 127.0.0.1:9000'
	@cargo build --bin clientmcp
	@cargo run --quiet --bin clientmcp -- serve --dev $(ARGS)

test: # runs all tests, after installing the agents that some of them drive
	@sh tests/agents/install.sh
	@sh tests/browser/install.sh
	@sh tests/proxy/install.sh
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-8} cargo test --workspace --no-fail-fast

lint: # checks the format, clippy's lints, the dependency rule and what proto promises
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@sh .ci/promises

bench: # measures the bridge in a release build; more flags with ARGS
	cargo run --release -p clientmcp-bench -- $(ARGS)

.PHONY: help run test lint bench
