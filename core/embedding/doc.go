// Package embedding turns texts into vectors by calling an OpenAI-compatible
// endpoint: OpenAI itself, Ollama, vLLM or Hugging Face's text embeddings
// inference (TEI). It trusts no answer of the endpoint, caches vectors, and fails
// fast while the endpoint is down. It stores nothing.
package embedding
