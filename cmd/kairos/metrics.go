package main

import (
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/embedding"
	"github.com/kairos-mcp/kairos/core/engine"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// The observers below are nil, and not merely hold a nil, where nothing is measured.

func (a *app) hostOptions(file string) driverhost.Options {
	o := driverhost.Options{Confinement: a.config.confinement(file)}
	if a.measures != nil {
		o.Observer = a.measures
	}
	return o
}

func (a *app) embeddingObserver() embedding.Observer {
	if a.measures == nil {
		return nil
	}
	return a.measures
}

func (a *app) toolObserver() mcpserver.Observer {
	if a.measures == nil {
		return nil
	}
	return a.measures
}

func (a *app) httpObserver() rest.Observer {
	if a.measures == nil {
		return nil
	}
	return a.measures
}

// measuredStore is the store that the engine calls.
func (a *app) measuredStore() engine.Store {
	if a.measures == nil {
		return a.engineStore()
	}
	return a.measures.Store(a.engineStore())
}
