package maxsim

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Options say how a Client reaches its server. A field that is zero has the default that its comment names.
type Options struct {
	// Target is host:port, or any gRPC name: "dns:///host:port", "unix:///path". The default is "localhost:7070".
	Target string
	// LoadBalancing says how calls are distributed if Target has several addresses, as the name of a headless Kubernetes
	// service has. "round_robin", the default, connects to every address, and calls take those in turn that can be
	// reached. "pick_first" sends all calls to the first address that answers.
	LoadBalancing string

	// Timeout bounds a call whose context has no deadline, with all of its attempts and the waits between them. The
	// default is 30 s.
	Timeout time.Duration
	Retry   RetryOptions

	// TLS turns TLS on; &TLSOptions{} trusts the authorities of the system. The default is no TLS.
	TLS *TLSOptions
	// Token is sent as "authorization: Bearer ...". New refuses it without TLS, unless AllowPlaintextToken is set.
	Token string
	// AllowPlaintextToken sends the token without TLS. Anyone on the way can then read it: use this only on one machine,
	// or in a network that encrypts.
	AllowPlaintextToken bool
	// ClientID is the name under which a busy server counts these calls when it divides its time among clients. It is
	// sent as the metadata ClientKey, which must be the server's batching.client_key; its default is "x-client-id". If
	// ClientID is empty, no such metadata is sent, and the server uses the connection's address as the name.
	ClientID  string
	ClientKey string

	// MaxMessageBytes is the largest message that the client sends or receives. The default is 256 MiB. The server has
	// its own limit (Limits.MaxRequestBytes).
	MaxMessageBytes int
	// KeepaliveTime is how long a connection with waiting calls may be idle before the client pings the server. The
	// default is never. gRPC raises values below 10 s to 10 s. A server closes connections that ping more often than it
	// allows (gRPC's default is one ping in 5 minutes without data).
	KeepaliveTime time.Duration
	// KeepaliveTimeout is how long the client waits for the answer to a ping. The default is 10 s.
	KeepaliveTimeout time.Duration

	// DialOptions are passed to gRPC after those that the fields above set, for example interceptors.
	DialOptions []grpc.DialOption
}

// TLSOptions are for a server with TLS. Files are PEM and are read once, by New.
type TLSOptions struct {
	CAFile     string // certificates that may sign the server's; empty: the system's
	CertFile   string // this client's certificate, if the server asks for one; needs KeyFile
	KeyFile    string
	ServerName string // expected in the server's certificate; empty: the target's host
}

const (
	firstReconnect   = 200 * time.Millisecond
	slowestReconnect = 5 * time.Second
)

var (
	schemePattern = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*://|unix:|unix-abstract:)`)
	keyPattern    = regexp.MustCompile(`^[a-z0-9_.-]+$`)
)

// withDefaults returns the options with each zero field replaced by its default.
func (o Options) withDefaults() Options {
	setDefault(&o.Target, "localhost:7070")
	setDefault(&o.LoadBalancing, "round_robin")
	setDefault(&o.Timeout, 30*time.Second)
	setDefault(&o.ClientKey, "x-client-id")
	setDefault(&o.MaxMessageBytes, 256<<20)
	setDefault(&o.KeepaliveTimeout, 10*time.Second)
	o.Retry = o.Retry.withDefaults()
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate returns an error that names the option, the value and what is allowed. It never shows a token.
func (o Options) validate() error {
	if o.LoadBalancing != "round_robin" && o.LoadBalancing != "pick_first" {
		return invalid("LoadBalancing", `is %q; must be "round_robin" or "pick_first"`, o.LoadBalancing)
	}
	if o.Timeout < 0 {
		return invalid("Timeout", "is %v; must be more than 0", o.Timeout)
	}
	if o.MaxMessageBytes < 1 || o.MaxMessageBytes > math.MaxInt32 {
		return invalid("MaxMessageBytes", "is %d; must be between 1 and %d", o.MaxMessageBytes, math.MaxInt32)
	}
	if o.KeepaliveTime < 0 || o.KeepaliveTimeout < 0 {
		return invalid("KeepaliveTime", "is %v and KeepaliveTimeout %v; neither may be negative", o.KeepaliveTime,
			o.KeepaliveTimeout)
	}
	if !isHeaderValue(o.Token) {
		return invalid("Token", "has a space, a control character or a byte beyond ASCII")
	}
	if o.Token != "" && o.TLS == nil && !o.AllowPlaintextToken {
		return invalid("Token", "would be sent in the clear; set TLS, or AllowPlaintextToken to allow it")
	}
	if !isHeaderValue(o.ClientID) {
		return invalid("ClientID", "has a space, a control character or a byte beyond ASCII")
	}
	if !keyPattern.MatchString(o.ClientKey) || strings.HasPrefix(o.ClientKey, "grpc-") ||
		strings.HasSuffix(o.ClientKey, "-bin") {
		return invalid("ClientKey",
			"is %q; must be a metadata key: a-z, 0-9, - _ . without -bin at the end or grpc- at the beginning", o.ClientKey)
	}
	return o.Retry.validate()
}

func isHeaderValue(value string) bool {
	for i := 0; i < len(value); i++ {
		if value[i] < 0x21 || value[i] > 0x7e {
			return false
		}
	}
	return true
}

// dialOptions returns gRPC's options. The options must be valid.
func (o Options) dialOptions() ([]grpc.DialOption, error) {
	options := []grpc.DialOption{
		// Retries of gRPC are off, because RetryOptions is the one place that decides about them.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{"%s":{}}]}`, o.LoadBalancing)),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(o.MaxMessageBytes), grpc.MaxCallRecvMsgSize(o.MaxMessageBytes)),
		grpc.WithUserAgent("maxsim-go"),
		// With gRPC's default of 1 s, every retry within that second would fail without trying to connect.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: firstReconnect, Multiplier: 1.6, Jitter: 0.2, MaxDelay: slowestReconnect,
			},
			MinConnectTimeout: 20 * time.Second,
		}),
		grpc.WithPerRPCCredentials(o.callMetadata()),
	}
	if o.KeepaliveTime > 0 {
		options = append(options, grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: o.KeepaliveTime, Timeout: o.KeepaliveTimeout}))
	}
	if o.TLS == nil {
		options = append(options, grpc.WithInsecure()) //nolint:staticcheck // Debian 12's gRPC has nothing newer
	} else {
		config, err := o.TLS.config()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	}
	return append(options, o.DialOptions...), nil
}

// dialTarget returns the target as a name of gRPC. A plain host:port is looked up in the DNS, so that all of its
// addresses are used.
func (o Options) dialTarget() string {
	if schemePattern.MatchString(o.Target) {
		return o.Target
	}
	return "dns:///" + o.Target
}

func (t *TLSOptions) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, invalid("TLS.CertFile", "is %q and TLS.KeyFile %q; give both or neither", t.CertFile, t.KeyFile)
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, invalid("TLS.CAFile", "cannot be read: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("TLS.CAFile", "%q holds no certificate in the format PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, invalid("TLS.CertFile", "and TLS.KeyFile cannot be used: %v", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}
