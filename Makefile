# Everything goes through .venv, which is made on first use from constraints.txt and needs no activation.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXAMPLE := examples/nightly-sync.yaml
DEMO := build/demo

# Another environment that happens to be active, or its search path, is none of ours.
unexport VIRTUAL_ENV
unexport PYTHONPATH
unexport PYTHONHOME
# Without it each of a thousand processes would compile again what was edited since the environment was made.
unexport PYTHONDONTWRITEBYTECODE
# Users have buffered streams, and so have tests.
unexport PYTHONUNBUFFERED
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test conformance check bench soak docs format clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1#/p' $(MAKEFILE_LIST) | while IFS='#' read -r name about; do \
	    printf '  make %-11s %s\n' "$$name" "$$about"; done

# The shop that the example talks to is opened for the run alone, and what is recorded goes into a home of its own.
demo: export NOETL_HOME := $(CURDIR)/$(DEMO)/home
demo: $(READY)  ## set up, then run, look at and draw an example
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	@printf '\n$$ noetl run $(EXAMPLE)\n'; $(BIN)/python examples/shop.py \
	    $(BIN)/noetl run $(EXAMPLE) --set 'api_url={url}' --set 'folder=$(CURDIR)/$(DEMO)/rows'
	@printf '\n$$ noetl show last\n'; $(BIN)/noetl show last
	@printf '\n$$ noetl why last end\n'; $(BIN)/noetl why last end
	@printf '\n$$ noetl graph $(EXAMPLE) -o $(DEMO)/nightly-sync.svg\n'; \
	    $(BIN)/noetl graph $(EXAMPLE) -o $(DEMO)/nightly-sync.svg
	@printf '\nThe rows are in $(DEMO)/rows, the picture is $(DEMO)/nightly-sync.svg, the program is $(BIN)/noetl.\n'
	@printf 'The run is kept in $(DEMO)/home. To look at it: export NOETL_HOME=$(CURDIR)/$(DEMO)/home, '; \
	    printf 'then $(BIN)/noetl events last, $(BIN)/noetl state last --at 20, $(BIN)/noetl logs last.\n'

test: $(READY)  ## set up, then run every check and test
	$(BIN)/python -m pytest -n auto --dist worksteal -rfEs

conformance: $(READY)  ## every conformance case as separate processes: embedded, one server, a cluster (half an hour)
	$(BIN)/python tests/conformance/sizes.py

check: $(READY)  ## lint, format, types, layers
	@failed=; for tool in 'ruff check .' 'ruff format --check .' mypy lint-imports; do \
	    echo "$$tool"; $(BIN)/$$tool || failed="$$failed, $$tool"; done; \
	if [ -n "$$failed" ]; then echo "failed: $${failed#, }" >&2; exit 1; fi

bench: $(READY) build/peers/dbos build/peers-dlt build/peers-adbc build/peers-duckdb  ## measure, each figure as a ratio taken in one run
	@failed=0; for file in $(filter-out bench/compare.py,$(wildcard bench/*.py)); do printf '\n%s\n' "$$file"; $(BIN)/python "$$file" || failed=1; done; exit $$failed

# What the engine is measured against, apart from what it needs itself.
build/peers/dbos:
	$(BIN)/python -m pip install --quiet --target build/peers dbos

# Each with what it needs, which differs; a peer that cannot be had is left out of the table.
build/peers-dlt:
	-$(BIN)/python -m pip install --quiet --target $@ 'dlt[postgres,sql_database]'

build/peers-adbc:
	-$(BIN)/python -m pip install --quiet --target $@ adbc-driver-manager adbc-driver-postgresql pyarrow

build/peers-duckdb:
	-$(BIN)/python -m pip install --quiet --target $@ duckdb-extension-postgres-scanner duckdb-extension-httpfs

soak: $(READY)  ## every generated example, then an hour of killing a cluster's processes; SOAK='--kills 60 --executions 1500' is shorter
	THOROUGH=1 $(BIN)/python -m pytest -q -n auto tests/lang tests/redaction tests/engine tests/dispatch tests/chaos tests/results tests/tools tests/worker
	$(BIN)/python tests/chaos/campaign.py $(SOAK)

docs: $(READY)  ## write the generated pages anew
	$(BIN)/python docs/generate.py

format: $(READY)  ## format the code and the examples
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/noetl format examples/*.yaml

clean:  ## remove the environment and everything that was made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is made anew when the wanted packages change. `uv` is used where it is installed.
$(READY): pyproject.toml constraints.txt
	@set -e; \
	found=; for python in python3 python3.13 python3.12 python3.11 python; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'noetl needs Python 3.11 or later, and there is none on the PATH' >&2; exit 1; \
	fi; \
	echo "setting up $(VENV) with $$("$$found" --version)"; \
	if command -v uv >/dev/null 2>&1; then \
	    [ -x $(BIN)/python ] || uv venv --quiet --python "$$(command -v $$found)" $(VENV); \
	    install="uv pip install --quiet --compile-bytecode --python $(BIN)/python"; \
	else \
	    [ -x $(BIN)/pip ] || "$$found" -m venv --clear $(VENV) || { \
	        echo 'the module venv is missing; it may be a package of its own, such as python3-venv' >&2; exit 1; }; \
	    install="$(BIN)/python -m pip install -qq"; \
	    $$install -c constraints.txt --upgrade pip; \
	fi; \
	$(BIN)/python -c 'import tomllib; wanted = tomllib.load(open("pyproject.toml", "rb")); \
	print(*wanted["build-system"]["requires"], "editables", *wanted["dependency-groups"]["dev"], sep="\n")' \
	    > $(VENV)/dev.txt; \
	$$install -c constraints.txt -r $(VENV)/dev.txt; \
	$$install -c constraints.txt --no-build-isolation -e .; \
	$(BIN)/python -m compileall -q src; \
	touch $(READY)
