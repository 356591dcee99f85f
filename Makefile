# Firn's targets. `make` alone prints this help. CI calls targets and has no logic of its own.
SHELL       := /bin/bash
GO          ?= go
ARCH        ?= arm64
SEEDS       ?= 1-1000
SIM_BUDGET  ?= 0
FUZZTIME    ?= 10s
TEST_FLAGS  ?=
# Small tests spend a third of their time in a collector that runs for a few megabytes.
TEST_GOGC   ?= 400
# The compiler spends a quarter of its time in its collector otherwise.
BUILD_GOGC  ?= 400
DURATION    ?= 50s
CATALOG     ?= sqlite
KILL        ?= 0s
FUNCTIONS   := evaluate schedule plan compact commit sweep report
BUILD_FLAGS := -trimpath -buildvcs=false -tags lambda.norpc,nosqlite -gcflags=all=-dwarf=false -ldflags "-s -w -buildid="
LINT        := bin/golangci-lint
PYTHON      ?= python3
VENV        := .venv
HISTORIES   := $(CURDIR)/.venv-spark/bin/python
STEPS       ?= 50
TABLES      ?= 50
HOURS       ?= 24
MUTANTS     ?= .
CALLS       ?= 8

.DEFAULT_GOAL := help
.PHONY: help demo test setup race sim fleet mutants fuzz lint fmt vet build firn check interop interop-nightly liveoracle stress bench-engine python java spark matrix tidy-check golden clean infra-test infra-lint infra-example infra-golden e2e e2e-arm64 e2e-latency e2e-ministack e2e-mutants synth diff deploy destroy

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: bin/firn ## make a lake on this machine, let it decay, watch Firn heal it (SQLite catalog, local files)
	@bin/firn demo

firn bin/firn: $(shell find functions/firn internal -name '*.go' -not -name '*_test.go' 2>/dev/null) go.mod go.sum
	@[ -x bin/firn ] || echo "building bin/firn (the first build compiles all libraries: a few minutes on two cores)"
	@GOGC=$(BUILD_GOGC) $(GO) build -buildvcs=false -o bin/firn ./functions/firn

test: ## run the tests of every module; says which suites were skipped and for lack of what
	@GOGC=$(TEST_GOGC) $(GO) test -timeout 15m $(TEST_FLAGS) ./... && tools/skipped.sh

setup: ## install what the suites need beyond Go and make (PostgreSQL server, Python's venv, JDK, Maven), or say what is missing
	@tools/setup.sh

race: ## run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -timeout 30m ./...

sim: ## play the seeded simulation: SEEDS=1-1000, or one seed to repeat it; SIM_BUDGET=60s stops there and names the next seed
	@$(GO) test -count=1 -timeout 0 -v -run 'TestSeeds$$' ./internal/simulation -args -seeds $(SEEDS) -budget $(SIM_BUDGET)

fleet: ## let TABLES=50 tables live for HOURS=24 hours on a virtual clock, beside an oracle that knows the future (nightly: takes minutes; tells each hour)
	@$(GO) test -count=1 -timeout 0 -v -run 'TestFleet$$' ./internal/simulation/fleet -args -tables $(TABLES) -hours $(HOURS)

mutants: ## break the rules that keep data, one by one, and let the simulation notice each: SEEDS=1-3000 (nightly: takes minutes)
	@$(GO) test -count=1 -timeout 0 -v -run 'TestMutants$$' ./internal/simulation -args -mutants all -seeds $(SEEDS)

fuzz: ## run each fuzz target for FUZZTIME; FUZZ_DONE=file lets a later call go on where it stopped, FUZZ_ONLY=parquet takes some
	@tools/fuzz.sh $(FUZZTIME)

vet: ## go vet
	$(GO) vet ./...

lint: $(LINT) vet ## golangci-lint with .golangci.yml, formatting included
	$(LINT) run ./...

fmt: $(LINT) ## format all Go files
	$(LINT) fmt ./...

