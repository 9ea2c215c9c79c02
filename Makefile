# make demo | test | lint | bench | bench-index | bench-answer | test-slow   each sets up what it needs first.
PYTHON ?= python3.11
VENV   ?= .venv
ENGINE ?= cpu
BIN     = $(VENV)/bin
LOCK    = configs/environment/$(ENGINE).lock
TORCH_INDEX = https://download.pytorch.org/whl/cpu
export RAY_USAGE_STATS_ENABLED = 0
export VLLM_NO_USAGE_STATS = 1
export DO_NOT_TRACK = 1

.PHONY: setup demo test test-slow lint bench bench-index bench-answer clean

setup: $(VENV)/.installed

# torch's CPU build: from where pip finds it, else from PyTorch's own index.
$(VENV)/.installed: $(LOCK) pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; Tartan needs Python 3.11 (PYTHON=/path/to/python3.11 make ...)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	grep '^torch==' $(LOCK) > $(VENV)/torch.lock
	$(BIN)/pip install --quiet --no-deps -r $(VENV)/torch.lock || $(BIN)/pip install --quiet --no-deps --index-url $(TORCH_INDEX) -r $(VENV)/torch.lock
	$(BIN)/pip install --quiet --no-deps -r $(LOCK)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

demo: setup
	$(BIN)/tartan demo --systems "$(or $(SYSTEMS),hltcoe)" $(DEMO_OPTIONS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: setup lint
	$(BIN)/python -m pytest -m "not slow"

test-slow: setup
	$(BIN)/python -m pytest -m slow

bench: setup
	$(BIN)/python -m tests.benchmarks

# Against colbert-ai's own Indexer, in an environment of its own (2 GB in the cache folder, about 20 minutes once).
bench-index: setup
	$(BIN)/python -m tests.benchmarks.index $(BENCH_OPTIONS)

# Against vLLM and ray.data.llm without us, and with a stub engine; BENCH_OPTIONS="loop --questions 8" for one, smaller.
bench-answer: setup
	$(BIN)/python -m tests.benchmarks.answer $(BENCH_OPTIONS)

clean:
	rm -rf $(VENV) build *.egg-info
