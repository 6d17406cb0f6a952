package maxsim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"example.org/maxsim/client/go/maxsimv1"
)

func TestAnOptionThatIsWrongIsNamed(t *testing.T) {
	cases := map[string]Options{
		"LoadBalancing":        {LoadBalancing: "random"},
		"Timeout":              {Timeout: -1},
		"MaxMessageBytes":      {MaxMessageBytes: -1},
		"KeepaliveTime":        {KeepaliveTime: -1},
		"Token":                {Token: "two words", TLS: &TLSOptions{}},
		"ClientID":             {ClientID: "a\n"},
		"ClientKey":            {ClientKey: "grpc-x"},
		"Retry.MaxAttempts":    {Retry: RetryOptions{MaxAttempts: -1}},
		"Retry.InitialBackoff": {Retry: RetryOptions{InitialBackoff: -1}},
		"Retry.MaxBackoff":     {Retry: RetryOptions{InitialBackoff: 2, MaxBackoff: 1}},
		"Retry.Multiplier":     {Retry: RetryOptions{Multiplier: math.NaN()}},
		"Retry.Jitter":         {Retry: RetryOptions{Jitter: 1.5}},
		"TLS.CAFile":           {TLS: &TLSOptions{CAFile: "no/such/file"}},
		"TLS.CertFile":         {TLS: &TLSOptions{CertFile: "only.pem"}},
	}
	for field, options := range cases {
		_, err := New(options)
		var failed *Error
		if !errors.As(err, &failed) || failed.Field != field || failed.Attempts != 0 {
			t.Errorf("%s: %v", field, err)
		}
		if err != nil && strings.Contains(err.Error(), "two words") {
			t.Errorf("the token is shown: %v", err)
		}
	}
}

func TestATokenIsNotSentInTheClearUnlessThatIsAllowed(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){answering(&maxsimv1.GetInfoResponse{})}}
	options := Options{Target: start(t, server), Token: "secret"}
	if _, err := New(options); err == nil || !strings.Contains(err.Error(), "AllowPlaintextToken") ||
		strings.Contains(err.Error(), "secret") {
		t.Fatalf("without TLS: %v", err)
	}
	options.AllowPlaintextToken = true
	if _, err := newClient(t, options).Info(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := server.metadata[0].Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("authorization: %v", got)
	}
}

func TestTheClientsNameIsSentUnderItsKey(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){answering(&maxsimv1.GetInfoResponse{})}}
	target := start(t, server)
	for _, options := range []Options{
		{Target: target}, {Target: target, ClientID: "batch"}, {Target: target, ClientID: "batch", ClientKey: "x-team"},
	} {
		if _, err := newClient(t, options).Info(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(server.metadata[0].Get("x-client-id")) != 0 || server.metadata[1].Get("x-client-id")[0] != "batch" ||
		server.metadata[2].Get("x-team")[0] != "batch" {
		t.Errorf("%v", server.metadata)
	}
}

// certificate writes a certificate that is its own authority, and its key, and returns the two files.
func certificate(t *testing.T, name string) (string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: signed}, keyFile: {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestTLSChecksTheServerAndSendsTheClientsCertificate(t *testing.T) {
	serverCert, serverKey := certificate(t, "search.example")
	clientCert, clientKey := certificate(t, "client.example")
	otherCert, _ := certificate(t, "search.example")
	config, err := (&TLSOptions{CAFile: clientCert, CertFile: serverCert, KeyFile: serverKey}).config()
	if err != nil {
		t.Fatal(err)
	}
	config.ClientCAs, config.ClientAuth = config.RootCAs, tls.RequireAndVerifyClientCert
	server := &fakeServer{answers: []func(context.Context) (any, error){answering(&maxsimv1.GetInfoResponse{})}}
	target := start(t, server, grpc.Creds(credentials.NewTLS(config)))
	cases := []struct {
		name  string
		tls   *TLSOptions
		works bool
	}{
		{"both", &TLSOptions{CAFile: serverCert, CertFile: clientCert, KeyFile: clientKey}, true},
		{"another name of the server",
			&TLSOptions{CAFile: serverCert, CertFile: clientCert, KeyFile: clientKey, ServerName: "search.example"}, true},
		{"a wrong name of the server",
			&TLSOptions{CAFile: serverCert, CertFile: clientCert, KeyFile: clientKey, ServerName: "other.example"}, false},
		{"another authority", &TLSOptions{CAFile: otherCert, CertFile: clientCert, KeyFile: clientKey}, false},
		{"the system's authorities", &TLSOptions{CertFile: clientCert, KeyFile: clientKey}, false},
		{"no certificate of the client", &TLSOptions{CAFile: serverCert}, false},
		{"no TLS", nil, false},
	}
	for _, one := range cases {
		options := Options{Target: target, TLS: one.tls, Retry: RetryOptions{MaxAttempts: 1}}
		if one.tls != nil {
			options.Token = "secret"
		}
		if _, err := newClient(t, options).Info(context.Background()); (err == nil) != one.works {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	if got := server.metadata[0].Get("authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("authorization: %v", got)
	}
}

func TestAPlainTargetIsLookedUpInTheDNS(t *testing.T) {
	for target, want := range map[string]string{
		"search-1:7070": "dns:///search-1:7070", "127.0.0.1:7070": "dns:///127.0.0.1:7070",
		"dns:///a:1": "dns:///a:1", "unix:///run/maxsimd": "unix:///run/maxsimd", "unix:a": "unix:a",
	} {
		if got := (Options{Target: target}).dialTarget(); got != want {
			t.Errorf("%s became %s", target, got)
		}
	}
}
