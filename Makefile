# SPDX-License-Identifier: Apache-2.0
#
# Everything that can be done with this repository. Needs Go, make and git; `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
# One suite after the other: the machine belongs to the plane that is being tested, and the output stays readable.
.NOTPARALLEL:

# Settings, to be given on the command line: make up NODES=100
NODES ?= 10#             simulated nodes of make up
REAL_NODES ?= 3#         real nodes of make up-real
DIR ?= .localplane/$(or $(strip $(KUBE_MINOR)),default)#  where make up and make up-real keep their plane
KUBE_MINOR ?=#           another minor of Kubernetes for make up, make demo and make test-minor, built from source: make up KUBE_MINOR=1.36
FUZZTIME ?= 20s#         how long make fuzz runs each fuzz test
FUZZ ?=#                 which ones: those whose "./package FuzzName" matches this expression of bash
ARGS ?=#                 further arguments of localplane up and demo
GO_TEST_FLAGS ?=#        further arguments of every go test, for example -v
SEQUENCES ?= 1000#       how many stories make test-differential plays
AMONG ?= 400#            how many stories it plays in which others are at work in the cluster
# What make bench measures; what is not set is all of it (test/bench/settings_test.go knows the names), and idle is 60s:
#   make bench BENCH_NODES=200,1000 BENCH_ROWS=native,everynode BENCH_SCENARIOS=create,roll BENCH_IDLE=10s BENCH_PROFILE=1
export BENCH_NODES BENCH_ROWS BENCH_SCENARIOS BENCH_IDLE BENCH_PROFILE
SEEDS ?= 20000#          how many imaginary clusters make sim plays
FROM ?= 1#               the first of their seeds
PAIRS ?= 300#            how many pairs of imaginary clusters it compares
FILES ?=#                the files that make mutants changes (budget.go hold.go), if not all
MUTANT_MINUTES ?= 0#     after how many minutes it begins no other one; 0: it goes on to the end
CHAOS_MINUTES ?= 15#     for how long make test-chaos breaks things
CHAOS_SEED ?= 1#         which faults come when
CHAOS_DOCS ?=#           the directory whose reliability.md it writes (docs), if any
DEPTH ?= 9#              how many steps of small rolls make sim-states goes every way of
WHOLE ?= 1#              of which rolls it finds all states (2: also with annotations of OpenYurt, with a fault, and on two nodes)
EARLIER ?= 6805d44#      the commit whose programs make test-upgrade replaces, and goes back to
BENCH_DOCS ?=#           the directory whose benchmarks.md it writes (docs), if any

# The time that one test binary of a suite may take before it is stopped (go test -timeout). The times that the suites
# really take, on two cores with everything built, stand behind them.
UNIT_BUDGET ?= 15m
RACE_BUDGET ?= 25m
SIM_BUDGET ?= 180m
SIM_STATES_BUDGET ?= 30m
SIM_MUTANTS_BUDGET ?= 60m
LOCALPLANE_BUDGET ?= 15m
PARITY_BUDGET ?= 10m
DIFFERENTIAL_BUDGET ?= 30m
SMOKE_BUDGET ?= 10m
MINOR_BUDGET ?= 10m
UPSTREAM_BUDGET ?= 10m
INTEGRATION_BUDGET ?= 30m
ADVANCED_BUDGET ?= 12m
MIGRATION_BUDGET ?= 6m
UPGRADE_BUDGET ?= 15m
EDGE_BUDGET ?= 20m
CLI_BUDGET ?= 30m
SCALE_BUDGET ?= 5m
AGENT_BUDGET ?= 5m
PULLS_BUDGET ?= 10m
SECURITY_BUDGET ?= 15m
PLAN_BUDGET ?= 10m
DEMO_BUDGET ?= 5m
CHAOS_BUDGET ?= 40m
E2E_BUDGET ?= 30m
INSTALL_BUDGET ?= 10m
BENCH_REAL_BUDGET ?= 15m
BENCH_BUDGET ?= 300m
BENCH_IMAGES_BUDGET ?= 15m
BENCH_GO_BUDGET ?= 10m

# How many scenarios of the Advanced DaemonSet play at a time.
SCENARIOS_AT_ONCE ?= 10

MODULES := . localplane test
ALL_MODULES := $(MODULES) hack/tools
BIN := $(CURDIR)/bin
STEP := hack/step

