# make demo   everything on a fresh machine: environment, a short training, its figures, a report of them
# make test   everything on a fresh machine: environment, tests, doctests
# make docs   everything on a fresh machine: environment, the documentation site
# make weights of runs that were analysed, RUNS: what `export` writes of each, their checksums, and one archive
# make bench  everything on a fresh machine: environment, the benchmark of samplers; with SMALL=1, all of benchmarks/ in seconds each
PYTHON ?= python3
VENV   ?= .venv
RUN    ?= runs/demo
EXTRAS ?= dev,parquet,render

BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
SITE    := $(VENV)/.installed-docs
PROGRAM := $(BIN)/plot-attractors

.PHONY: demo test docs bench weights lint wheel clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo    install, train a small model of hierarchical binary vectors, draw its figures, write a report"
	@echo "make test    install, run the tests and the doctests"
	@echo "make docs    install, build the documentation site into docs/_build/html"
	@echo "make bench   install, compare samplers; make bench SMALL=1 runs every benchmark small, make bench-NAME one"
	@echo "make weights export the runs RUNS, which were analysed, into weights/, with checksums, as weights.tar.gz"
	@echo "make lint    install, run ruff and mypy"
	@echo "make wheel   install, build the wheel into dist/"
	@echo "make clean   remove the environment, built files and caches (runs/ stays)"

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "plot-attractors needs Python 3.11 or later, and there is no $(PYTHON) here: install it, or name another with make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("plot-attractors needs Python 3.11 or later, and $(PYTHON) is %d.%d: name another with make PYTHON=..." % v[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

# What a newcomer looks at, in two processes, at a third or so of the default sizes.
FIRST  := trajectories sentences calibration training
SECOND := information_loss perturbation behaviour data
SIZES := calibration.inputs=16 calibration.wide_inputs=128 information_loss.inputs=1000 \
	perturbation.trajectories=300 perturbation.norms=15 behaviour.inputs=64 behaviour.draws=64

analyses = OMP_NUM_THREADS=1 $(PROGRAM) analyze $(RUN) $($1) \
	$(addprefix --set ,$(filter $(addsuffix .%,$($1)),$(SIZES)))

# --resume starts where nothing is there yet, goes on after an interruption, and returns at once when all is done.
# One thread: a second one takes a fifth of the time away on idle cores, and triples it beside other work.
demo: $(STAMP)
	OMP_NUM_THREADS=$(or $(OMP_NUM_THREADS),1) $(PROGRAM) fit hbv --preset demo --out $(RUN) --resume
	$(call analyses,FIRST) & first=$$!; $(call analyses,SECOND); second=$$?; wait $$first && exit $$second
	$(PROGRAM) report $(RUN)
	@echo "Done. Open $(RUN)/report.html; tables and figures are in $(RUN)/analyses/, the settings in $(RUN)/config.toml."

# Two processes of one thread each; a file's tests stay together, for they share what is trained for them.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --doctest-modules tests plot_attractors

$(SITE): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	@touch $@

# The tutorials are executed, and every warning is an error.
docs: $(SITE)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going --quiet docs docs/_build/html
	@echo "Done. Open docs/_build/html/index.html."

BENCH     = $(BIN)/python benchmarks/$*.py $(if $(SMALL),--small,runs/$* --seconds 15)

bench: bench-samplers

bench-%: $(STAMP)
	@mkdir -p runs/bench
	OMP_NUM_THREADS=1 bash -o pipefail -c '$(BENCH) 2>&1 | tee -a $(if $(SMALL),/dev/null,runs/bench/$*.md)'

.NOTPARALLEL:

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

# What is there is left alone.
weights: $(STAMP)
	@test -n "$(RUNS)" || { echo "make weights needs runs: make weights RUNS='paper/runs/*'"; exit 1; }
	@mkdir -p weights
	set -e; for run in $(RUNS); do to=weights/$$(basename $$run); test -d $$to || $(PROGRAM) export $$run $$to; done
	cd weights && sha256sum */weights.safetensors > SHA256SUMS
	tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c weights | gzip -n > weights.tar.gz
	@sha256sum weights.tar.gz

wheel: $(STAMP)
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf $(VENV) dist build docs/_build docs/reference/library docs/reference/programs docs/reference/commands.md docs/reference/metrics.md
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
