package openai_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/internal/openai"
)

func TestARefusalHasTheWordsOfTheEndpointAndNoKey(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"no such model"}}`:              "no such model",
		`{"error":"batch is too large","type":"Validation"}`: "batch is too large",
		`{"object":"error","message":"too\nlong"}`:           "too long",
		`{"error":{"message":"incorrect key sk-1"}}`:         "incorrect key (hidden)",
		"<html>busy": "<html>busy",
		`{"error":{"message":"` + strings.Repeat("x", 3000):        "xxx",
		`{"error":{"message":"` + strings.Repeat("x", 1<<20):       "xxx",
		`{"error":{"message":"` + strings.Repeat("€", 900) + `"}}`: "€€€",
	} {
		e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, body)
		}))
		c := openai.New()
		_, err := c.Chat(t.Context(), openai.Endpoint{URL: e.URL, Key: "sk-1"}, openai.ChatRequest{})
		var r *openai.Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Message, want) || len(r.Message) > 320 || strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%.60s: Chat = %v, want %q on one short line without the key", body, err, want)
		} else if !r.Passing() || r.After != 7*time.Second {
			t.Errorf("%.60s: passing %t, after %s", body, r.Passing(), r.After)
		}
		c.Close()
		e.Close()
	}
}

func TestURLsGetTheVersionThatTheyLack(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h": "http://h/v1", "http://h/": "http://h/v1", "http://h/v1/": "http://h/v1", "http://h/api/v3": "http://h/api/v3",
		"http://h/v1/embeddings": "http://h/v1", "http://h/v1/chat/completions": "http://h/v1",
	} {
		if got := openai.Versioned(raw); got != want {
			t.Errorf("Versioned(%q) = %q, want %q", raw, got, want)
		}
	}
}
