package maxsim

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"example.org/maxsim/client/go/maxsimv1"
)

// Client calls one maxsimd, or the router of a cluster. All methods are safe for use by several goroutines.
type Client struct {
	options    Options
	connection *grpc.ClientConn
	reranker   maxsimv1.RerankerClient
	documents  maxsimv1.DocumentsClient
	health     grpc_health_v1.HealthClient
}

// New checks the options and reads the TLS files. It does not wait for a connection: if the server is down, New
// succeeds, and calls fail with UNAVAILABLE. An error about an option is an *Error, whose Field is the option's name.
func New(options Options) (*Client, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	dialOptions, err := options.dialOptions()
	if err != nil {
		return nil, err
	}
	connection, err := grpc.Dial(options.dialTarget(), dialOptions...) //nolint:staticcheck // also in Debian's gRPC
	if err != nil {
		return nil, invalid("Target", "%q cannot be used: %v", options.Target, err)
	}
	return &Client{
		options:    options,
		connection: connection,
		reranker:   maxsimv1.NewRerankerClient(connection),
		documents:  maxsimv1.NewDocumentsClient(connection),
		health:     grpc_health_v1.NewHealthClient(connection),
	}, nil
}

// Close closes the connections. Calls that are running end with CANCELLED.
func (c *Client) Close() error { return c.connection.Close() }

// Connection returns the connection, for calls that the Client does not have: maxsimv1.NewAdminClient(c.Connection()).
// Such calls are not retried and have no timeout of the Client, but carry its token.
func (c *Client) Connection() *grpc.ClientConn { return c.connection }

// withDeadline returns a context with the deadline of a call.
func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.options.Timeout)
}

// stubMethod is a method of a generated stub.
type stubMethod[Request, Response any] func(context.Context, Request, ...grpc.CallOption) (Response, error)

// call makes a call with retries.
func call[Request, Response any](ctx context.Context, c *Client, method stubMethod[Request, Response],
	request Request) (Response, error) {
	return callNoting(ctx, c, method, request, nil)
}

// callNoting does what call does, and also passes the error of each failed attempt to `after`.
func callNoting[Request, Response any](ctx context.Context, c *Client, method stubMethod[Request, Response],
	request Request, after func(*Error)) (response Response, err error) {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	err = c.options.Retry.retrying(ctx, after, func() (*Error, *string) {
		var trailer metadata.MD
		answer, err := method(ctx, request, grpc.Trailer(&trailer))
		if err == nil {
			response = answer
			return nil, nil
		}
		if values := trailer.Get(pushbackTrailer); len(values) > 0 {
			return fromGRPC(err), &values[0]
		}
		return fromGRPC(err), nil
	})
	return response, err
}

// callMetadata is the metadata of every call. It implements credentials.PerRPCCredentials.
type callMetadata struct {
	values      map[string]string
	needsSecret bool
}

func (o Options) callMetadata() callMetadata {
	values := map[string]string{}
	if o.Token != "" {
		values["authorization"] = "Bearer " + o.Token
	}
	if o.ClientID != "" {
		values[o.ClientKey] = o.ClientID
	}
	return callMetadata{values, o.Token != "" && !o.AllowPlaintextToken}
}

func (m callMetadata) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return m.values, nil
}

// RequireTransportSecurity makes gRPC itself refuse to send the token without TLS.
func (m callMetadata) RequireTransportSecurity() bool { return m.needsSecret }

// Info returns the server's version, limits, devices and collections.
func (c *Client) Info(ctx context.Context) (*maxsimv1.GetInfoResponse, error) {
	return call(ctx, c, c.reranker.GetInfo, &maxsimv1.GetInfoRequest{})
}

// HealthStatus is the state of a server or of one of its services.
type HealthStatus = grpc_health_v1.HealthCheckResponse_ServingStatus

// The states that a server reports.
const (
	HealthServing    = grpc_health_v1.HealthCheckResponse_SERVING
	HealthNotServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// Health returns whether the server accepts calls. It needs no token. `service` is "" for the whole server, or the name
// of a service, such as "maxsim.v1.Reranker"; NOT_FOUND if the server does not have it. A server that loads its
// collections or is stopping is not serving. Health makes one attempt: it reports the state now.
func (c *Client) Health(ctx context.Context, service string) (HealthStatus, error) {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	response, err := c.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		failed := fromGRPC(err)
		failed.Attempts = 1
		return grpc_health_v1.HealthCheckResponse_UNKNOWN, failed
	}
	return response.Status, nil
}
