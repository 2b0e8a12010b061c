# Every target sets up its environment. A fresh machine needs only python3 and make; on Windows, run
# make in the shell of Git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
TORCH := torch==2.13.0
PEERS := .venv-peers

# Without bytecode, each of hundreds of processes compiles every module that it imports: 3 seconds
# more for an audit. Images of containers often set this.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-bounds bench bench-peers picture browser docs kernels lint clean

# torch is installed alone and first, in one exact version, so that no other package chooses one.
# Of all modules a small part is imported, and Python compiles those to bytecode then.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --no-compile $(TORCH) 2>$(VENV)/torch.log || \
	{ grep -q "No matching distribution" $(VENV)/torch.log && \
	echo "no $(TORCH) for this Python: its tests are skipped"; } || \
	{ cat $(VENV)/torch.log >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --no-compile --editable . --group test
	touch $@

demo: $(VENV)/ready
	$(BIN)/probaudit demo

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The report is tested in a real browser. If none is installed, and none can be installed, those
# tests are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null || echo "no browser: its tests are skipped"; \
	else echo "no browser: its tests are skipped"; fi
	@test -d $(VENV)/axe || ! command -v npm >/dev/null || { mkdir -p $(VENV)/axe && \
	(cd $(VENV)/axe && npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz) >/dev/null 2>&1; } || \
	{ rm -rf $(VENV)/axe; echo "no axe-core: its tests are skipped"; }

# Ahead of the tests, so that no two of their processes compile the same kernel.
kernels: $(VENV)/ready
	$(BIN)/probaudit warm-up --jobs $(CORES)

test: $(VENV)/ready
	$(MAKE) --jobs 3 lint browser kernels
	$(BIN)/pytest -n $(CORES) --dist worksteal

test-slow: $(VENV)/ready test-bounds
	$(BIN)/python -m pip install --quiet --group slow
	$(BIN)/pytest -m slow

# Kernels index arrays without bounds checks. This target compiles them with checks, which takes
# minutes. `make test` does the same for the tests of the kernels only.
test-bounds: $(VENV)/ready
	cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$$cache $(BIN)/pytest -n $(CORES) --dist worksteal --timeout 1200

# Any warning is an error. Then a browser opens every page, if there is one.
docs: $(VENV)/ready browser
	$(BIN)/python -m pip install --quiet --group docs
	rm -rf docs/build docs/generated docs/fields docs/concepts
	PROBAUDIT_QUIET=1 $(BIN)/python -m sphinx -b html -q -n -W --keep-going docs docs/build
	$(BIN)/pytest -q -m docs --timeout 600 tests/test_built_site.py
	@echo "open docs/build/index.html"

bench: $(VENV)/ready
	$(BIN)/python benchmarks/run.py

# Other packages have an environment of their own. `torch` comes first, as above.
$(PEERS)/ready: benchmarks/peers.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(subst $(VENV),$(PEERS),$(BIN))/python -m pip install --quiet --upgrade "pip>=25.1"
	$(subst $(VENV),$(PEERS),$(BIN))/python -m pip install --quiet $(TORCH)
	$(subst $(VENV),$(PEERS),$(BIN))/python -m pip install --quiet --constraint benchmarks/peers.txt \
		--requirement benchmarks/peers.txt --editable .
	touch $@

bench-peers: $(PEERS)/ready
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
		$(subst $(VENV),$(PEERS),$(BIN))/python benchmarks/peers.py

# The picture in the README, from a report of `make demo`.
picture: $(VENV)/ready browser
	$(BIN)/python benchmarks/readme_picture.py

clean:
	rm -rf docs/build docs/generated docs/fields docs/concepts
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache
