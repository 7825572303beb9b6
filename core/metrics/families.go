package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/server/toolset"
)

type (
	counters   = *prometheus.CounterVec
	gauges     = *prometheus.GaugeVec
	histograms = *prometheus.HistogramVec
)

// families are all series; docs/reference/metrics-and-logs.md says what each means.
type families struct {
	toolCalls, toolErrors, toolErrorCodes, toolRetries, toolBreaker counters
	toolDuration, toolInput, toolOutput                             histograms
	qualityErrors, similarFound                                     counters

	memoryStored    counters
	memoryDone      map[library.OperationKind]counters // of all but OperationStore
	memoryDurations map[library.OperationKind]histograms
	chainSize       histograms

	storeOperations, storeErrors, storeReconnects counters
	storeDuration, queryDuration, upsertDuration  histograms
	collectionSize, vectorDimension               gauges

	contributions, attempts, successes, bonuses, rareSuccesses counters
	successRate                                                gauges
	qualityScore                                               histograms

	embeddingRequests, embeddingErrors                 counters
	embeddingDuration, embeddingVector, embeddingBatch histograms

	httpRequests                        counters
	httpDuration, httpInput, httpOutput histograms
	httpActive                          gauges

	systemUptime, systemMemory, systemCPU, systemStart gauges

	routes                  counters
	routeDuration           histograms
	runsBegun, runsAttested counters
	auditLost               counters

	driverCalls, driverRepeats, driverStarts, driverRestarts, driverCrashes, driverSwaps, driverBreakerOpens counters
	driverDuration                                                                                           histograms
	driverUp, driverBreaker, driverMemory                                                                    gauges
}

// The buckets.
var (
	seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	sizes   = []float64{100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000}
	scores  = []float64{0, 1, 2, 4, 6, 8, 10, 12} // of a step: 0 to 12
	counts  = []float64{1, 2, 4, 8, 16, 32, 64, 128}
)

// initial are the labels of the series that a family shows before anything
// happened, so that dashboards and alerts find every name from the start.
var initial = map[string]string{
	"tenant_id": access.AppSpace, "tool": "kairos_search", "status": "success", "error_code": "NOT_FOUND", "transport": "http",
	"quality": "standard", "quality_tier": "standard", "operation": "search", "agent_id": none, "provider": none,
	"method": "GET", "route": "/health",
}

// factory declares families.
type factory struct{ to prometheus.Registerer }

func (f factory) counter(name, help string, labels ...string) counters {
	return registered(f, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels), labels)
}

func (f factory) gauge(name, help string, labels ...string) gauges {
	return registered(f, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels), labels)
}

func (f factory) histogram(name, help string, buckets []float64, labels ...string) histograms {
	return registered(f, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels), labels)
}

// vec is a family whose series are of type S.
type vec[S any] interface {
	prometheus.Collector
	WithLabelValues(values ...string) S
}

// registered makes the family known, and its first series if all its labels have
// an initial value.
func registered[S any, V vec[S]](f factory, v V, labels []string) V {
	f.to.MustRegister(v)
	values := make([]string, len(labels))
	for i, name := range labels {
		var known bool
		if values[i], known = initial[name]; !known {
			return v
		}
	}
	v.WithLabelValues(values...)
	return v
}

func newFamilies(to prometheus.Registerer) families {
	f := factory{to}
	var s families
	s.ofTools(f)
	s.ofMemory(f)
	s.ofStore(f)
	s.ofAgents(f)
	s.ofEmbedding(f)
	s.ofHTTP(f)
	s.ofSystem(f)
	s.ofRuns(f)
	s.ofDrivers(f)
	return s
}

