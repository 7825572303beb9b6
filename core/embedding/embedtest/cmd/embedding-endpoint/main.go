// Command embedding-endpoint serves the fake embedding endpoint of embedtest,
// to try by hand what a server does with one:
//
//	go run ./core/embedding/embedtest/cmd/embedding-endpoint -listen 127.0.0.1:8111
//	TEI_BASE_URL=http://127.0.0.1:8111 kairos serve
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/kairos-mcp/kairos/core/embedding/embedtest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8111", "address to serve at")
	dimension := flag.Int("dimension", 256, "length of the vectors")
	delay := flag.Duration("delay", 0, "how long every answer takes")
	fault := flag.String("fault", "", "what goes wrong with every request: down, slow, busy, broken, refusing, zeros, garbage, ...")
	flag.Parse()
	e := embedtest.NewEndpoint(embedtest.Options{Dimension: *dimension, Delay: *delay})
	e.Behave(embedtest.Behaviour{Fault: embedtest.Fault(*fault)})
	fmt.Fprintf(os.Stderr, "embeddings at http://%s/v1/embeddings\n", *listen)
	server := http.Server{Addr: *listen, Handler: e, ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
