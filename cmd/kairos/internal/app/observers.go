package app

import (
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/driverhost"
	"github.com/kairos-mcp/kairos/core/embedding"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
)

// The observers below are nil, and not merely hold a nil, where nothing is measured.

func (a *App) hostOptions(file string) driverhost.Options {
	o := driverhost.Options{Confinement: Confinement(a.Config, file)}
	if a.measures != nil {
		o.Observer = a.measures
	}
	return o
}

func (a *App) embeddingObserver() embedding.Observer {
	if a.measures == nil {
		return nil
	}
	return a.measures
}

func (a *App) toolObserver() mcpserver.Observer {
	if a.measures == nil {
		return nil
	}
	return a.measures
}

func (a *App) httpObserver() rest.Observer {
	if a.measures == nil {
		return nil
	}
	return a.measures
}

// measuredStore is the store that the engine calls.
func (a *App) measuredStore() director.Store {
	if a.measures == nil {
		return a.engineStore()
	}
	return a.measures.Store(a.engineStore())
}
