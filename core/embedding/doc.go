// Package embedding turns texts into vectors by asking an OpenAI-compatible
// endpoint: OpenAI itself, Ollama, vLLM or Hugging Face's text embeddings
// inference (TEI). It believes nothing of what the endpoint answers, keeps
// what it heard for a while, and while the endpoint is down it says so at once
// instead of making everybody wait. It stores nothing.
package embedding
