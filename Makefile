# SPDX-License-Identifier: Apache-2.0
#
# Everything that can be done with this repository. Needs Go, make and git; `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
# One suite after the other: the machine belongs to the plane that is being tested, and the output stays readable.
.NOTPARALLEL:

# Settings, to be given on the command line: make up NODES=100. Those of the suites are at the top of hack/test.
NODES ?= 10#             simulated nodes of make up
REAL_NODES ?= 0#         real nodes of make up, which need root and a few packages (docs/real-nodes.md)
DIR ?= .localplane/$(or $(strip $(KUBE_MINOR)),default)#  where make up keeps its plane
KUBE_MINOR ?=#           another minor of Kubernetes, built from source: make up KUBE_MINOR=1.36, make test SUITE=minor KUBE_MINOR=1.36
ARGS ?=#                 further arguments of localplane up and demo
SUITE ?=#                the suites of make test, in place of the usual ones: make test SUITE='edge plan'
EARLIER ?= 6805d44#      the commit whose programs the suite upgrade replaces, and goes back to
FILES ?=#                the files that make mutants changes (budget.go hold.go), if not all
MUTANT_MINUTES ?= 0#     after how many minutes it begins no other one; 0: it goes on to the end

MODULES := . localplane test
ALL_MODULES := $(MODULES) hack/tools test/gitops/argohealth
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
up: $(if $(filter-out 0,$(strip $(REAL_NODES))),build-real,build) ## Run a Kubernetes control plane with NODES simulated nodes, REAL_NODES real ones and Everynode, until Ctrl-C
	@bin/localplane up --nodes $(strip $(NODES)) $(if $(filter-out 0,$(strip $(REAL_NODES))),--real-nodes $(strip $(REAL_NODES))) --dir $(strip $(DIR)) $(ARGS)

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
build-real: build build-node build-images ## Build all that real nodes need: also bin/localplane-node and bin/images

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

# Real nodes take the distribution's containerd unless another is named; this one is to try a newer one.
CONTAINERD := github.com/containerd/containerd/v2
CONTAINERD_VERSION := v2.4.2

.PHONY: build-containerd
build-containerd:
	@$(STEP) 'build bin/containerd-2 (about 4 minutes the first time, on two cores)' env GOBIN=$(BIN)/containerd-2 \
		hack/build install -trimpath -tags 'no_btrfs no_devmapper no_zfs' -ldflags '-s -w -X $(CONTAINERD)/version.Version=$(CONTAINERD_VERSION)' \
			$(CONTAINERD)/cmd/containerd@$(CONTAINERD_VERSION) $(CONTAINERD)/cmd/containerd-shim-runc-v2@$(CONTAINERD_VERSION)

# The API server, the controller manager and the scheduler of another minor: planes and tests take them from the directory; real nodes refuse them.
KUBERNETES_DIR = $(CURDIR)/.cache/kubernetes/$(strip $(KUBE_MINOR))
ifneq ($(strip $(KUBE_MINOR)),)
up demo: build-kubernetes
up demo test: export EVERYNODE_KUBERNETES = $(KUBERNETES_DIR)
endif

.PHONY: build-kubernetes
build-kubernetes:
	@$(STEP) 'build the programs of Kubernetes $(strip $(KUBE_MINOR)) (it takes minutes the first time)' \
		hack/kubernetes '$(strip $(KUBE_MINOR))' '$(KUBERNETES_DIR)'

