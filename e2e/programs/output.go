package programs

import (
	"bytes"
	"sync"
)

// Output collects what programs write while others read it. The zero value is empty.
type Output struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}