$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint (once, about 90 s on two cores)"
	@cd tools && GOGC=$(BUILD_GOGC) $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

build: ## build the seven functions for linux/$(ARCH) under dist/ (same sources, same bytes)
	@for f in $(FUNCTIONS); do \
	  GOGC=$(BUILD_GOGC) GOOS=linux GOARCH=$(ARCH) CGO_ENABLED=0 $(GO) build $(BUILD_FLAGS) -o dist/$(ARCH)/$$f/bootstrap ./functions/$$f || exit 1; \
	done
	@tools/sizes.sh dist/$(ARCH)

infra-test: $(LINT) ## vet, lint and test the CDK app: privileges, golden template, cdk-nag (needs Node 20 or newer)
	@tools/node.sh && cd infra && $(GO) mod tidy -diff && $(GO) vet ./... && ../$(LINT) run ./... && $(GO) test -timeout 10m ./...

infra-lint: ## cfn-lint on the committed templates, asl-validator on the state machine (sets both up: Python, npm)
	@PYTHON=$(PYTHON) VENV=$(VENV) tools/infra-lint.sh

infra-example: ## synthesise somebody's own CDK app that holds Firn (infra/example, a module of its own)
	@tools/node.sh && cd infra/example && $(GO) mod tidy -diff && CDK_OUTDIR=$(CURDIR)/cdk.out/example $(GO) run . && test -s $(CURDIR)/cdk.out/example/Maintenance.template.json

infra-golden: ## write the golden template anew and show the difference
	cd infra && $(GO) test ./stack -run 'TestGolden|TestDeployment' -update && git diff --stat

synth: ## the CloudFormation template, under cdk.out: CDK="-c warehouse=s3://b/p -c tables='db.*'"; no account, no npm
	@tools/node.sh && GOGC=$(BUILD_GOGC) tools/synth.sh $(CDK)

diff deploy destroy: ## compare with, deploy to, remove from AWS: CDK="-c warehouse=..."; needs npx and credentials
	npx cdk $@ $(CDK)

e2e: ## run the synthesised deployment on this machine: real functions, queues, rules, state machine, policies held on every call (no account, no Node)
	$(GO) test -count=1 -timeout 8m -tags e2e ./internal/local/cloud/e2e -args -mutants 'EventPattern|Policy[0-9A-F]{8}/'

e2e-arm64: build ## start the seven functions for arm64, as they would be deployed, under qemu (package qemu-user-static); skipped without it, unless STRICT=1
	@$(GO) test -count=1 -v -timeout 8m -tags e2e -run 'TestEmulated$$' ./internal/local/cloud/e2e -args -emulated

e2e-latency: ## measure starts and calls of each function, and the time from an event to the commit (22 MB in 5 and 50 files); wants a quiet machine
	@$(GO) test -count=1 -v -timeout 8m -tags e2e -run 'TestLatency$$' ./internal/local/cloud/e2e -args -latency

e2e-ministack: ## cdk bootstrap, deploy, event plumbing, diff and destroy against MiniStack, a stranger's emulation of AWS (sets it up: Python, npm, Node)
	@tools/node.sh && PYTHON=$(PYTHON) tools/ministack.sh $(CDK)

e2e-mutants: ## drop each statement, variable, filter, retry and setting of the deployment, one by one, and let e2e notice it (nightly; MUTANTS=pattern for some); goes on where it stopped (bin/e2e/verdicts.jsonl)
	@mkdir -p bin/e2e
	$(GO) test -count=1 -v -timeout 0 -tags e2e -run TestMutants ./internal/local/cloud/e2e -args -mutants '$(MUTANTS)' -done $(CURDIR)/bin/e2e/verdicts.jsonl -survivors $(CURDIR)/bin/e2e/survivors.txt

golden: ## write the golden files and case files anew and show the difference
	$(GO) test $$(grep -rl 'flag.Bool("update"' --include=*_test.go functions internal | xargs -n1 dirname | sort -u | sed 's#^#./#') -update
	$(GO) test $$(grep -rl 'datadriven.RunTest' --include=*_test.go functions internal | xargs -n1 dirname | sort -u | sed 's#^#./#') -rewrite
	git diff --stat

