// Package metrics counts what a server does and shows it to Prometheus. It
// implements the observers that the other packages declare, and is the only one
// that knows Prometheus. It decides nothing, and nothing waits for it.
package metrics

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/kairos-mcp/kairos/core/driverhost"
)

// Metrics holds the series of one server. Its methods are called concurrently
// and return at once.
type Metrics struct {
	registry *prometheus.Registry
	families families
	bounds   bounds

	store  storeState
	rates  rates
	ran    sync.Map // names of drivers that were started
	system system

	scrape sync.Mutex // one at a time: what is looked up only for it is set anew
}

// New returns metrics that carry version and instance on every series.
func New(version, instance string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), bounds: newBounds(), system: newSystem()}
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{
		"service": "kairos", "kairos_version": valid(version), "instance": valid(instance),
	}, m.registry)
	m.families = newFamilies(labelled)
	labelled.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Drivers describes the present drivers.
type Drivers interface{ Status() []driverhost.Status }

// Handler serves GET /metrics and GET /health of the metrics port. Drivers is
// asked at each scrape; may be nil.
func (m *Metrics) Handler(drivers Drivers) http.Handler {
	mux := http.NewServeMux()
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return m.gather(drivers) })
	series := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		// Always the text format of version 0.0.4, whatever else the client reads.
		r = r.Clone(r.Context())
		r.Header.Del("Accept")
		series.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok","service":"metrics"}` + "\n")) // a client that has gone needs no answer
	})
	return mux
}

// sizing bounds how long a scrape waits for the store.
const sizing = 2 * time.Second

// gather looks up what is not counted as it happens, and returns every series.
func (m *Metrics) gather(drivers Drivers) ([]*dto.MetricFamily, error) {
	m.scrape.Lock()
	defer m.scrape.Unlock()
	m.showSystem()
	if drivers != nil {
		m.showDrivers(drivers.Status())
	}
	ctx, cancel := context.WithTimeout(context.Background(), sizing)
	defer cancel()
	m.showSizes(ctx)
	return m.registry.Gather()
}

// showDrivers shows the drivers that there are now, and no others.
func (m *Metrics) showDrivers(all []driverhost.Status) {
	m.families.driverUp.Reset()
	m.families.driverBreaker.Reset()
	m.families.driverMemory.Reset()
	for _, s := range all {
		name := m.bounds.driver(s.Name)
		up := 0.0
		if s.State == driverhost.Ready {
			up = 1
		}
		m.families.driverUp.WithLabelValues(name).Set(up)
		m.families.driverBreaker.WithLabelValues(name).Set(breakers[s.Breaker.State])
		m.families.driverMemory.WithLabelValues(name).Set(float64(s.RSSBytes))
	}
}

// breakers are the values of the breaker's states; closed is 0.
var breakers = map[string]float64{"half-open": 1, "open": 2}

// showSizes counts the protocols of the spaces that were called for.
func (m *Metrics) showSizes(ctx context.Context) {
	protocols := m.store.protocols.Load()
	if protocols == nil {
		return
	}
	for _, space := range m.bounds.tenants.known() {
		if n, err := (*protocols).Count(ctx, space); err == nil {
			m.families.collectionSize.WithLabelValues(space).Set(float64(n))
		}
	}
}