# The kubectl of each supported version, as upstream has it, for the suite drain.
.PHONY: build-kubectls
build-kubectls:
	@for v in $$(sed -n 's/^v\([0-9.]*\) .*/\1/p' hack/minors); do \
		$(STEP) "build kubectl $$v (it takes minutes the first time)" hack/kubernetes $$v $(CURDIR)/.cache/kubectl/$$v kubectl; done

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
release: release-begin images sbom vulns ## Write a release into dist: images, install.yaml, chart, bundle for OLM, plugin with its manifest for krew, bills of materials, checksums
	@for p in $(PLUGIN_PLATFORMS); do $(STEP) "build kubectl-everynode for $$p" env GOOS=$${p%-*} GOARCH=$${p#*-} \
		hack/build -trimpath -ldflags '-s -w $(KUBECTL_LDFLAGS)' -o dist/plugin/$$p/kubectl-everynode ./cmd/kubectl-everynode; done
	@cp $(PROGRAMS:%=bin/%.cdx.json) dist/
	@$(STEP) 'pack the release' env REGISTRY='$(strip $(REGISTRY))' ARTIFACTHUB_ID='$(strip $(ARTIFACTHUB_ID))' PLUGIN_PLATFORMS='$(PLUGIN_PLATFORMS)' hack/release $(VERSION) $(RELEASE_URL) dist

# The ID that Artifact Hub has given to the repository of the chart, if any.
ARTIFACTHUB_ID ?=

# The private key that publish signs with, for example of cosign generate-key-pair; its password is in COSIGN_PASSWORD.
COSIGN_KEY ?= cosign.key

.PHONY: publish
publish: bin/publish ## Push a release from dist to REGISTRY, the images, the chart and the bundle for OLM, signed with COSIGN_KEY
	@$(STEP) 'publish the release' bin/publish -registry '$(strip $(REGISTRY))' -version $(VERSION) -key '$(COSIGN_KEY)' dist

bin/publish: hack/tools/go.mod hack/tools/go.sum $(wildcard hack/tools/publish/*.go)
	@$(STEP) 'build bin/publish' hack/build -C hack/tools -o $(BIN)/publish ./publish

.PHONY: release-begin
release-begin:
	@hack/release $(VERSION)
	@hack/records
	@rm -rf dist

.PHONY: clean
clean: ## Remove what was built (Go's build cache and the state of planes stay)
	rm -rf bin dist .cache

##@ Check

.PHONY: test
test: ## Run the tests, about 10 minutes when everything is built; or SUITE alone (make test SUITE=edge; SUITE=list names them)
	@hack/test $(or $(strip $(SUITE)),unit localplane parity smoke upstream)

.PHONY: test-all
test-all: ## Run every suite: the tests, and everything that an issue promised to show; about three hours
	@FUZZTIME=$${FUZZTIME:-5s} hack/test all

# Each suite is a target too: make test-edge is make test SUITE=edge.
.PHONY: sim sim-states sim-mutants e2e bench-real bench-images
sim sim-states sim-mutants e2e bench-real bench-images:
	@hack/test $@

test-%:
	@hack/test $*

GREMLINS_VERSION := v0.6.0

# It takes hours, which need not be in one piece: it says what is left.
.PHONY: mutants
mutants: ## Have a tool change one operator of internal/rollout (FILES) after the other, and list what its tests do not notice; again, it goes on
	@[ -x bin/gremlins ] || $(STEP) 'build bin/gremlins' env GOBIN=$(BIN) \
		hack/build install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS_VERSION)
	@$(STEP) mutants hack/mutants bin/gremlins .cache/mutants $(MUTANT_MINUTES) $(FILES)

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME: whatever is sent, written on a disk or annotated may do no harm
	@hack/test fuzz

.PHONY: build-upstream
build-upstream:
	@$(STEP) 'build of the end-to-end tests (about 4 minutes the first time, on two cores)' \
		hack/build -C test ./... k8s.io/kubernetes/test/e2e/apps

.PHONY: bench
bench: ## Measure Everynode, the native controller and the floor on planes of 1,000 nodes (BENCH_NODES), five times in turn; it takes an hour or more, and the whole machine
	@hack/test bench

.PHONY: bench-go
bench-go: ## Go benchmarks of the core, the index and the loop, with upstream's own of the native controller; about 5 minutes
	@hack/test bench-go

bin/benchstat: hack/tools/go.mod hack/tools/go.sum
	@$(STEP) 'build bin/benchstat' hack/build -C hack/tools -o $(BIN)/benchstat golang.org/x/perf/cmd/benchstat

.PHONY: verify
verify: verify-begin verify-format verify-tidy verify-rules verify-generate verify-web vet lint verify-licences test-race verify-clean ## Check everything that a reviewer need not check: rules, format, linters, generated files, licences, races
	@$(STEP) -l

.PHONY: verify-begin
verify-begin:
	@hack/verify-clean -b

# Only when the tree was clean at the beginning: make verify can be run before a commit as well.
.PHONY: verify-clean
verify-clean:
	@hack/verify-clean

.PHONY: verify-format
verify-format:
	@$(STEP) gofmt bash -ec 'names=$$(git ls-files -co --exclude-standard "*.go" ":!*/zz_generated.*" | xargs gofmt -l -s); \
		[ -z "$$names" ] || { echo "$$names" >&2; exit 1; }'

.PHONY: verify-tidy
verify-tidy:
	@$(STEP) 'go mod tidy' bash -ec 'for m in $(ALL_MODULES); do go mod tidy -C $$m -diff; done'

.PHONY: verify-rules
verify-rules:
	@$(STEP) 'import rules and plain words' go test -count=1 ./hack/...

.PHONY: verify-generate
verify-generate:
	@$(STEP) 'generated files' hack/verify-generate $(MAKE) generate

# The page of kubectl everynode dashboard is built from web and committed, so that building the plugin needs no more than Go.
.PHONY: verify-web
verify-web:
	@$(STEP) 'page of the dashboard' go test -C hack/tools -count=1 ./web

.PHONY: vet
vet:
	@for m in $(MODULES); do $(STEP) "go vet ($$m)" go vet -C $$m ./...; done

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint in all modules, with .golangci.yml
	@for m in $(MODULES); do $(STEP) "golangci-lint ($$m)" bash -ec "cd $$m && $(BIN)/golangci-lint run ./..."; done

bin/golangci-lint: hack/tools/go.mod hack/tools/go.sum
	@$(STEP) 'build bin/golangci-lint (about 2 minutes the first time, on two cores)' \
		hack/build -C hack/tools -o $(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: verify-licences
verify-licences: bin/licences build-manager build-agent build-kubectl
	@$(STEP) licences bash -ec 'go test -C hack/tools ./licences ./ociarchive ./bundle ./publish && bin/licences bin/everynode-manager bin/everynode-agent bin/kubectl-everynode'

bin/licences: hack/tools/go.mod hack/tools/go.sum $(wildcard hack/tools/licences/*.go)
	@$(STEP) 'build bin/licences' hack/build -C hack/tools -o $(BIN)/licences ./licences

# The programs that are released.
PROGRAMS := everynode-manager everynode-agent kubectl-everynode

CYCLONEDX_VERSION := v1.10.0

bin/cyclonedx-gomod:
	@$(STEP) 'build bin/cyclonedx-gomod' env GOBIN=$(BIN) hack/build install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

# What they are built from, as CycloneDX: bin/everynode-manager.cdx.json and so on. Without a serial number and a time it is the same each time.
.PHONY: sbom
sbom: bin/cyclonedx-gomod build-manager build-agent build-kubectl
	@for p in $(PROGRAMS); do \
		$(STEP) "bill of materials of $$p" bin/cyclonedx-gomod bin -json -std -licenses -assert-licenses -noserial -notimestamp \
			-version $(VERSION) -output bin/$$p.cdx.json bin/$$p; done

# krew installs the plugin from the archive of a release in the suite release.
KREW_VERSION := v0.4.3

bin/krew:
	@$(STEP) 'build bin/krew' env GOBIN=$(BIN) hack/build install sigs.k8s.io/krew/cmd/krew@$(KREW_VERSION) sigs.k8s.io/krew/cmd/validate-krew-manifest@$(KREW_VERSION)

# Helm's own program types docs/first-day.md in the suite install.
HELM_VERSION := v4.2.3

bin/helm:
	@$(STEP) 'build bin/helm (about 2 minutes the first time, on two cores)' env GOBIN=$(BIN) hack/build install helm.sh/helm/v4/cmd/helm@$(HELM_VERSION)

# cosign itself verifies in the suite release what publish has signed.
COSIGN_VERSION := v3.1.3

bin/cosign:
	@$(STEP) 'build bin/cosign (about 6 minutes, on two cores)' env GOBIN=$(BIN) hack/build install github.com/sigstore/cosign/v3/cmd/cosign@$(COSIGN_VERSION)

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

.PHONY: web
web: ## Build the page of kubectl everynode dashboard from web into internal/cli/dashboard/static
	go run -C hack/tools ./web $(CURDIR)

# Measures the page of the dashboard in Chromium with 1,000 and 10,000 nodes, into docs/dashboard.md. On a quiet machine: other programs make frames late.
.PHONY: bench-page
bench-page:
	go test -C test -count=1 -v ./dashboard -run '^TestMeasure$$' -timeout 30m -docs $(CURDIR)/docs

# The check that they are no older than the page is part of verify-web.
.PHONY: pictures
pictures: build-manager build-kubectl build-localplane ## Take the screenshots of the dashboard in docs/images again; needs Chromium
	go test -C test -count=1 -v ./dashboard -run '^(TestSmokeBrowser|TestApproval|TestPlayback|TestTheSignInPage)$$' -pictures $(CURDIR)/docs/images

# Needs Node.js, which nothing else here does. BASE is the path under which a server will show it.
BASE ?= /

.PHONY: site
site: ## Build the documentation site from docs into dist/site, with its links checked; needs Node.js with npm
	@$(STEP) 'documentation site' hack/site/build . dist/site '$(strip $(BASE))'

bin/controller-gen: hack/tools/go.mod hack/tools/go.sum
	@$(STEP) 'build bin/controller-gen' \
		hack/build -C hack/tools -o $(BIN)/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen

.PHONY: update
update: ## Update the golden files of all tests of the root module; read the diff before you commit it
	go test $$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' internal | xargs -n1 dirname | sort -u | sed 's,^,./,') -update

.PHONY: format
format: bin/golangci-lint ## Format all Go files
	@for m in $(MODULES); do (cd $$m && $(BIN)/golangci-lint fmt ./...); done
