# Needs Python 3.11+, pip 22.3+ and make; everything else is installed below .venv and .demo.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := pip --disable-pip-version-check --python $(BIN)/python install --quiet --root-user-action ignore
# A sandbox keeps to one kind of control plane, so the demo on the real one has a directory of its own.
DEMOS := $(CURDIR)/.demo/anycloud $(CURDIR)/.demo/anycloud-kube
ifdef ANYCLOUD_DIR
DEMOS := $(ANYCLOUD_DIR)
endif
export ANYCLOUD_DIR ?= $(CURDIR)/.demo/anycloud$(if $(ANYCLOUD_KUBE_ASSETS),-kube)

.DEFAULT_GOAL := help
.PHONY: help demo stop test test-contract test-kube test-kube-mutations kube-assets test-world world-assets lint requirements bench generate sdk sdk-test clean

help: ## Show the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -m venv --without-pip $(VENV)

$(VENV)/.run: $(BIN)/python requirements/run.lock pyproject.toml
	@echo "Installing the project into $(VENV)"
	@$(PIP) --require-hashes -r requirements/run.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.lock
	@echo "Installing what the tests need"
	@$(PIP) --require-hashes -r requirements/dev.lock
	@touch $@

# The published client lives in an environment of its own: its import name is a prefix of ours.
.demo/sdk/.installed: requirements/sdk.lock
	@echo "Installing the published client into .demo/sdk"
	@$(PYTHON) -m venv --without-pip .demo/sdk
	@pip --disable-pip-version-check --python .demo/sdk/bin/python install --quiet --root-user-action ignore --require-hashes -r requirements/sdk.lock
	@touch $@

demo: $(VENV)/.run .demo/sdk/.installed ## Run a cluster, a node pool, a Deployment and 20 Jobs on this machine
	@$(BIN)/python examples/demo/demo.py

stop: ## End everything that the demo started
	@if [ -x $(BIN)/anycloud ]; then for dir in $(DEMOS); do \
	  [ ! -d $$dir ] || ANYCLOUD_DIR=$$dir $(BIN)/anycloud api stop || exit 1; done; \
	else echo "Nothing was started."; fi

test: $(VENV)/.dev .demo/sdk/.installed ## Run the whole suite
	@$(BIN)/python -m pytest

kube-assets: $(VENV)/.dev ## Build a real Kubernetes control plane once, for the tests against it (needs Go)
	@$(BIN)/python -m tests.kube.assets.build

test-contract: $(VENV)/.dev .demo/sdk/.installed ## Run the published client, hostile callers and gRPC against an installation
	@$(BIN)/python -m pytest tests/contract

test-kube: $(VENV)/.dev ## Run the Kubernetes tests on the sandbox and on the real control plane
	@$(BIN)/python -m pytest tests/kube

test-kube-mutations: $(VENV)/.dev ## Break the rules of the sandbox's API server one by one; the shared suite has to catch each
	@$(BIN)/python -m tests.kube.mutations

world-assets: $(VENV)/.dev ## Build the disk and images of real VMs once, for the tests on them (needs root and apt)
	@$(BIN)/python -m tests.world.assets.build

test-world: $(VENV)/.dev ## Run the product on real Nodes: VMs with kubelet and containerd (needs root)
	@$(BIN)/python -m pytest tests/world

lint: $(VENV)/.dev ## Check style, types and the walls between the packages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python proto/generate.py --check
	@$(BIN)/python proto/lint.py
	@$(BIN)/python proto/breaking.py

requirements: $(VENV)/.dev ## List every requirement with the tests that hold it
	@$(BIN)/python tests/requirements.py

BENCHMARKS := codec store startup calls lists handoff pool installation idle

bench: $(VENV)/.dev .demo/sdk/.installed ## Print the figures, each beside a baseline of the same run (9 minutes)
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python tests/bench/$$name.py || exit 1; done

generate: $(VENV)/.dev ## Make the stubs, Envoy's descriptor set, openapi.yaml and the SDKs from the .proto files
	@$(BIN)/python proto/generate.py

sdk: $(VENV)/.dev ## Make the SDKs anew, also where they are not stale
	@$(BIN)/python proto/generate.py --sdks

sdk-test: $(VENV)/.dev ## Build each SDK and run it against a live gateway
	@$(BIN)/python -m pytest tests/sdk

clean: stop ## Remove what was installed and what the demo stored
	@rm -rf .venv .demo