# localplane answers as the Kubernetes that it is built from; without a version clients reject it.
KUBERNETES_VERSION := $(shell sed -n 's,^\s*k8s.io/kubernetes \(v[0-9.]*\).*,\1,p' localplane/go.mod)
kubernetes_number = $(word $1,$(subst ., ,$(KUBERNETES_VERSION:v%=%)))
LOCALPLANE_LDFLAGS := $(addprefix -X k8s.io/component-base/version.,\
	gitVersion=$(KUBERNETES_VERSION) gitMajor=$(call kubernetes_number,1) gitMinor=$(call kubernetes_number,2))
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
MANAGER_LDFLAGS := -X main.version=$(VERSION)
AGENT_LDFLAGS := -X main.version=$(VERSION)
KUBECTL_LDFLAGS := -X main.version=$(VERSION)
AGENT_LIMIT := 40000000

# Without cgo everything is built with Go alone, and the modules share one build cache. Only the race detector needs more.
export CGO_ENABLED := 0
# Tests that start a plane take the programs from here.
export EVERYNODE_BIN := $(BIN)

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: build ## Roll a DaemonSet over 30 simulated nodes before your eyes, with two nodes cut and a bad image undone
	@bin/localplane demo $(ARGS)

.PHONY: up
up: build ## Run a Kubernetes control plane with NODES simulated nodes and Everynode, until Ctrl-C
	@bin/localplane up --nodes $(strip $(NODES)) --dir $(strip $(DIR)) $(ARGS)

.PHONY: up-real
up-real: build-real ## The same with REAL_NODES real nodes beside the simulated ones (needs root and a few packages: docs/real-nodes.md)
	@bin/localplane up --nodes $(strip $(NODES)) --real-nodes $(strip $(REAL_NODES)) --dir $(strip $(DIR)) $(ARGS)

.PHONY: build
build: build-manager build-agent build-kubectl build-localplane ## Build bin/everynode-manager, bin/everynode-agent, bin/kubectl-everynode and bin/localplane

.PHONY: build-manager
build-manager:
	@$(STEP) 'build bin/everynode-manager' hack/build -ldflags '$(MANAGER_LDFLAGS)' -o bin/everynode-manager ./cmd/everynode-manager

# One agent runs on every node, so it is kept small: AGENT_LIMIT bytes at most.
.PHONY: build-agent
build-agent:
	@$(STEP) 'build bin/everynode-agent' hack/build -ldflags '-s -w $(AGENT_LDFLAGS)' -o bin/everynode-agent ./cmd/everynode-agent
	@size=$$(wc -c <bin/everynode-agent); test $$size -le $(AGENT_LIMIT) || { \
		echo "bin/everynode-agent has $$size bytes, and may have $(AGENT_LIMIT): find out with go tool nm what makes it large" >&2; exit 1; }

.PHONY: build-kubectl
build-kubectl:
	@$(STEP) 'build bin/kubectl-everynode' hack/build -ldflags '-s -w $(KUBECTL_LDFLAGS)' -o bin/kubectl-everynode ./cmd/kubectl-everynode
	@install -m 755 cmd/kubectl-everynode/kubectl_complete-everynode bin/kubectl_complete-everynode

.PHONY: build-localplane
build-localplane:
	@$(STEP) 'build bin/localplane (about 6 minutes the first time, on two cores)' \
		hack/build -C localplane -ldflags '$(LOCALPLANE_LDFLAGS)' -o $(BIN)/localplane ./cmd/localplane

.PHONY: build-real
build-real: build build-node build-images ## Build all that real nodes need: bin/localplane-node and bin/images besides

.PHONY: build-node
build-node:
	@$(STEP) 'build bin/localplane-node (about 2 minutes the first time, on two cores)' \
		hack/build -C localplane -ldflags '-s -w $(LOCALPLANE_LDFLAGS)' -o $(BIN)/localplane-node ./cmd/localplane-node

# The programs that are the images of tests on real nodes, each by itself.
IMAGE_PROGRAMS := pause testapp

# The programs of an earlier version and its manifests, for tests that replace one by the other.
.PHONY: build-earlier
build-earlier:
	@$(STEP) 'build bin/earlier, which is $(strip $(EARLIER))' hack/earlier $(strip $(EARLIER)) $(BIN)/earlier

