# Every target is one line; the logic is in xtask. A comment behind ## is its line in `make help`.
XTASK = cargo run --quiet --package xtask --
# benches build everything optimized
BENCH = cargo run --quiet --profile bench-tool --package xtask --

.PHONY: help demo test check bench conform package soak bless
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: ## the shop, one request whole, two bugs found, a report (cold 5 min, warm 20 s)
	@$(XTASK) demo

test: ## everything, set-up included (about 35 minutes cold on two cores; some: AREAS="shop tool")
	@$(XTASK) test $(AREAS)

check: ## format, lint, layers, words, unit tests, vectors (warm 20 s, cold 7 min; one toolchain: AREAS=rust)
	@$(XTASK) check $(AREAS)

conform: ## every SDK over every vector, with a parity table
	@$(XTASK) conform

bench: ## all benches; `make bench-NAME` runs one
	@$(BENCH) bench all

bench-%: ## one bench: build, install, sweep, tracing, attach, causes, sockets, flips, robust
	@$(BENCH) bench $*

paper-%: ## a paper's measurements, done again: sei, transtracer
	@$(XTASK) papers $*

package: ## the .deb, the SDKs' packages and their sums, in out/package (about 10 minutes; needs PyPI for zig)
	@$(XTASK) package

soak: ## what takes longer than a test may: fuzzing, hundreds of seeds, many rounds
	@$(XTASK) soak

bless: ## rewrite vectors and goldens from the reference implementation; review the diff like code
	@$(XTASK) bless
