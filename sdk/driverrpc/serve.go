package driverrpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The environment of a started driver, named by go-plugin.
const (
	socketDirEnv  = "PLUGIN_UNIX_SOCKET_DIR"
	clientCertEnv = "PLUGIN_CLIENT_CERT"
)

// certLifetime is as long as no driver runs.
const certLifetime = 30 * 365 * 24 * time.Hour

// servePlugin is the driver's end of go-plugin's handshake, without go-plugin:
// that brings net/rpc, yamux and more along, of which a driver needs nothing,
// but which each of its processes would hold in memory. It listens, prints the
// address to out, and serves until the host asks it to stop.
func servePlugin(d driver.Driver, log *slog.Logger, out io.Writer) error {
	var options []grpc.ServerOption
	cert := ""
	if client := os.Getenv(clientCertEnv); client != "" {
		config, own, err := mutualTLS([]byte(client))
		if err != nil {
			return fmt.Errorf("make the certificate: %w", err)
		}
		cert = base64.RawStdEncoding.EncodeToString(own)
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	listener, err := listen(os.Getenv(socketDirEnv))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s := newServer(d, log, options...)
	registerPlugin(s)
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // meant for the host, which ends its drivers itself
	if _, err := fmt.Fprintf(out, "1|%d|unix|%s|grpc|%s\n", ProtocolVersion, listener.Addr(), cert); err != nil {
		return errors.Join(err, listener.Close())
	}
	useOneProcessor()
	go debug.FreeOSMemory() // while the host connects: what only the start needed
	return s.Serve(listener)
}

// useOneProcessor lets goroutines run one at a time, unless GOMAXPROCS of the driver's
// environment says otherwise. A call passes through five of them, each of which would
// wake another thread: that took a third of the processor time of a short call.
func useOneProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}

// listen opens a unix socket with a name of its own in dir.
func listen(dir string) (net.Listener, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	return new(net.ListenConfig).Listen(context.Background(), "unix", filepath.Join(dir, "plugin"+rand.Text()[:10]))
}

// mutualTLS is the configuration for a host with the certificate (PEM), and
// the certificate made for this process (DER).
func mutualTLS(client []byte) (*tls.Config, []byte, error) {
	hosts := x509.NewCertPool()
	if !hosts.AppendCertsFromPEM(client) {
		return nil, nil, fmt.Errorf("%s holds no certificate", clientCertEnv)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, SerialNumber: serial,
		NotBefore: now.Add(-30 * time.Second), NotAfter: now.Add(certLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: hosts, MinVersion: tls.VersionTLS13,
	}, der, nil
}

// registerPlugin adds what go-plugin's host asks of every plugin: its health
// and its end. Standard output and the broker it can do without.
func registerPlugin(s *grpc.Server) {
	healthy := grpchealth.NewServer()
	healthy.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, healthy)
	shutdown := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		if err := decode(new(emptypb.Empty)); err != nil {
			return nil, err
		}
		go s.Stop()
		return new(emptypb.Empty), nil
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Shutdown", Handler: shutdown}},
	}, nil)
}
