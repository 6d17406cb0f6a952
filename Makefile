# A thin front over CMake's presets. `make` lists the targets; CONTRIBUTING.md tells more.

# JOBS is the number of cores, or less if memory is short: compiling a gRPC source takes about a gigabyte.
JOBS ?= $(shell awk -v cores="$$(nproc)" '/MemAvailable/ { n = int($$2 / 1200000) } \
          END { print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo)
# Tests that run at a time. This is more than JOBS, because many tests wait: for packages, for deadlines, for servers
# that start.
TEST_JOBS = $(shell expr $(JOBS) + $(JOBS) / 2)
# auto: build the CUDA backend if nvcc is there, or if there is an NVIDIA driver and scripts/fetch-cuda.sh can download
# nvcc. 1: download nvcc if it is missing, and fail without it. 0: CPU only. With ARCH=arm64, auto means 0.
CUDA ?= auto
CMAKE_FLAGS ?=
CONFIG ?=
ARGS ?=
TEXT ?= 0
TARGET ?=
SECONDS ?= 60
MINUTES ?= 30
PREFIX ?= /usr/local
DESTDIR ?=

# arm64: cross-compile for 64-bit Arm, in build/arm64. Packages go into build/wheels-arm64 and build/deb-arm64. Empty: build for
# this machine. An environment variable ARCH has no effect, because other tools use that name too.
ARCH :=
ARCH_TARGETS := help setup configure programs install wheels deb

PRESET := $(if $(ARCH),$(ARCH),release)
BUILD := build/$(PRESET)
PACKAGES_SUFFIX := $(if $(ARCH),-$(ARCH))
cmake_cuda_0 := -DMAXSIM_CUDA=OFF
cmake_cuda_1 := -DMAXSIM_CUDA=ON
cmake_cuda_auto := -DMAXSIM_CUDA=$(if $(ARCH),OFF,AUTO)

ifeq ($(cmake_cuda_$(CUDA)),)
$(error CUDA=$(CUDA): must be auto, 1 or 0)
endif

ifneq ($(filter-out arm64,$(ARCH)),)
$(error ARCH=$(ARCH): must be arm64 or empty)
endif

# The other targets run what they build, or use build/release.
ifneq ($(ARCH),)
ifneq ($(filter-out $(ARCH_TARGETS),$(MAKECMDGOALS)),)
$(error ARCH=$(ARCH) does not work with $(filter-out $(ARCH_TARGETS),$(MAKECMDGOALS)); it works with $(ARCH_TARGETS))
endif
endif

.DEFAULT_GOAL := help
.PHONY: print-jobs help setup configure programs demo-programs build install demo serve test bench test-integrations \
        test-arm64 bundle wheels deb docker image-programs try-image format check reference fuzz explore ci clean

help: ## This list
	@echo 'make TARGET [JOBS=N] [CUDA=auto|1|0] [ARCH=arm64]'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the distribution packages that are missing (root or sudo), and nvcc from PyPI where it is wanted
	@scripts/setup.sh build $(ARCH)
ifeq ($(ARCH),arm64)
	@scripts/arm64-sysroot.sh
	@[ "$(CUDA)" != 1 ] || [ -d build/cuda-toolkit/targets/aarch64-linux ] || scripts/fetch-cuda.sh --arm64
else
	@scripts/fetch-cuda.sh --if-wanted $(CUDA)
endif

# CMake's output goes to a log, except for the line that says whether the CUDA backend is included.
configure: setup
	@mkdir -p build
	@cmake --preset $(PRESET) $(cmake_cuda_$(CUDA)) -DMAXSIM_CUDA_ROOT=$(wildcard $(CURDIR)/build/cuda-toolkit) \
	  $(CMAKE_FLAGS) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@grep -h 'CUDA backend' build/configure.log || true

build: configure ## Build everything, in build/release
	@cmake --build --preset $(PRESET) -j $(JOBS)

programs: configure ## Build the four programs, without tests and benchmarks
	@cmake --build --preset $(PRESET) -j $(JOBS) --target maxsimd maxsimctl maxsim-shard maxsim-loadtest

# The first build takes long, and the compiler prints nothing while it works on one file. So this tells the user to
# wait.
.PHONY: demo-notice
demo-notice:
	@[ -x $(BUILD)/bin/maxsimd ] || echo 'Installing packages and building maxsimd, maxsimctl and maxsim-shard, $(JOBS) files at a' \
	  'time. The first time this takes about 5 minutes on 2 cores; [N/M] counts the steps.'

# Builds only the three programs that `make demo` and `make serve` run.
demo-programs: demo-notice configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target maxsimd maxsimctl maxsim-shard

# Builds nothing, so that root can install what another user has built.
install: ## Install the programs that `make programs` built, and a systemd unit (PREFIX=/usr/local DESTDIR=)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

demo: demo-programs ## Rank the bundled passages for a few questions, on a server of its own (ARGS='--backend cpu ...')
	@demo/run.sh $(if $(ARGS),-- $(ARGS))

serve: demo-programs ## Serve the bundled collection until Ctrl-C (TEXT=1 with an encoder; ARGS=flags; CONFIG=FILE instead)
	@exec $(if $(CONFIG),$(BUILD)/bin/maxsimd --config $(CONFIG) $(ARGS),demo/run.sh --serve \
	  $(if $(filter 1,$(TEXT)),--text) $(if $(ARGS),-- $(ARGS)))

test: build ## Run every test; installs what they need (ARGS=flags of CTest)
	@scripts/setup.sh test bundle wheels deb
	@scripts/run-tests.py release --jobs $(TEST_JOBS) $(ARGS)

test-integrations: build ## Run the tests against PyTorch, frameworks and Ray: gigabytes of packages from PyPI
	@scripts/setup.sh test bundle wheels deb
	@scripts/run-tests.py release --integrations --jobs $(TEST_JOBS) $(ARGS)

test-arm64: ## Cross-compile the CPU kernels for 64-bit Arm and test them under qemu (ARGS=--contract: more of them)
	@JOBS=$(JOBS) scripts/test-arm64.sh $(ARGS)

bench: configure ## Time the CPU kernels beside plain loops (ARGS=flags of maxsim_bench_cpu)
	@cmake --build --preset $(PRESET) -j $(JOBS) --target maxsim_bench_cpu
	@$(BUILD)/bin/maxsim_bench_cpu $(ARGS)

bundle: build ## Relocatable binaries, tests and libraries in build/bundle
	@scripts/setup.sh bundle
	@scripts/bundle.sh $(BUILD) build/bundle

wheels: programs ## Python packages in build/wheels: maxsim-server (the programs), maxsim-torch, the client (wheel, sdist)
	@scripts/setup.sh bundle wheels
	@cmake --build --preset $(PRESET) -j $(JOBS) --target maxsim_shared
	@scripts/packages/make-wheels.sh $(BUILD) build/wheels$(PACKAGES_SUFFIX)

deb: programs ## A Debian package of the four programs in build/deb, for the distribution that it is built on
	@scripts/setup.sh deb
	@scripts/packages/make-deb.sh $(BUILD) build/deb$(PACKAGES_SUFFIX)

# Passes JOBS only if the user gave it. Its default changes with the free memory, and with a new value Docker would not
# reuse the layer that compiles.
docker: ## Build the image maxsim:latest (with CUDA; CUDA=0 for the CPU image)
	@scripts/docker-build.sh $(CUDA) $(if $(filter-out file,$(origin JOBS)),--build-arg JOBS=$(JOBS))

image-programs: programs ## The programs with libraries, licences and list of parts in build/image, as the image has them
	@scripts/setup.sh bundle image
	@scripts/packages/make-image-programs.sh $(BUILD) build/image

# Needs root, because it mounts the image's root file system.
try-image: image-programs ## Build the CPU image of these programs without a daemon, start it and ask it (root)
	@scripts/setup.sh try-image
	@tests/packages/try-image.sh build/image

format: ## Format every source file
	@scripts/setup.sh check
	@scripts/check-format.sh --fix

check: build ## Check the format and the clocks, run clang-tidy, shellcheck and the documentation checks
	@scripts/setup.sh check
	@scripts/check-format.sh
	@scripts/check-scripts.sh
	@scripts/check-clocks.sh
	@scripts/check-words.sh
	@scripts/check-comments.py
	@scripts/check-dependencies.py
	@scripts/check-proto-compatibility.py
	@scripts/check-docs.py $(BUILD)
	@scripts/check-pages.py
	@scripts/check-dashboard.py
	@scripts/make-proto-reference.py --check
	@scripts/make-chart-reference.py --check
	@scripts/check-tidy.sh
	@tests/support/rust.sh $(BUILD)/tests/rust lint

reference: ## Write docs/reference/proto.md, and the API reference of client/ and kernels/maxsim.h into build/reference/html
	@scripts/setup.sh check
	@scripts/make-proto-reference.py
	@mkdir -p build/reference
	@doxygen docs/Doxyfile

explore: build ## Look for new failures: fuzzing, soak, chaos, kill and model tests, cluster trials, with new seeds (MINUTES=30)
	@scripts/setup.sh test check
	@JOBS=$(JOBS) scripts/explore.sh $(MINUTES)

fuzz: ## Fuzz the parsers (TARGET='request http' SECONDS=3600; default: all of tests/fuzz, 60 s each)
	@scripts/setup.sh build check
	@JOBS=$(JOBS) scripts/fuzz.sh --seconds $(SECONDS) $(TARGET)

ci: ## Everything that .ci/run does
	@.ci/run

print-jobs:
	@echo $(JOBS)

clean: ## Remove the build folder (the fetched CUDA compiler stays: remove build/cuda-toolkit by hand)
	@find build -mindepth 1 -maxdepth 1 ! -name cuda-toolkit -exec rm -rf {} +
