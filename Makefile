# Every target makes the machine ready first (tools/bootstrap.py) and then calls one command; "make help" lists them.

PYTHON ?= python3
SIM ?= verilator
TRACE ?=
N ?=
CONCURRENCY ?=
CAPACITY ?=
COMPLETION ?=
SEED ?=
EVENTS ?=
FROM ?=
TO ?=

# The simulators call make themselves: what is set for this call must not reach their makefiles.
unexport MAKEFLAGS MFLAGS

ready := $(PYTHON) tools/bootstrap.py
venv := .venv/bin
load := $(if $(N),--sessions $(N)) $(if $(SEED),--seed $(SEED))
replay := --simulator $(SIM) $(load) $(if $(CONCURRENCY),--concurrency $(CONCURRENCY)) \
    $(if $(CAPACITY),--capacity $(CAPACITY)) $(if $(COMPLETION),--completion $(COMPLETION))
trace := $(if $(TRACE),--trace "$(TRACE)")

.DEFAULT_GOAL := help
.PHONY: help sim sim-all fuzz wave pictures verilog synth report report-test test lint eval paper registers mutants clean distclean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r target text; do \
	    printf '  make %-11s %s\n' "$$target" "$$text"; done
	@printf '\nVariables: TRACE=file SIM=verilator|icarus N=slots CONCURRENCY=sessions CAPACITY=envelope|SRAM:HBM\n'
	@printf '  COMPLETION=explicit|silent SEED=number EVENTS=number FROM=event TO=event UNISON_TRACES=folder PYTHON=interpreter\n'

sim: ## Replay a trace on the RTL and compare every decision with the golden model
	@$(ready) $(SIM)
	@$(venv)/python -m unison.sim sim $(trace) $(replay)

sim-all: ## The same for every trace in UNISON_TRACES
	@$(ready) $(SIM)
	@$(venv)/python -m unison.sim all $(replay)

fuzz: ## Random and illegal events on the RTL and the golden model
	@$(ready) $(SIM)
	@$(venv)/python -m unison.sim fuzz --simulator $(SIM) $(load) $(if $(EVENTS),--events $(EVENTS))

wave: ## Waves of a window of a trace (FST), with a saved view for GTKWave
	@$(ready) $(SIM)
	@$(venv)/python -m unison.sim wave $(trace) $(replay) $(if $(FROM),--from $(FROM)) $(if $(TO),--to $(TO))

pictures: ## The pictures of waves in docs/, by GTKWave on a virtual display
	@$(ready) verilator
	@$(venv)/python -m unison.sim.pictures

verilog: ## The RTL as one plain Verilog file, build/unison.v
	@$(ready)
	@$(venv)/python -m unison.hdl.verilog $(if $(N),--sessions $(N)) -o build/unison.v

synth: ## LUTs, flip-flops and DSPs of each block on a Xilinx 7-series FPGA, by Yosys
	@$(ready) synth
	@$(venv)/python synth/area.py $(if $(N),--sessions $(N))

report: ## The page of the evaluation's results, build/eval/report.html
	@$(ready)
	@$(venv)/unison report

report-test: ## The report in a headless browser (Debian's chromium and chromium-driver)
	@$(ready) test browser
	@$(venv)/pytest tests/test_report.py

test: ## Lint and all tests
	@$(ready) verilator icarus registers lab test
	@$(venv)/ruff check --quiet .
	@$(venv)/pytest --numprocesses $$(nproc) --dist worksteal --durations=10

lint: ## Lint alone
	@$(ready) test
	@$(venv)/ruff check .

eval: ## Policy lab: six traces, six envelopes, all policies, completion told and not; build/eval/results.json
	@$(ready) lab
	@$(venv)/unison eval $(ARGS)

paper: ## The paper's tables and figures on our traces, build/paper/*.json and *.csv
	@$(ready) lab
	@$(venv)/unison paper $(if $(ARGS),$(ARGS),all)

registers: ## Register documents in build/registers, and the committed ones from them
	@$(ready) registers
	@$(venv)/python -m unison.exports --update

mutants: ## Break the design on purpose and see the tests fail
	@$(ready) verilator icarus registers test
	@$(venv)/python -m tests.mutants

clean: ## Remove what was generated
	rm -rf build .pytest_cache .ruff_cache

distclean: clean ## Remove the virtual environment as well
	rm -rf .venv unison.egg-info