python: $(VENV)/ok ## set up the Python readers (PyIceberg, DuckDB) that judge our tables

$(VENV)/ok: tools/requirements.txt
	@command -v $(PYTHON) >/dev/null || { echo "interop needs Python 3.10 or newer: install it, or set PYTHON="; exit 1; }
	@$(PYTHON) -m venv $(VENV) && $(VENV)/bin/pip -q install -r tools/requirements.txt && touch $@

java: .java/ok ## set up the Java judges (parquet-java, Iceberg's core); needs a JDK 17 and Maven

.java/ok: tools/java.sh tools/java/pom.xml tools/java/jars.sha256 $(shell find internal/interop/java -name '*.java' 2>/dev/null)
	@tools/java.sh

spark: java ## set up Spark, PyIceberg and DuckDB's Iceberg extension for the histories of interop
	@PYTHON=$(PYTHON) tools/spark.sh

interop: bin/firn python spark ## let other engines read what Firn wrote, and play three short histories with them
	FIRN_PYTHON=$(CURDIR)/$(VENV)/bin/python FIRN_HISTORIES_PYTHON=$(HISTORIES) $(GO) test -count=1 -timeout 20m -tags interop ./internal/interop/...

interop-nightly: bin/firn spark ## play long histories with other engines: SEEDS=1-20 STEPS=50; goes on where it stopped (.interop/done.jsonl)
	@mkdir -p .interop
	FIRN_HISTORIES_PYTHON=$(HISTORIES) $(GO) test -count=1 -v -timeout 0 -tags interop -run TestHistories ./internal/interop/histories -args -seeds $(SEEDS) -steps $(STEPS) -done $(CURDIR)/.interop/done.jsonl

liveoracle: bin/firn spark ## draw tables and calls, give both to Spark and to Firn, compare: SEEDS=1-20 (a minute or two each), CALLS=8
	FIRN_HISTORIES_PYTHON=$(HISTORIES) $(GO) test -count=1 -v -timeout 0 -tags interop ./internal/interop/liveoracle -args -seeds $(SEEDS) -calls $(CALLS)

stress: bin/firn python java ## run Firn beside writers that commit every second: DURATION=10m, CATALOG=sqlite or rest, KILL=20s kills Firn at random
	@FIRN_PYTHON=$(CURDIR)/$(VENV)/bin/python FIRN_STRESS_DURATION=$(DURATION) FIRN_STRESS_CATALOG=$(CATALOG) FIRN_STRESS_KILL=$(KILL) \
	  $(GO) test -count=1 -v -timeout 0 -tags stress ./internal/stress

matrix: python java ## all cells of the matrix of Parquet writers, encodings, codecs and merges (nightly); goes on where it stopped (.interop/matrix.jsonl)
	@mkdir -p .interop
	FIRN_PYTHON=$(CURDIR)/$(VENV)/bin/python STRICT=1 $(GO) test -count=1 -v -timeout 0 -tags interop ./internal/interop/matrix -args -whole -done $(CURDIR)/.interop/matrix.jsonl

bench-engine: bin/firn python ## measure a rewrite beside DuckDB, arrow-go and the floors (BENCH_SHARE=1 for the full inputs, BENCH_ROUNDS, BENCH_ONLY)
	@mkdir -p .bench
	@BENCH_HOME=$(CURDIR)/.bench FIRN_PYTHON=$(CURDIR)/$(VENV)/bin/python FIRN_BIN=$(CURDIR)/bin/firn $(GO) test -count=1 -v -timeout 0 -tags bench ./internal/enginebench

tidy-check: ## fail if go.mod is not tidy
	$(GO) mod tidy -diff

check: ## what CI runs, in its order
	@.ci/run

clean: ## remove what the targets made
	rm -rf dist bin tools/asl/node_modules $(VENV) .venv-spark .java .interop .bench .demo .ministack