.PHONY: build-images
build-images:
	@$(STEP) 'build bin/images' hack/build -C localplane -trimpath -ldflags '-s -w' -o $(BIN)/images/ $(IMAGE_PROGRAMS:%=./cmd/%)

# Real nodes take the distribution's containerd unless they are told otherwise; this one is for trying a newer one.
CONTAINERD := github.com/containerd/containerd/v2
CONTAINERD_VERSION := v2.4.2

.PHONY: build-containerd
build-containerd: ## Build containerd 2 and its shim, for localplane up --real-nodes 3 --containerd bin/containerd-2/containerd
	@$(STEP) 'build bin/containerd-2 (about 4 minutes the first time, on two cores)' env GOBIN=$(BIN)/containerd-2 \
		hack/build install -trimpath -tags 'no_btrfs no_devmapper no_zfs' -ldflags '-s -w -X $(CONTAINERD)/version.Version=$(CONTAINERD_VERSION)' \
			$(CONTAINERD)/cmd/containerd@$(CONTAINERD_VERSION) $(CONTAINERD)/cmd/containerd-shim-runc-v2@$(CONTAINERD_VERSION)

# The API server, the controller manager and the scheduler of another minor: planes and tests take them from the directory; real nodes refuse them.
KUBERNETES_DIR = $(CURDIR)/.cache/kubernetes/$(strip $(KUBE_MINOR))
ifneq ($(strip $(KUBE_MINOR)),)
up demo: build-kubernetes
up up-real demo test-minor: export EVERYNODE_KUBERNETES = $(KUBERNETES_DIR)
endif

.PHONY: build-kubernetes
build-kubernetes: ## Build Kubernetes' own programs of another minor into .cache (make build-kubernetes KUBE_MINOR=1.36)
	@$(STEP) 'build the programs of Kubernetes $(strip $(KUBE_MINOR)) (it takes minutes the first time)' \
		hack/kubernetes '$(strip $(KUBE_MINOR))' '$(KUBERNETES_DIR)'

# Names of the images: $(REGISTRY)/everynode-manager:$(VERSION). Without a registry nodes find them that have imported the archives.
REGISTRY ?=

.PHONY: images
images: bin/ociarchive ## Write dist/images/*.tar: the images of manager and agent as OCI archives, for IMAGE_ARCHS, without a daemon
	@mkdir -p dist/images
	@for arch in $(IMAGE_ARCHS); do $(STEP) "build the programs for linux/$$arch" env GOOS=linux GOARCH=$$arch \
		hack/build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o dist/linux-$$arch/ $(IMAGES:%=./cmd/%); done
	@for name in $(IMAGES); do $(STEP) "pack dist/images/$$name-$(VERSION).tar" bin/ociarchive -name $$name -version $(VERSION) \
		-out dist/images/$$name-$(VERSION).tar $(foreach a,$(IMAGE_ARCHS),linux/$a=dist/linux-$a/$$name); done

IMAGES := everynode-manager everynode-agent
IMAGE_ARCHS ?= amd64 arm64

