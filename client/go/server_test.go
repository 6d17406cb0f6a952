package maxsim

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"example.org/maxsim/client/go/maxsimv1"
)

// fakeServer answers each call with the next of its answers, and with the last one from then on. It records the time,
// the metadata and the request of each call.
type fakeServer struct {
	maxsimv1.UnimplementedRerankerServer
	maxsimv1.UnimplementedDocumentsServer

	mutex    sync.Mutex
	answers  []func(context.Context) (any, error)
	times    []time.Time
	metadata []metadata.MD
	requests []any
}

func (s *fakeServer) answer(ctx context.Context, request any) (any, error) {
	s.mutex.Lock()
	given, _ := metadata.FromIncomingContext(ctx)
	s.times, s.metadata, s.requests = append(s.times, time.Now()), append(s.metadata, given), append(s.requests, request)
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mutex.Unlock()
	return next(ctx)
}

func (s *fakeServer) numCalls() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.times)
}

func (s *fakeServer) GetInfo(ctx context.Context, q *maxsimv1.GetInfoRequest) (*maxsimv1.GetInfoResponse, error) {
	answer, err := s.answer(ctx, q)
	response, _ := answer.(*maxsimv1.GetInfoResponse)
	return response, err
}

func (s *fakeServer) Rerank(ctx context.Context, q *maxsimv1.RerankRequest) (*maxsimv1.RerankResponse, error) {
	answer, err := s.answer(ctx, q)
	response, _ := answer.(*maxsimv1.RerankResponse)
	return response, err
}

func (s *fakeServer) Delete(ctx context.Context, q *maxsimv1.DeleteRequest) (*maxsimv1.DeleteResponse, error) {
	answer, err := s.answer(ctx, q)
	response, _ := answer.(*maxsimv1.DeleteResponse)
	return response, err
}

func (s *fakeServer) Scroll(ctx context.Context, q *maxsimv1.ScrollRequest) (*maxsimv1.ScrollResponse, error) {
	answer, err := s.answer(ctx, q)
	response, _ := answer.(*maxsimv1.ScrollResponse)
	return response, err
}

func answering(response any) func(context.Context) (any, error) {
	return func(context.Context) (any, error) { return response, nil }
}

func failing(err error) func(context.Context) (any, error) {
	return func(context.Context) (any, error) { return nil, err }
}

// start serves `server` in this process, and returns its address.
func start(t *testing.T, server *fakeServer, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	made := grpc.NewServer(options...)
	maxsimv1.RegisterRerankerServer(made, server)
	maxsimv1.RegisterDocumentsServer(made, server)
	go made.Serve(listener) //nolint:errcheck // Stop ends it
	t.Cleanup(made.Stop)
	return listener.Addr().String()
}

// clientOf returns a client of a fake server, which waits a millisecond before its first retry.
func clientOf(t *testing.T, server *fakeServer) *Client {
	t.Helper()
	return newClient(t, Options{
		Target: start(t, server),
		Retry:  RetryOptions{InitialBackoff: time.Millisecond, Jitter: -1},
	})
}

func newClient(t *testing.T, options Options) *Client {
	t.Helper()
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
