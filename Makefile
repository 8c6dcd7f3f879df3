# Every target is one line; the logic is in xtask. A comment behind ## is its line in `make help`.
XTASK = cargo run --quiet --package xtask --

.PHONY: help demo test check bench conform soak bless
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' Makefile | expand -t 16

demo: ## the shop, one request whole, two bugs found, a report (cold 10 min, warm 1 min)
	@$(XTASK) demo

test: ## everything, set-up included (a budget of minutes per area; some: AREAS="shop tool")
	@$(XTASK) test $(AREAS)

check: ## format, lint, layering, unit tests, vectors (about two minutes)
	@$(XTASK) check

conform: ## every SDK over every vector, with a parity table
	@$(XTASK) conform

bench: ## all benches; `make bench-NAME` runs one
	@$(XTASK) bench all

bench-%: ## one bench: sweep, tracing, attach, sockets, flips
	@$(XTASK) bench $*

paper-%: ## a paper's measurements, done again: sei, transtracer
	@$(XTASK) papers $*

soak: ## what takes longer than a test may: fuzzing, hundreds of seeds, many rounds
	@$(XTASK) soak

bless: ## rewrite vectors and goldens from the reference implementation; review the diff like code
	@$(XTASK) bless