bin/ociarchive: hack/tools/go.mod hack/tools/go.sum $(wildcard hack/tools/ociarchive/*.go)
	@$(STEP) 'build bin/ociarchive' hack/build -C hack/tools -o $(BIN)/ociarchive ./ociarchive

.PHONY: install-yaml
install-yaml: ## Write dist/install.yaml, with images of REGISTRY
	@mkdir -p dist
	hack/install-yaml '$(strip $(REGISTRY))' $(VERSION) >dist/install.yaml

# Where the files of a release will be found: the manifest of the plugin for krew names them.
RELEASE_URL ?= https://everynode.dev/releases/$(VERSION)
PLUGIN_PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64

.PHONY: release
release: release-begin images sbom vulns ## Write a release into dist: images, install.yaml, chart, plugin with its manifest for krew, bills of materials, checksums
	@for p in $(PLUGIN_PLATFORMS); do $(STEP) "build kubectl-everynode for $$p" env GOOS=$${p%-*} GOARCH=$${p#*-} \
		hack/build -trimpath -ldflags '-s -w $(KUBECTL_LDFLAGS)' -o dist/plugin/$$p/kubectl-everynode ./cmd/kubectl-everynode; done
	@cp $(PROGRAMS:%=bin/%.cdx.json) dist/
	@$(STEP) 'pack the release' env REGISTRY='$(strip $(REGISTRY))' PLUGIN_PLATFORMS='$(PLUGIN_PLATFORMS)' hack/release $(VERSION) $(RELEASE_URL) dist

.PHONY: release-begin
release-begin:
	@hack/release $(VERSION)
	@rm -rf dist

.PHONY: clean
clean: ## Remove what was built (Go's build cache and the state of planes stay)
	rm -rf bin dist .cache

##@ Check

.PHONY: test
test: build-real test-unit test-localplane test-parity test-smoke test-upstream ## Run the tests: about 10 minutes when everything is built
	@$(STEP) -l

# Each fuzz test for a while; whoever has more time says FUZZTIME=1m.
.PHONY: test-all
test-all: FUZZTIME = 5s
test-all: build-real test-unit sim sim-states sim-mutants fuzz test-race test-localplane test-parity test-differential test-smoke test-integration test-advanced test-migration test-upgrade test-cli test-agent test-pulls test-security test-edge test-plan test-chaos e2e test-install test-scale test-upstream test-demo bench-go ## Run the tests, and everything that an issue promised to show
	@$(STEP) -l

.PHONY: test-unit
test-unit: ## Unit and script tests of the root module
	@$(STEP) -b $(UNIT_BUDGET) 'unit and script tests' go test -timeout $(UNIT_BUDGET) $(GO_TEST_FLAGS) ./...

# The simulation of internal/sim beyond the 1,000 seeds that test-unit plays: 100,000 of them, and the pairs, take about two hours on two cores.
.PHONY: sim
sim: ## Search for broken invariants in SEEDS imaginary clusters (make sim SEEDS=100000)
	@$(STEP) -b $(SIM_BUDGET) 'simulation' go test -count=1 -timeout $(SIM_BUDGET) $(GO_TEST_FLAGS) ./internal/sim -skip '$(SIM_STATES)' \
		-seeds $(SEEDS) -from $(FROM) -pairs $(PAIRS)

# The tests of internal/sim that go every way, which sim leaves out.
SIM_STATES := ^Test(Exhaustive|EveryState)$$

.PHONY: sim-states
sim-states: ## Go every way of small rolls DEPTH steps far, and find all states of some (WHOLE)
	@$(STEP) -b $(SIM_STATES_BUDGET) 'states of the simulation' go test -count=1 -timeout $(SIM_STATES_BUDGET) $(GO_TEST_FLAGS) ./internal/sim -run '$(SIM_STATES)' \
		-depth $(DEPTH) -whole $(WHOLE)

.PHONY: sim-mutants
sim-mutants: ## Break what ships in many small ways, and see whether the simulation notices each of them
	@$(STEP) -b $(SIM_MUTANTS_BUDGET) 'mutants of the simulation' go test -count=1 -timeout $(SIM_MUTANTS_BUDGET) $(GO_TEST_FLAGS) ./internal/sim -run '^TestMutants$$' -mutants -v

# Without what only reads source files: it runs in one goroutine, and takes half a minute here.
.PHONY: test-race
test-race: ## The same under the race detector (needs a C compiler)
	@if command -v "$$(go env CC)" >/dev/null; then \
		CGO_ENABLED=1 $(STEP) -b $(RACE_BUDGET) 'race tests' go test -race -timeout $(RACE_BUDGET) $(GO_TEST_FLAGS) \
			$$(go list ./... | grep -v -e /hack/ -e /internal/arch$$); \
	else \
		$(STEP) -s 'race tests' "the race detector needs a C compiler, and there is no $$(go env CC)" 'install gcc and libc6-dev, then make test-race'; \
	fi

GREMLINS_VERSION := v0.6.0

# It takes hours, which need not be in one piece: it says what is left.
.PHONY: mutants
mutants: ## Have a tool change one operator of internal/rollout (FILES) after the other, and list what its tests do not notice; again, it goes on
	@[ -x bin/gremlins ] || $(STEP) 'build bin/gremlins' env GOBIN=$(BIN) \
		hack/build install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS_VERSION)
	@$(STEP) mutants hack/mutants bin/gremlins .cache/mutants $(MUTANT_MINUTES) $(FILES)

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME: whatever is sent, written on a disk or annotated may do no harm
	@hack/fuzz $(strip $(FUZZTIME)) '$(strip $(FUZZ))'

.PHONY: test-localplane
test-localplane: build-real ## Unit tests of localplane, and planes with simulated and with real nodes that are used and broken
	@$(STEP) -b $(LOCALPLANE_BUDGET) 'localplane tests' go test -C localplane -timeout $(LOCALPLANE_BUDGET) $(GO_TEST_FLAGS) ./...

.PHONY: test-parity
test-parity: ## The pure packages, the manifests and the dialects against upstream's own code and what others do, and the tests of the tests
	@$(STEP) -b $(PARITY_BUDGET) 'parity tests' \
		go test -C test -skip '^TestSmoke' -timeout $(PARITY_BUDGET) $(GO_TEST_FLAGS) \
			./parity/... ./manifests/... ./chart/... ./differential/... ./peers/... ./observe/... ./harness/... ./report/... ./bench/...

# What test-parity does with 50 stories, and that it is able to fail.
.PHONY: test-differential
test-differential: ## 1,400 stories, played to the native controller and to Everynode, and mutants that these notice
	@$(STEP) -b $(DIFFERENTIAL_BUDGET) 'differential tests' \
		go test -C test -count=1 -v -timeout $(DIFFERENTIAL_BUDGET) $(GO_TEST_FLAGS) ./differential/ -args -sequences $(SEQUENCES) -among-others $(AMONG) -mutants

# Suites wait more than they compute, so two of them run at once, but for the benchmark, which has the machine for itself.
.PHONY: test-smoke
test-smoke: build-real build-earlier ## One smoke test of each integration suite, on a plane
	@$(STEP) -b $(SMOKE_BUDGET) 'integration smoke tests' \
		go test -C test -count=1 -v -p 2 -run '^TestSmoke' -parallel $(SCENARIOS_AT_ONCE) -timeout $(SMOKE_BUDGET) $(GO_TEST_FLAGS) $(MINOR_SUITES) ./e2e/...
	@$(STEP) -b $(SMOKE_BUDGET) 'smoke test of the benchmark' \
		go test -C test -count=1 -v -run '^TestSmoke' -timeout $(SMOKE_BUDGET) $(GO_TEST_FLAGS) ./bench/...
	$(call real_nodes_or_skipped,smoke tests on real nodes)

# The suites of simulated nodes: a kubelet may not be newer than its API server.
MINOR_SUITES := ./integration/... ./advanced/... ./migration/... ./upgrade/... ./agent/... ./pulls/... ./security/... ./edge/... ./cli/... ./plan/... ./chaos/...

# Sets also change hands between Everynode and that minor's own controller, which compares what either has written byte by byte. What has passed is written down
# in hack/minors. Without KUBE_MINOR this says how it is given.
.PHONY: test-minor
test-minor: build-kubernetes build build-earlier ## Run the smoke tests and changes of hands on another minor of Kubernetes, with simulated nodes (make test-minor KUBE_MINOR=1.36)
	@$(STEP) -b $(LOCALPLANE_BUDGET) 'plane of Kubernetes $(KUBE_MINOR)' \
		go test -C localplane -count=1 -v -run '^TestAnotherKubernetes$$' -timeout $(LOCALPLANE_BUDGET) $(GO_TEST_FLAGS) ./planetest
	@$(STEP) -b $(MINOR_BUDGET) 'smoke tests and changes of hands on Kubernetes $(KUBE_MINOR)' \
		go test -C test -count=1 -v -p 1 -run '^TestSmoke|^TestHand(Over|Back)$$' -parallel $(SCENARIOS_AT_ONCE) -timeout $(MINOR_BUDGET) $(GO_TEST_FLAGS) $(MINOR_SUITES)
	@echo "Kubernetes $$(cat '$(KUBERNETES_DIR)/version') has passed: add it to hack/minors"

# Says that there is less to a suite where this machine has no real nodes; the tests themselves say all that is missing (-v).
define real_nodes_or_skipped
	@if [ "$$(id -u)" -ne 0 ]; then $(STEP) -s '$1' 'real nodes need root' 'run make $@ as root'; \
	elif ! command -v containerd >/dev/null; then \
		$(STEP) -s '$1' 'real nodes need containerd' 'install the packages of docs/real-nodes.md, then make $@'; fi
endef

.PHONY: test-integration
test-integration: build ## All integration tests, on planes
	@$(STEP) -b $(INTEGRATION_BUDGET) 'integration tests' \
		go test -C test -count=1 -v -timeout $(INTEGRATION_BUDGET) $(GO_TEST_FLAGS) ./integration/...

# The scenarios mostly wait, so many more of them play at a time than there are processors.
.PHONY: test-advanced
test-advanced: build ## All scenarios of the Advanced DaemonSet, on planes
	@$(STEP) -b $(ADVANCED_BUDGET) 'scenarios of the Advanced DaemonSet' \
		go test -C test -count=1 -v -skip '^TestSmoke' -parallel $(SCENARIOS_AT_ONCE) -timeout $(ADVANCED_BUDGET) $(GO_TEST_FLAGS) ./advanced/...

# One plane for what follows one after the other, and one for the test that waits most of the time.
.PHONY: test-migration
test-migration: build ## Native to Advanced and back, taking over from OpenKruise, drain, and deaths in mid-roll, on planes of 50 nodes
	@$(STEP) -b $(MIGRATION_BUDGET) 'migration tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -parallel 2 -timeout $(MIGRATION_BUDGET) $(GO_TEST_FLAGS) ./migration/...

# Where the earlier version is not in this clone (git fetch --unshallow) it is skipped.
.PHONY: test-upgrade
test-upgrade: build build-earlier ## Replace manager and agent of the version of EARLIER by these and back, at rest and in mid-roll, on planes
	@$(STEP) -b $(UPGRADE_BUDGET) 'upgrade tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(UPGRADE_BUDGET) $(GO_TEST_FLAGS) ./upgrade/...
	@$(STEP) -b $(UPGRADE_BUDGET) 'upgrade tests of the agent' \
		go test -C test -count=1 -v -run '^TestUpgrade' -timeout $(UPGRADE_BUDGET) $(GO_TEST_FLAGS) ./agent/...

.PHONY: test-cli
test-cli: build ## Each verb of kubectl everynode that changes something, and the commands of the README and of pages, on planes
	@$(STEP) -b $(CLI_BUDGET) 'tests of kubectl everynode' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(CLI_BUDGET) $(GO_TEST_FLAGS) ./cli/...

# Half of it needs root, containerd and runc, and says what is missing where it is skipped.
.PHONY: test-agent
test-agent: build build-earlier ## The agent of a node, on a plane, with a fake runtime and with this machine's containerd
	@$(STEP) -b $(AGENT_BUDGET) 'agent tests' \
		go test -C test -count=1 -v -timeout $(AGENT_BUDGET) $(GO_TEST_FLAGS) ./agent/...

.PHONY: test-pulls
test-pulls: build ## ImagePullJobs, and images that are pulled before an update, on planes with simulated nodes
	@$(STEP) -b $(PULLS_BUDGET) 'image pull tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(PULLS_BUDGET) $(GO_TEST_FLAGS) ./pulls/...

.PHONY: test-security
test-security: build ## A manager that uses all of its rights and no others, tells nobody a secret, and changes its certificate unnoticed, on a plane
	@$(STEP) -b $(SECURITY_BUDGET) 'security tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(SECURITY_BUDGET) $(GO_TEST_FLAGS) ./security/...

.PHONY: test-edge
test-edge: build ## The walk of docs/edge.md, and annotations of OpenYurt on planes of 200 nodes that are cut and healed, beside both controllers
	@$(STEP) -b $(EDGE_BUDGET) 'edge tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(EDGE_BUDGET) $(GO_TEST_FLAGS) ./edge/...

.PHONY: test-plan
test-plan: build ## Plans of kubectl everynode against what then happens: fifteen kinds of change on a plane of 100 nodes
	@$(STEP) -b $(PLAN_BUDGET) 'plan tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(PLAN_BUDGET) $(GO_TEST_FLAGS) ./plan/...

# What it has seen is left in .cache/chaos.
.PHONY: test-chaos
test-chaos: build ## Break a plane of 300 nodes for CHAOS_MINUTES while sets of all dialects roll, and judge it by its store and its audit log
	@$(STEP) -b $(CHAOS_BUDGET) 'chaos tests' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(CHAOS_BUDGET) $(GO_TEST_FLAGS) ./chaos/ \
			-minutes $(CHAOS_MINUTES) -seed $(CHAOS_SEED) -out $(CURDIR)/.cache/chaos $(if $(CHAOS_DOCS),-docs $(abspath $(CHAOS_DOCS)))

# It needs root and containerd, and says what is missing where it is skipped.
.PHONY: test-install
test-install: build-real bin/ociarchive ## Install the chart with Helm on real nodes, upgrade and uninstall it, and see that no pod of a daemon set notices
	@$(STEP) -b $(INSTALL_BUDGET) 'installation on real nodes' \
		go test -C test -count=1 -v -timeout $(INSTALL_BUDGET) $(GO_TEST_FLAGS) ./install/...
	$(call real_nodes_or_skipped,installation on real nodes)

# It needs root and containerd, and says what is missing where it is skipped.
.PHONY: e2e
e2e: build-real ## Pods that really run: all promises about them, on three nodes with kubelet and containerd
	@$(STEP) -b $(E2E_BUDGET) 'end-to-end tests on real nodes' \
		go test -C test -count=1 -v -skip '^TestSmoke' -timeout $(E2E_BUDGET) $(GO_TEST_FLAGS) ./e2e/...
	$(call real_nodes_or_skipped,end-to-end tests on real nodes)

.PHONY: bench-real
bench-real: build-real ## Measure for how long real nodes give no answer while they are updated, and write it into docs/real-nodes.md
	@$(STEP) -b $(BENCH_REAL_BUDGET) 'measurement on real nodes' \
		go test -C test -count=1 -v -run '^TestMeasure$$' -timeout $(BENCH_REAL_BUDGET) $(GO_TEST_FLAGS) ./e2e/ -docs $(CURDIR)/docs

# The table, all numbers and the plot are left in .cache/bench, after each plane what there is by then.
.PHONY: bench
bench: build ## Measure Everynode, the native controller and the floor on planes of 200 to 5,000 nodes; it takes hours and the whole machine
	@$(STEP) -b $(BENCH_BUDGET) 'benchmark' \
		go test -C test -count=1 -v -run '^TestBench$$' -timeout $(BENCH_BUDGET) $(GO_TEST_FLAGS) ./bench/ \
			-measure -out $(CURDIR)/.cache/bench $(if $(BENCH_DOCS),-docs $(abspath $(BENCH_DOCS)))

.PHONY: bench-images
bench-images: build ## Measure what pulling images ahead gains, on 100 simulated nodes, and write it into docs/image-pulls.md
	@$(STEP) -b $(BENCH_IMAGES_BUDGET) 'measurement of image pulls' \
		go test -C test -count=1 -v -run '^TestMeasure$$' -timeout $(BENCH_IMAGES_BUDGET) $(GO_TEST_FLAGS) ./pulls/ -docs $(CURDIR)/docs

.PHONY: bench-go
bench-go: bin/benchstat ## Go benchmarks of the core, the index and the loop, beside upstream's own of the native controller; about 5 minutes
	@BENCH_BUDGET=$(BENCH_GO_BUDGET) $(STEP) -b $(BENCH_GO_BUDGET) 'Go benchmarks' hack/bench-go $(BIN)/benchstat $(CURDIR)/.cache/bench-go.txt

bin/benchstat: hack/tools/go.mod hack/tools/go.sum
	@$(STEP) 'build bin/benchstat' hack/build -C hack/tools -o $(BIN)/benchstat golang.org/x/perf/cmd/benchstat

.PHONY: test-scale
test-scale: build ## What a plane promises about its size: 1,000 nodes Ready within 30 seconds
	@$(STEP) -b $(SCALE_BUDGET) 'scale tests' \
		go test -C test -count=1 -v -timeout $(SCALE_BUDGET) $(GO_TEST_FLAGS) ./scale/...

# The demo judges itself, and fails when something that it promises does not hold. Its output is a pipe here, no terminal.
.PHONY: test-demo
test-demo: build ## The demo, from beginning to end, in plain lines
	@$(STEP) -b $(DEMO_BUDGET) 'demo' \
		bash -eo pipefail -c 'timeout --kill-after=30s $(DEMO_BUDGET) bin/localplane demo | cat'

.PHONY: test-upstream
test-upstream: build ## Upstream's own end-to-end tests of DaemonSets, on a plane with Everynode's native dialect
	@$(STEP) 'build of the end-to-end tests (about 4 minutes the first time, on two cores)' \
		hack/build -C test ./... k8s.io/kubernetes/test/e2e/apps
	@$(STEP) -b $(UPSTREAM_BUDGET) 'upstream end-to-end tests' \
		go test -C test -count=1 -v -timeout $(UPSTREAM_BUDGET) $(GO_TEST_FLAGS) ./upstream/...

.PHONY: verify
verify: verify-begin verify-format verify-tidy verify-rules verify-generate vet lint verify-licences test-race verify-clean ## Check everything that a reviewer should not have to: rules, format, linters, generated files, licences, races
	@$(STEP) -l

.PHONY: verify-begin
verify-begin:
	@hack/verify-clean -b

# Only when the tree was clean at the beginning: make verify can be run before a commit as well.
.PHONY: verify-clean
verify-clean:
	@hack/verify-clean

.PHONY: verify-format
verify-format: ## gofmt and go.mod files have nothing to change
	@$(STEP) gofmt bash -ec 'names=$$(git ls-files -co --exclude-standard "*.go" ":!*/zz_generated.*" | xargs gofmt -l -s); \
		[ -z "$$names" ] || { echo "$$names" >&2; exit 1; }'

.PHONY: verify-tidy
verify-tidy:
	@$(STEP) 'go mod tidy' bash -ec 'for m in $(ALL_MODULES); do go mod tidy -C $$m -diff; done'

.PHONY: verify-rules
verify-rules: ## Import rules, house style and plain words (internal/arch, hack/words)
	@$(STEP) 'import rules, house style, plain words' go test -count=1 ./internal/arch ./hack/words

.PHONY: verify-generate
verify-generate: ## The generated files are those that the generators write
	@$(STEP) 'generated files' hack/verify-generate $(MAKE) generate

.PHONY: vet
vet: ## go vet in all modules
	@for m in $(MODULES); do $(STEP) "go vet ($$m)" go vet -C $$m ./...; done

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint in all modules, with .golangci.yml
	@for m in $(MODULES); do $(STEP) "golangci-lint ($$m)" bash -ec "cd $$m && $(BIN)/golangci-lint run ./..."; done

bin/golangci-lint: hack/tools/go.mod hack/tools/go.sum
	@$(STEP) 'build bin/golangci-lint (about 2 minutes the first time, on two cores)' \
		hack/build -C hack/tools -o $(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: verify-licences
verify-licences: bin/licences build-manager build-agent build-kubectl ## All that the programs are built from is under a licence of the list in hack/tools/licences
	@$(STEP) licences bash -ec 'go test -C hack/tools ./licences ./ociarchive && bin/licences check bin/everynode-manager bin/everynode-agent bin/kubectl-everynode'

bin/licences: hack/tools/go.mod hack/tools/go.sum $(wildcard hack/tools/licences/*.go)
	@$(STEP) 'build bin/licences' hack/build -C hack/tools -o $(BIN)/licences ./licences

# The programs that are released.
PROGRAMS := everynode-manager everynode-agent kubectl-everynode

# What they are built from, as CycloneDX: bin/everynode-manager.cdx.json and so on.
.PHONY: sbom
sbom: bin/licences build-manager build-agent build-kubectl ## Write a software bill of materials of each program, beside it in bin
	@for p in $(PROGRAMS); do \
		$(STEP) "bill of materials of $$p" bash -ec "bin/licences sbom bin/$$p >bin/$$p.cdx.json"; done

GOVULNCHECK_VERSION := v1.8.0

.PHONY: vulns
vulns: ## Ask whether the programs call what is known to be vulnerable (needs a network, and is skipped without)
	@[ -x bin/govulncheck ] || $(STEP) 'build bin/govulncheck' env GOBIN=$(BIN) \
		hack/build install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) || true
	@$(STEP) vulnerabilities hack/vulns $(BIN)/govulncheck ./cmd/...

##@ Change

.PHONY: generate
generate: bin/controller-gen ## Write the generated files: deep copies and CRDs of the API types, the chart's copy of config, docs/reference
	hack/generate-api bin/controller-gen
	hack/generate-chart
	go run ./hack/docgen

bin/controller-gen: hack/tools/go.mod hack/tools/go.sum
	@$(STEP) 'build bin/controller-gen' \
		hack/build -C hack/tools -o $(BIN)/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen

.PHONY: update
update: ## Write the golden files of all tests of the root module anew; read the diff before you commit it
	go test $$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' internal | xargs -n1 dirname | sort -u | sed 's,^,./,') -update

.PHONY: format
format: bin/golangci-lint ## Format all Go files
	@for m in $(MODULES); do (cd $$m && $(BIN)/golangci-lint fmt ./...); done
