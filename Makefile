# Every target starts from a bare clone: Python >= 3.11 and make are all it takes.
# Works with GNU make 3.81 and a POSIX shell. `make help` lists the targets.

PYTHON ?= python3
VENV   ?= .venv
PORT   ?= 8000
# `make book SOLUTIONS=no` builds the labs' starters in place of their solutions.
SOLUTIONS ?= yes

BIN      := $(VENV)/bin
DONE     := $(VENV)/done
HTML     := _build/html
NOTEBOOK_FOLDERS := $(wildcard book labs)
TOC      := $(if $(filter no,$(SOLUTIONS)),_build/starters.yml,_toc.yml)
# pytest on every core, up to four; a file's tests share what its fixtures made.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile

# Kernels read this folder instead of the user's own, so no personal start-up file changes an output.
export IPYTHONDIR := $(CURDIR)/$(VENV)/ipython
export JUPYTER_PLATFORM_DIRS := 1
export JUPYTER_PREFER_ENV_PATH := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUTF8 := 1
# A kernel per notebook and a process per test run: each library is compiled once, not in all of them.
unexport PYTHONDONTWRITEBYTECODE

# On a terminal pip shows its progress bars; in CI only its errors.
PIP_INSTALL := $(BIN)/python -m pip install $(if $(CI),-qq)

# $(call step,NAME,COMMAND) runs COMMAND under a heading and names the step if it fails.
define step
@printf '\n== %s\n' '$(1)'; $(2) || { rc=$$?; printf '\nFAILED: %s (exit %s)\n' '$(1)' "$$rc" >&2; exit $$rc; }
endef

.DEFAULT_GOAL := help
.PHONY: help setup runtime test lint types unit conform nbval cases mutants book lite serve lab notebooks browser format lock clean distclean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@printf '\n  Variables: PYTHON=%s  VENV=%s  PORT=%s  SOLUTIONS=%s\n' \
	  '$(PYTHON)' '$(VENV)' '$(PORT)' '$(SOLUTIONS)'

# --- set-up: a stamp is written only after its step succeeded, so an interrupted run resumes -----

$(DONE)/venv:
	@command -v $(PYTHON) >/dev/null 2>&1 && $(PYTHON) -c '' || { \
	  echo 'error: PYTHON=$(PYTHON) does not run; fix: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is $$($(PYTHON) -V 2>&1); this project needs Python 3.11 or newer;" \
	    'fix: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'error: $(PYTHON) cannot make virtual environments (no venv or ensurepip);' \
	    'fix: install them (Debian, Ubuntu: apt-get install python3-venv)' >&2; exit 1; }
	$(call step,virtual environment in $(VENV),$(PYTHON) -m venv $(VENV))
	@mkdir -p $(DONE) $(IPYTHONDIR)/profile_default
	@echo 'c = get_config(); c.IPKernelApp.log_level = 40' \
	  > $(IPYTHONDIR)/profile_default/ipython_kernel_config.py
	@touch $@

$(DONE)/requirements: requirements.txt $(DONE)/venv
	$(call step,pinned requirements,$(PIP_INSTALL) -r requirements.txt)
	@touch $@

$(DONE)/package: pyproject.toml $(DONE)/requirements
	$(call step,the package,$(PIP_INSTALL) --no-deps --no-build-isolation --editable .)
	@touch $@

