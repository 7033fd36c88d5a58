# Two commands do everything on a machine with nothing but Python: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# How many tests run at a time. More than half of a test is waiting, so that two processors have enough to do with
# five; but some tests have a clock, and a slow machine must not fail them.
JOBS ?= 5

.PHONY: help demo demo-cores check test test-all lint wheel release-check docs bench chaos fuzz real-site matrix \
	scrapy-tests scrapy-redis-tests lock clean

.DEFAULT_GOAL := help
help:
	@echo "make demo        watch three workers crawl a local site, and one of them die"
	@echo "make demo-cores  crawl a site with one worker, then with one for each core"
	@echo "make check       run the linters and the fast tests (a minute)"
	@echo "make test        run the tests (nine minutes)"
	@echo "make test-all    run also the long ones (twelve minutes)"
	@echo "make docs        build the documentation as a site, in docs/_build/html"
	@echo "make bench       measure against Scrapy's scheduler and scrapy-redis (an hour)"
	@echo "make chaos       crawl under every fault of docs/ledger.md (an hour)"
	@echo "make fuzz        feed hostile data to every entry: seeds, queue, files, API (an hour)"
	@echo "make matrix      run the tests on old and new versions of Python and Scrapy"
	@echo "make release-check"
	@echo "                 build what a release ships, and check it and the changelog"
	@echo "make lock        renew constraints.txt: the versions of a developer's tools"
	@echo "make scrapy-tests, make scrapy-redis-tests"
	@echo "                 run the tests of Scrapy (15 min) and of scrapy-redis (a minute) on this package"

# What is installed follows setup.cfg: it is done again when that changes. The demo needs less than a developer, and
# gets what a user gets: the newest versions. A developer gets those of constraints.txt, which `make lock` renews.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), once: Scrapy, scrapy-rq-sched, a Redis server ..."
	@$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the tools of a developer into $(VENV), once: a minute or two ..."
	$(INSTALL) '.[demo,test,lint]' -c constraints.txt
	touch $@

demo: $(VENV)/.installed-demo
	@cd example_project && ../$(BIN)/python -m demo

# The same site, crawled by a worker for each core: one command, a Redis of its own, one file of items.
demo-cores: $(VENV)/.installed-demo
	@cd example_project && ../$(BIN)/python -m demo.all_cores

# The inner loop: what needs no processes and no fleet of servers, and is not marked as slow.
check: lint
	MODEL_EXAMPLES=10 $(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" tests/unit tests/on_redis

# Long tests wait for timeouts, or start dozens of processes; `make test-all`, `make matrix` and so each push to the public
# repository run them. The faults come last and fewer at a time, for their scenarios have a clock.
test: CHOSEN = -m "not long"
test: test-all

test-all: $(VENV)/.installed
	$(BIN)/python -m tests.dashboard.browser
	$(BIN)/python -m pytest -n $(JOBS) --ignore tests/chaos $(CHOSEN)
	$(BIN)/python -m pytest -n 3 tests/chaos

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Build the wheel, install it into an environment of its own, and look at what it carries.
wheel: $(VENV)/.installed
	rm -rf dist build .wheel-venv
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv .wheel-venv
	.wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd dist && ../.wheel-venv/bin/python -I ../tests/tools/check_wheel.py
	rm -rf .wheel-venv

# What must hold before a version is tagged: the changelog has its section, the wheel is complete, and a registry takes
# both files. Twine has an environment of its own, because it is not in constraints.txt.
release-check: $(VENV)/.installed
	@$(BIN)/python -m tests.tools.release
	$(MAKE) wheel
	$(PYTHON) -m venv .release-venv
	.release-venv/bin/python -m pip install --quiet --disable-pip-version-check 'twine>=6'
	.release-venv/bin/python -m twine check --strict dist/*.tar.gz dist/*.whl
	rm -rf .release-venv

# The documentation as a site: docs/_build/html/index.html. A link that leads nowhere fails it.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -W --keep-going -n -E -q docs docs/_build/html

# What a scheduler costs, against Scrapy's own and scrapy-redis; it takes a while, and writes the tables.
bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

$(VENV)/.installed-bench: $(VENV)/.installed
	$(INSTALL) '.[bench]'
	touch $@

# Everything that can go wrong, done to real crawls; it takes an hour, and writes what it cost. If it breaks off, it goes
# on where it was: `rm .chaos-results` starts anew.
chaos: $(VENV)/.installed
	$(BIN)/python -m tests.chaos --ledger docs/ledger.md --results .chaos-results && rm .chaos-results

# Hostile seeds, queue entries, state, files and requests of the API, new ones each time. A finding is kept in
# .fuzz-findings: `.venv/bin/python -m tests.fuzz --replay FILE` tries it again.
# `make fuzz SECONDS=600 ARGS="--only seeds,api --seed 7"` runs a part.
SECONDS ?= 3600
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

# A documentation that a package ships, crawled by three workers: it says what to install if there is none.
# `make real-site ARGS="--spiders map --serializers json"` runs a part.
real-site: $(VENV)/.installed
	$(BIN)/python -m tests.tools.real_site $(ARGS)

# The tests on what users have: old and new Python, Scrapy, redis-py and Twisted, other reactors, other servers
# (tox.ini). It takes about ten minutes an environment; one whose interpreter is not there is passed over, and said.
# `make matrix ARGS="-e lowest,py312 -- -k crawl"` runs a part.
matrix: $(VENV)/.installed-matrix
	$(BIN)/python -m tests.tools.matrix $(ARGS)

$(VENV)/.installed-matrix: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'tox>=4.21'
	touch $@

# Scrapy's own tests with this scheduler as the default, and scrapy-redis's with its name replaced, from their source
# distributions in the versions that are installed here. A test that fails without a reason in tests/upstream/known.py
# fails this. `.venv/bin/python -m tests.upstream scrapy tests/test_engine.py` runs a part.
scrapy-tests: $(VENV)/.installed
	$(BIN)/python -m tests.upstream scrapy

scrapy-redis-tests: $(VENV)/.installed
	$(BIN)/python -m tests.upstream scrapy-redis

# The newest versions of all that `make test` and `make lint` need, on each Python that setup.cfg names: each must be on
# the PATH. Run the tests with them, and commit the file.
lock: | $(BIN)/python
	$(BIN)/python -m tests.tools.lock

clean:
	rm -rf .tox .upstream $(VENV) .wheel-venv .release-venv dist build docs/_build *.egg-info
