package driverhost

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// pluginLog sends go-plugin's own messages to slog. All of them are details:
// the host itself logs starts, stops and failures.
type pluginLog struct {
	hclog.Logger // the null logger, for the methods that go-plugin never needs
	log          *slog.Logger
}

func newPluginLog(log *slog.Logger) hclog.Logger {
	return &pluginLog{Logger: hclog.NewNullLogger(), log: log}
}

func (l *pluginLog) Log(level hclog.Level, msg string, args ...any) {
	l.log.Log(context.Background(), slog.LevelDebug, "go-plugin", "says", msg, "level", level.String(), "details", args)
}

func (l *pluginLog) Trace(string, ...any)           {}
func (l *pluginLog) Debug(msg string, args ...any)  { l.Log(hclog.Debug, msg, args...) }
func (l *pluginLog) Info(msg string, args ...any)   { l.Log(hclog.Info, msg, args...) }
func (l *pluginLog) Warn(msg string, args ...any)   { l.Log(hclog.Warn, msg, args...) }
func (l *pluginLog) Error(msg string, args ...any)  { l.Log(hclog.Error, msg, args...) }
func (l *pluginLog) With(...any) hclog.Logger       { return l }
func (l *pluginLog) Named(string) hclog.Logger      { return l }
func (l *pluginLog) ResetNamed(string) hclog.Logger { return l }