func (s *families) ofTools(f factory) {
	s.toolCalls = f.counter("kairos_mcp_tool_calls_total", "Tool calls over MCP.", "tool", "status", "tenant_id")
	s.toolDuration = f.histogram("kairos_mcp_tool_duration_seconds", "How long tool calls took, waiting for people and models included.",
		seconds, "tool", "status", "tenant_id")
	s.toolErrors = f.counter("kairos_mcp_tool_errors_total", "Tool calls with an error result or a JSON-RPC error.", "tool", "tenant_id")
	s.toolInput = f.histogram("kairos_mcp_tool_input_size_bytes", "Arguments of tool calls.", sizes, "tool", "tenant_id")
	s.toolOutput = f.histogram("kairos_mcp_tool_output_size_bytes", "Results of tool calls.", sizes, "tool", "tenant_id")
	s.toolErrorCodes = f.counter("kairos_mcp_tool_error_codes_total", "Error codes in results, of refused submissions too.", "tool", "error_code", "tenant_id")
	s.toolRetries = f.counter("kairos_mcp_tool_retries_total", "Submissions of a step that failed and count as a retry.", "tool", "tenant_id")
	s.toolBreaker = f.counter("kairos_mcp_tool_circuit_breaker_total", "Replies that let the agent go after too many failures of a step.", "tool", "tenant_id")
	for _, tool := range toolset.Names() {
		s.toolCalls.WithLabelValues(tool, "success", access.AppSpace)
	}
	s.qualityErrors = f.counter("kairos_quality_update_errors_total", "Ratings of steps that could not be written and are lost.", "tenant_id")
	s.similarFound = f.counter("kairos_mint_similar_memory_found_total", "Mints refused because of a protocol that is much alike.", "transport", "tenant_id")
}

func (s *families) ofMemory(f factory) {
	s.memoryStored = f.counter("kairos_memory_store_total", "Steps stored, new or changed, by their grade.", "quality", "tenant_id")
	s.chainSize = f.histogram("kairos_memory_chain_size", "Steps of the protocols that were stored.", counts, "tenant_id")
	s.memoryDurations = map[library.OperationKind]histograms{
		library.OperationStore: f.histogram("kairos_memory_store_duration_seconds", "How long mints took.", seconds, "tenant_id"),
	}
	s.memoryDone = make(map[library.OperationKind]counters)
	for kind, of := range map[library.OperationKind]string{
		library.OperationRetrieve: "Protocols and steps read, by dump and begin", library.OperationSearch: "Searches",
		library.OperationUpdate: "Steps updated", library.OperationDelete: "Steps deleted",
	} {
		s.memoryDone[kind] = f.counter("kairos_memory_"+string(kind)+"_total", of+".", "status", "tenant_id")
		s.memoryDurations[kind] = f.histogram("kairos_memory_"+string(kind)+"_duration_seconds", of+": how long the calls took.", seconds, "tenant_id")
	}
}

func (s *families) ofStore(f factory) {
	s.storeOperations = f.counter("kairos_qdrant_operations_total", "Calls of the store of protocols, whichever it is.", "operation", "status", "tenant_id")
	s.storeDuration = f.histogram("kairos_qdrant_operation_duration_seconds", "How long calls of the store of protocols took.", seconds, "operation", "tenant_id")
	s.queryDuration = f.histogram("kairos_qdrant_query_duration_seconds", "How long searches of the store of protocols took.", seconds, "tenant_id")
	s.upsertDuration = f.histogram("kairos_qdrant_upsert_duration_seconds", "How long the store of protocols took to save.", seconds, "tenant_id")
	s.storeErrors = f.counter("kairos_qdrant_connection_errors_total", "Calls of the store of protocols that failed because of the store.", "tenant_id")
	s.storeReconnects = f.counter("kairos_qdrant_reconnect_total", "First calls of the store of protocols that were served again after it failed.", "tenant_id")
	s.collectionSize = f.gauge("kairos_qdrant_collection_size", "Protocols in the space.", "tenant_id")
	s.vectorDimension = f.gauge("kairos_qdrant_vector_dimension", "Numbers in a vector; 0: none was seen yet.")
}

func (s *families) ofAgents(f factory) {
	s.contributions = f.counter("kairos_agent_contributions_total", "Steps that a model wrote, by their grade.", "agent_id", "quality", "tenant_id")
	s.qualityScore = f.histogram("kairos_agent_quality_score", "Scores of the steps that a model wrote or attested.", scores, "agent_id", "quality_tier", "tenant_id")
	s.attempts = f.counter("kairos_agent_implementation_attempts_total", "Attestations.", "agent_id", "tenant_id")
	s.successes = f.counter("kairos_agent_implementation_successes_total", "Attestations of a success.", "agent_id", "tenant_id")
	s.successRate = f.gauge("kairos_agent_implementation_success_rate", "Share of successes since the start, 0 to 1.", "agent_id", "tenant_id")
	s.bonuses = f.counter("kairos_agent_implementation_bonus_total", "Bonus points of attested successes.", "agent_id", "tenant_id")
	s.rareSuccesses = f.counter("kairos_agent_rare_successes_total", "Attested successes at a step of grade high or excellent.", "agent_id", "tenant_id")
}

