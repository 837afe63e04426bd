# Everything a developer runs. `make help` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS   := $(CURDIR)/bin/tools
IMAGE   ?= retryqueue.local/retryqueue:dev
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
CLUSTER_CACHE := $(or $(RQ_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/retryqueue-cluster)

export CGO_ENABLED ?= 0
export KUBEBUILDER_ASSETS ?= $(CLUSTER_CACHE)/bin

##@ Use

.PHONY: help
help: ## List every target.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Tell the whole story on a real cluster: accept, retry, die with a cause, plan, approve, replay.
	@hack/demo/run.sh

.PHONY: demo-down
demo-down: ## Remove the demo, and the cluster if it made one.
	@hack/demo/down.sh

.PHONY: build
build: ## Build the binary bin/retryqueue.
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/retryqueue ./cmd/retryqueue

.PHONY: image
image: ## Pack the image into bin/retryqueue.tar without a container engine (the Dockerfile is for those who have one).
	@hack/image.sh $(IMAGE) bin/retryqueue.tar

##@ Test

.PHONY: test
test: test-unit test-race test-e2e ## Run every test: unit, conformance, envtest and end to end. Builds and installs what they need.

.PHONY: test-unit
test-unit: kubernetes-api ## Run the unit, conformance and API server (envtest) tests.
	@echo "== unit, conformance and API server tests"
	go test -count=1 -timeout 20m $$(go list ./... | grep -v /test/e2e)

.PHONY: test-race
test-race: ## Run the core, the stores and the worker under the race detector.
	@echo "== the same for the core, the stores and the worker, under the race detector"
	CGO_ENABLED=1 go test -race -count=1 -timeout 20m ./internal/...

.PHONY: test-e2e
test-e2e: ## Run the story of the demo as a test on a cluster of its own.
	@echo "== end to end on a real cluster"
	@hack/e2e.sh

.PHONY: bench
bench: ## Measure the store on this machine, and fail when a bound is missed.
	go run ./hack/bench/sqlite

##@ Keep tidy

.PHONY: generate
generate: $(TOOLS)/controller-gen ## Generate deep copies and CRDs from the API types.
	$(TOOLS)/controller-gen object paths=./api/...
	$(TOOLS)/controller-gen crd paths=./api/... output:crd:dir=config/crd

.PHONY: verify
verify: generate fmt vet ## Fail when generated files, formatting or module files are not up to date.
	go mod tidy -diff
	@hack/verify-clean.sh

.PHONY: fmt
fmt: ## Format the code.
	gofmt -w api cmd config controllers hack internal test

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Run golangci-lint, with the Kubernetes API linter for api/.
	$(TOOLS)/golangci-lint run --allow-parallel-runners ./...

.PHONY: ci
ci: verify lint test ## What continuous integration runs.

##@ What others build on

.PHONY: kubernetes-api
kubernetes-api: ## Build the API server and etcd that the tests start.
	@hack/cluster/build.sh api

$(TOOLS)/controller-gen: hack/tools/go.mod
	cd hack/tools && go build -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(TOOLS)/golangci-lint: hack/tools/lint/go.mod
	@echo "building golangci-lint (the first time takes minutes)"
	cd hack/tools/lint && go build -o $@ sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter
