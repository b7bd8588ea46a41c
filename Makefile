# Each target does its own set-up. Needed beforehand: Rust (rustup), a C++ compiler, Python 3.10+ with pip and venv.

CACHE := .cache
PYTHON ?= python3
ORT := $(CACHE)/onnxruntime/libonnxruntime.so
ORT_ASCEND := $(CACHE)/onnxruntime-cann/libonnxruntime.so
TEST_VENV := $(CACHE)/test-venv
STORYMEM := $(or $(CARGO_TARGET_DIR),target)/release/storymem
DEMO := $(CACHE)/demo-bundle

.PHONY: help setup setup-ascend emulator build demo run test lint bench clean

help:
	@echo 'make demo   build, start the service on a small demo model, post a job and keep its video'
	@echo 'make run    build and keep the service up on the demo model'
	@echo 'make test   all tests'
	@echo 'make lint   formatting, clippy, rustdoc'
	@echo 'make bench  our speed and memory against the diffusers pipeline'
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

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

bench: build
	$(PYTHON) bench/run.py

clean:
	cargo clean
	rm -rf $(CACHE)
