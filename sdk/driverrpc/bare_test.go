package driverrpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// bareDriver is a driver as docs/reference/driver-wire.md says that one is written without Go:
// no go-plugin, none of its services, a plain leaf certificate.
type bareDriver struct {
	driverpb.UnimplementedDriverServiceServer
	driverpb.UnimplementedChallengeServiceServer
}

func (bareDriver) Describe(context.Context, *driverpb.DescribeRequest) (*driverpb.DescribeResponse, error) {
	return &driverpb.DescribeResponse{
		Name: "bare", Version: "1.0.0", Role: driverpb.Role_ROLE_CHALLENGE, Handles: []string{"bare"},
		Effect: driverpb.Effect_EFFECT_PURE, Transport: driverpb.Transport_TRANSPORT_GRPC,
	}, nil
}

func (bareDriver) Validate(context.Context, *driverpb.ValidateRequest) (*driverpb.ValidateResponse, error) {
	return &driverpb.ValidateResponse{ChallengeJson: []byte(`{"seen":true}`)}, nil
}

// serveBare is the main function of such a driver.
func serveBare() {
	cert, roots := bareCertificate(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT"))) {
		panic("PLUGIN_CLIENT_CERT holds no certificate")
	}
	address := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "sock")
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", address)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
		MinVersion: tls.VersionTLS12,
	})))
	driverpb.RegisterDriverServiceServer(server, bareDriver{})
	driverpb.RegisterChallengeServiceServer(server, bareDriver{})
	fmt.Printf("1|1|unix|%s|grpc|%s\n", address, base64.RawStdEncoding.EncodeToString(cert.Certificate[0]))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the lifeline
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		panic(err)
	}
}

func bareCertificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestADriverNeedsNothingOfGoPlugin(t *testing.T) {
	lifeline := stdinOfDrivers(t)
	host, client := startDriver(t, "bare")
	if d, err := client.Describe(t.Context()); err != nil || d.Name != "bare" || d.Transport != driver.TransportGRPC {
		t.Errorf("Describe = %+v, %v", d, err)
	}
	got, err := client.Challenge().Validate(t.Context(), driver.ValidateRequest{Challenge: []byte(`{}`)})
	if err != nil || string(got.Challenge) != `{"seen":true}` {
		t.Errorf("Validate = %+v, %v", got, err)
	}
	if err := lifeline.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !host.Exited(); {
		if time.Now().After(deadline) {
			t.Fatal("the driver outlives its lifeline")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// startDriver starts this test binary as a driver, and connects to it as go-plugin does.
func startDriver(t *testing.T, mode string, env ...string) (*plugin.Client, *driverrpc.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "k") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: driverrpc.Handshake(), Plugins: driverrpc.Plugins(),
		Cmd:              driverCommand(t, mode, append(env, "PLUGIN_UNIX_SOCKET_DIR="+dir)),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, AutoMTLS: true, SkipHostEnv: true,
		GRPCDialOptions: driverrpc.DialOptions(), Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(host.Kill)
	protocol, err := host.Client()
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	dispensed, err := protocol.Dispense(driverrpc.PluginName)
	if err != nil {
		t.Fatalf("dispense: %v", err)
	}
	client, ok := dispensed.(*driverrpc.Client)
	if !ok {
		t.Fatalf("dispensed a %T", dispensed)
	}
	return host, client
}

// processors is a challenge driver that says how many processors it uses.
type processors struct{ recorder }

func (*processors) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{Challenge: []byte(strconv.Itoa(runtime.GOMAXPROCS(0)))}, nil
}

func TestADriverUsesOneProcessorUnlessItsEnvironmentSaysOtherwise(t *testing.T) {
	for want, env := range map[string][]string{"1": nil, "3": {"GOMAXPROCS=3"}} {
		stdinOfDrivers(t)
		_, client := startDriver(t, "processors", env...)
		if got, err := client.Challenge().Validate(t.Context(), driver.ValidateRequest{}); err != nil || string(got.Challenge) != want {
			t.Errorf("with the environment %q it uses %s processors, %v, want %s", env, got.Challenge, err, want)
		}
	}
}

// stdinOfDrivers is the other end of what go-plugin gives to drivers.
func stdinOfDrivers(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	own := os.Stdin
	os.Stdin = r
	t.Cleanup(func() {
		os.Stdin = own
		_ = r.Close()
		_ = w.Close()
	})
	return w
}
