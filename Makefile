# Each target does its own set-up. Needed beforehand: Rust (rustup), a C++ compiler, Python 3.10+ with pip and venv.

CACHE := .cache
PYTHON ?= python3
ORT := $(CACHE)/onnxruntime/libonnxruntime.so
ORT_ASCEND := $(CACHE)/onnxruntime-cann/libonnxruntime.so
TEST_VENV := $(CACHE)/test-venv
SCHEMA_VENV := $(CACHE)/schema-venv
CONTAINER_VENV := $(CACHE)/container-venv
CLIENT_VENV := $(CACHE)/client-venv
WEB_VENV := $(CACHE)/web-venv
STORYMEM := $(or $(CARGO_TARGET_DIR),target)/release/storymem
DEMO := $(CACHE)/demo-bundle

.PHONY: help setup setup-ascend emulator build demo run test test-schema test-clients test-web chromium lint lint-containers bench bench-api bench-export bench-forward clean

help:
	@echo 'make demo   build, start the service on a small demo model, post a job and keep its video'
	@echo 'make run    build and keep the service up on the demo model'
	@echo 'make test   all tests'
	@echo 'make test-schema  the running service against its own OpenAPI document'
	@echo 'make test-clients  clients generated from the OpenAPI document, and the one of OpenAI, against the running service'
	@echo 'make test-web  the page in Chromium'
	@echo 'make lint   formatting, clippy, rustdoc'
	@echo 'make lint-containers  the Dockerfile and the compose file'
	@echo 'make bench  our speed and memory against the diffusers pipeline'
	@echo 'make bench-api  requests per second, event streams, cancelling and crashes, while a worker is busy'
	@echo 'make bench-export  our export against torch and peft, on two blocks of the real width'
	@echo 'make bench-forward  a forward pass at the real size, f16 against f32; needs 30 GB of disk'
	@echo 'make setup  fetch ONNX Runtime (the other targets do this themselves)'
	@echo 'make setup-ascend  fetch ONNX Runtime with the CANN provider, for Ascend NPUs'

setup: $(ORT)

$(ORT): tools/fetch_onnxruntime.py
	$(PYTHON) tools/fetch_onnxruntime.py $(@D)
	@touch $@

setup-ascend: $(ORT_ASCEND)

$(ORT_ASCEND): tools/fetch_onnxruntime.py
	$(PYTHON) tools/fetch_onnxruntime.py $(@D) cann
	@touch $@

# What stands in for an NPU in the tests.
emulator:
	$(MAKE) -C tests/cann-emulator

build: setup
	cargo build --release --locked

$(DEMO): build
	rm -rf $(DEMO)
	$(STORYMEM) demo --out $(DEMO)

demo: $(DEMO)
	$(PYTHON) tools/demo.py $(STORYMEM) $(DEMO) demo.mp4

run: $(DEMO)
	$(STORYMEM) serve --bundle $(DEMO) --data-dir data

$(TEST_VENV)/ready: tests/python/requirements.txt
	$(PYTHON) -m venv $(TEST_VENV)
	$(TEST_VENV)/bin/pip install --quiet -r $<
	@touch $@

test: setup setup-ascend emulator $(TEST_VENV)/ready
	STORYMEM_PYTHON=$(abspath $(TEST_VENV)/bin/python) cargo test --workspace --locked

$(SCHEMA_VENV)/ready: tests/schema/requirements.txt
	$(PYTHON) -m venv $(SCHEMA_VENV)
	$(SCHEMA_VENV)/bin/pip install --quiet -r $<
	@touch $@

test-schema: $(DEMO) $(SCHEMA_VENV)/ready
	$(SCHEMA_VENV)/bin/python tests/schema/run.py $(STORYMEM) $(DEMO)

$(WEB_VENV)/ready: tests/web/requirements.txt
	$(PYTHON) -m venv $(WEB_VENV)
	$(WEB_VENV)/bin/pip install --quiet -r $<
	@touch $@

# Debian's, with its H.264 decoder; another one can be named in CHROMIUM.
chromium:
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || \
		{ apt-get update -qq && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; }

test-web: $(or $(RANDOM),$(DEMO)) $(WEB_VENV)/ready chromium
	STORYMEM=$(STORYMEM) STORYMEM_BUNDLE=$(or $(RANDOM),$(DEMO)) $(WEB_VENV)/bin/python -m pytest -q tests/web

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

$(CLIENT_VENV)/ready: tests/clients/requirements.txt
	$(PYTHON) -m venv $(CLIENT_VENV)
	$(CLIENT_VENV)/bin/pip install --quiet -r $<
	@touch $@

# Besides Python: Node 20, Java 17 (which openapi-generator runs on), and apt for a Go package of Debian's.
test-clients: $(DEMO) $(CLIENT_VENV)/ready
	$(CLIENT_VENV)/bin/python tests/clients/run.py $(STORYMEM) $(DEMO) $(CACHE)/clients

$(CONTAINER_VENV)/ready: deploy/requirements.txt
	$(PYTHON) -m venv $(CONTAINER_VENV)
	$(CONTAINER_VENV)/bin/pip install --quiet -r $<
	@touch $@

lint-containers: $(CONTAINER_VENV)/ready
	$(CONTAINER_VENV)/bin/hadolint Dockerfile
	$(CONTAINER_VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

bench: build
	$(PYTHON) bench/run.py

bench-api: build
	cargo run --release --locked --example bench-api -- $(STORYMEM) $(CACHE)/bench-api

bench-export: build
	cargo build --release --locked -p onnx-export --example full-size
	$(PYTHON) bench/export/run.py

bench-forward: setup
	cargo run --release --locked --example bench-forward -- $(CACHE)/bench-forward

clean:
	cargo clean
	rm -rf $(CACHE)
