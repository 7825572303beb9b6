package mcp

import (
	"context"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// clientLog sends log messages to clients.
type clientLog struct {
	mcp *server.MCPServer
	log *slog.Logger
}

// logged sends a client the outcome of its call, if it asked for messages of that
// level: by logging/setLevel, or in the modern era by the level in the _meta of the
// call. Other clients get no message: it would turn an HTTP reply into an event
// stream, which not every client expects.
func (l clientLog) logged(h server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if logLevelOf(ctx) == "" {
			return h(ctx, req)
		}
		res, err := h(ctx, req)
		level, data := mcp.LoggingLevelInfo, map[string]any{"tool": req.Params.Name}
		switch n := noteFrom(ctx); {
		case err != nil:
			level, data["error"] = mcp.LoggingLevelError, err.Error()
		case n != nil && n.errorCode != "":
			level, data["error_code"] = mcp.LoggingLevelWarning, n.errorCode
		}
		l.say(ctx, level, data)
		return res, err
	}
}

// say sends a log message about the present call to its client.
func (l clientLog) say(ctx context.Context, level mcp.LoggingLevel, data any) {
	if !level.ShouldSendTo(logLevelOf(ctx)) {
		return
	}
	params := map[string]any{"level": level, "logger": "kairos", "data": data}
	var err error
	if from := originOf(ctx); from.peer != nil {
		err = from.peer.notify(methodLogMessage, params)
	} else {
		err = l.mcp.SendNotificationToClient(ctx, methodLogMessage, params)
	}
	if err != nil {
		l.log.DebugContext(ctx, "log message not sent", "error", err)
	}
}

const methodLogMessage = "notifications/message"

// logLevelOf returns the lowest level that the client of this call asked for; empty:
// none.
func logLevelOf(ctx context.Context) mcp.LoggingLevel {
	if server.IsModernRequest(ctx) {
		return server.RequestProtocolInfoFromContext(ctx).LogLevel
	}
	if conn := originOf(ctx).conn; conn != nil {
		return conn.logLevel()
	}
	return ""
}

func (c *connection) logLevel() mcp.LoggingLevel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wants
}

// SetLogLevel implements server.SessionWithLogging. Without a connection the
// level cannot be kept.
func (s *session) SetLogLevel(level mcp.LoggingLevel) {
	if s.conn == nil {
		return
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.wants = level
}

// GetLogLevel implements server.SessionWithLogging.
func (s *session) GetLogLevel() mcp.LoggingLevel {
	if s.conn == nil {
		return ""
	}
	return s.conn.logLevel()
}