func (s *families) ofEmbedding(f factory) {
	s.embeddingRequests = f.counter("kairos_embedding_requests_total", "Requests to the embedding endpoint.", "provider", "status", "tenant_id")
	s.embeddingErrors = f.counter("kairos_embedding_errors_total", "Requests to the embedding endpoint that failed.", "provider", "tenant_id")
	s.embeddingDuration = f.histogram("kairos_embedding_duration_seconds", "How long requests to the embedding endpoint took.", seconds, "provider", "tenant_id")
	s.embeddingVector = f.histogram("kairos_embedding_vector_size_bytes", "Vectors, at 4 bytes a number.", sizes, "provider", "tenant_id")
	s.embeddingBatch = f.histogram("kairos_embedding_batch_size", "Texts in a request to the embedding endpoint.", counts, "provider", "tenant_id")
}

func (s *families) ofHTTP(f factory) {
	s.httpRequests = f.counter("kairos_http_requests_total", "HTTP requests.", "method", "route", "status", "tenant_id")
	s.httpDuration = f.histogram("kairos_http_request_duration_seconds", "How long HTTP requests took, streams included.", seconds, "method", "route", "tenant_id")
	s.httpInput = f.histogram("kairos_http_request_size_bytes", "Bodies of HTTP requests.", sizes, "method", "route", "tenant_id")
	s.httpOutput = f.histogram("kairos_http_response_size_bytes", "Bodies of HTTP replies.", sizes, "method", "route", "tenant_id")
	s.httpActive = f.gauge("kairos_http_active_connections", "HTTP requests that are being served, streams included.")
}

func (s *families) ofSystem(f factory) {
	s.systemUptime = f.gauge("kairos_system_uptime_seconds", "How long the server runs.")
	s.systemStart = f.gauge("kairos_system_process_start_time_seconds", "When the server started, in seconds since 1970.")
	s.systemMemory = f.gauge("kairos_system_memory_usage_bytes", "Memory: rss is resident, heapTotal taken for the heap, heapUsed in use there.", "type")
	s.systemCPU = f.gauge("kairos_system_cpu_usage_percent", "Processor time since the last scrape; 100 is one processor.")
}

func (s *families) ofRuns(f factory) {
	s.routes = f.counter("kairos_route_total", "Routes to the inputs of steps, tried to their end.", "challenge", "input", "via", "outcome", "error_code")
	s.routeDuration = f.histogram("kairos_route_duration_seconds", "How long routes took from the question, or the beginning of the try, to their end.",
		seconds, "challenge", "input", "via", "outcome")
	s.auditLost = f.counter("kairos_audit_lines_lost_total", "Lines that could not be written to the audit log.")
	s.runsBegun = f.counter("kairos_runs_begun_total", "Runs that were opened.", "tenant_id")
	s.runsAttested = f.counter("kairos_runs_attested_total", "Runs that were closed by an attestation.", "outcome", "verified", "tenant_id")
}

func (s *families) ofDrivers(f factory) {
	s.driverCalls = f.counter("kairos_driver_calls_total", "Calls of drivers.", "driver", "method", "status")
	s.driverDuration = f.histogram("kairos_driver_call_duration_seconds", "How long calls of drivers took, with the start that they waited for.",
		seconds, "driver", "method")
	s.driverRepeats = f.counter("kairos_driver_repeats_total", "Calls made again because the process died under them.", "driver")
	s.driverStarts = f.counter("kairos_driver_starts_total", "Starts of drivers.", "driver", "status")
	s.driverRestarts = f.counter("kairos_driver_restarts_total", "Starts of drivers after they had run before: after a crash, a swap or an idle time.", "driver")
	s.driverCrashes = f.counter("kairos_driver_crashes_total", "Processes of drivers that ended although nobody had asked them to.", "driver")
	s.driverSwaps = f.counter("kairos_driver_swaps_total", "Drivers replaced in the running server; error: the new one did not start.", "driver", "status")
	s.driverBreakerOpens = f.counter("kairos_driver_breaker_opens_total", "Times that a driver failed so often that it was left alone.", "driver")
	s.driverUp = f.gauge("kairos_driver_up", "1: its process runs; 0: it does not, because nobody needs it or it failed.", "driver")
	s.driverBreaker = f.gauge("kairos_driver_breaker_state", "0: closed; 1: half-open; 2: open, the driver is left alone.", "driver")
	s.driverMemory = f.gauge("kairos_driver_memory_bytes", "Resident memory of the driver's process.", "driver")
}