$(DONE)/runtime: $(wildcard src/kvsched/book/runtime_lock/*.json) $(DONE)/package
	$(call step,Python for the browser,$(BIN)/python -m kvsched.book.runtime)
	@touch $@

runtime: $(DONE)/runtime  ## Fetch the pinned Pyodide, which runs our Python in the reader's browser

$(DONE)/lite: $(wildcard src/kvsched/book/lite/lock/*.txt) $(DONE)/package
	$(call step,JupyterLite,$(BIN)/python -m kvsched.book.lite fetch)
	@touch $@

setup: $(DONE)/package  ## Make .venv with the pinned requirements and the package

# --- checks ---------------------------------------------------------------------------------------

test: lint types unit conform nbval  ## Run everything that validates
	@printf '\nmake test: all steps passed\n'

lint: setup  ## ruff: rules and layout
	$(call step,ruff check,$(BIN)/ruff check .)
	$(call step,ruff format,$(BIN)/ruff format --check .)

types: setup  ## mypy --strict over src/
	$(call step,mypy,$(BIN)/mypy)

unit: setup  ## pytest over tests/
	$(call step,pytest,$(BIN)/pytest $(PARALLEL))

conform: setup  ## Replay the recordings of the real engines
	$(call step,conformance,$(BIN)/kvsched conform tests/golden)

# What is stored shows the packaged profiles, not those a reader has measured.
nbval notebooks book browser: export KVSCHED_PROFILES :=

# A worker a core: more threads of torch would only wait for each other.
unit nbval: export OMP_NUM_THREADS := 1

nbval: setup  ## Compare every stored notebook output with a fresh run
	$(call step,strict nbval,$(BIN)/pytest $(PARALLEL) --nbval --nbval-current-env --nbval-cell-timeout 120 \
	  --nbval-sanitize-with tests/nbval.cfg --ignore labs/starters $(NOTEBOOK_FOLDERS))

cases: setup  ## Replay the public cases at full size (minutes)
	$(call step,cases,$(BIN)/pytest $(PARALLEL) -m slow)

mutants: setup  ## Break one rule of the SGLang twin at a time: is each noticed? (minutes; not in make test)
	$(call step,mutants,nice -n 15 $(BIN)/python tests/sglang/mutants.py)

browser: $(HTML)/index.html  ## Open every built page in a real browser (needs node and Chromium)
	$(call step,browser packages,npm --prefix tests/browser ci --no-audit --no-fund)
	$(call step,browser tests,KVSCHED_PYTHON=$(abspath $(BIN))/python npm --prefix tests/browser test)

# --- the book -------------------------------------------------------------------------------------

_build/starters.yml: _toc.yml
	@mkdir -p _build && sed 's#file: labs/#file: labs/starters/#' _toc.yml > $@

book: setup runtime $(DONE)/lite $(TOC)  ## Build the book into _build/html, warnings are errors
	$(call step,execution cache,$(BIN)/python -m kvsched.book.cache)
	$(call step,jupyter-book,$(BIN)/jupyter-book build --all -W --keep-going -n --toc $(TOC) .)
	$(call step,JupyterLite in the book,$(BIN)/python -m kvsched.book.lite build $(HTML))

lite: $(DONE)/lite $(HTML)/index.html  ## Put JupyterLite into the built book again, with the notebooks as they are
	$(call step,JupyterLite in the book,$(BIN)/python -m kvsched.book.lite build $(HTML))

$(HTML)/index.html:
	$(MAKE) book

serve: $(HTML)/index.html  ## Serve the built book on localhost
	@echo 'The book: http://localhost:$(PORT)/  (Ctrl-C ends)'
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory $(HTML) $(PORT)

lab: setup  ## Open JupyterLab on the notebooks
	$(BIN)/jupyter lab

notebooks: setup  ## Re-execute the notebooks, store text outputs and the labs' starters
	$(call step,notebooks,$(BIN)/python -m kvsched.book.notebooks $(NOTEBOOK_FOLDERS))
	$(call step,starters,$(BIN)/python -m kvsched.book.labs labs)

# --- upkeep ---------------------------------------------------------------------------------------

format: setup  ## Apply ruff's layout and safe fixes
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock:  ## Recompile requirements.txt (needs uv on the PATH)
	uv pip compile requirements.in --output-file requirements.txt --upgrade --universal \
	  --python-version 3.11 --no-emit-package kvsched --no-emit-index-url --no-annotate --no-header
	echo 'torch==2.13.0' >> requirements.txt

clean:  ## Remove what was built, keep .venv
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage tests/browser/node_modules
	find src tests book labs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## Remove .venv as well
	rm -rf $(VENV)
