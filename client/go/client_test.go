package maxsim

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/runtime/protoiface"
	"google.golang.org/protobuf/types/known/durationpb"

	"example.org/maxsim/client/go/maxsimv1"
)

func withDetails(t *testing.T, code codes.Code, message string, details ...protoiface.MessageV1) error {
	t.Helper()
	made, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return made.Err()
}

func errorOf(t *testing.T, err error) *Error {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("%v is not an *Error", err)
	}
	return failed
}

func TestACallIsTriedAgainUntilItSucceeds(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){
		failing(status.Error(codes.Unavailable, "draining")),
		failing(status.Error(codes.Unavailable, "draining")),
		answering(&maxsimv1.GetInfoResponse{Version: "9"}),
	}}
	info, err := clientOf(t, server).Info(context.Background())
	if err != nil || info.Version != "9" || server.numCalls() != 3 {
		t.Errorf("%v, %v after %d calls", info, err, server.numCalls())
	}
}

func TestTheLastErrorIsReturnedWithItsAttempts(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){failing(status.Error(codes.Unavailable, "no"))}}
	_, err := clientOf(t, server).Info(context.Background())
	failed := errorOf(t, err)
	if failed.Code != codes.Unavailable || failed.Attempts != 4 || server.numCalls() != 4 || failed.Reason != "" {
		t.Errorf("%+v after %d calls", failed, server.numCalls())
	}
}

func TestARetryWaitsAsLongAsTheServerAsks(t *testing.T) {
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(80 * time.Millisecond)}
	server := &fakeServer{answers: []func(context.Context) (any, error){
		failing(withDetails(t, codes.ResourceExhausted, "busy", wait)),
		answering(&maxsimv1.GetInfoResponse{}),
	}}
	if _, err := clientOf(t, server).Info(context.Background()); err != nil {
		t.Fatal(err)
	}
	if waited := server.times[1].Sub(server.times[0]); waited < 80*time.Millisecond {
		t.Errorf("the retry came after %v", waited)
	}
}

func TestANegativePushbackTrailerForbidsRetries(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){func(ctx context.Context) (any, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs(pushbackTrailer, "-1")); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "draining")
	}}}
	if _, err := clientOf(t, server).Info(context.Background()); err == nil || server.numCalls() != 1 {
		t.Errorf("%v after %d calls", err, server.numCalls())
	}
}

func TestTheDeadlineOfTheContextCoversAllAttempts(t *testing.T) {
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}
	server := &fakeServer{answers: []func(context.Context) (any, error){
		failing(withDetails(t, codes.Unavailable, "loading", wait)),
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, err := clientOf(t, server).Info(ctx)
	failed := errorOf(t, err)
	if server.numCalls() != 1 || failed.Code != codes.Unavailable || failed.RetryAfter == nil ||
		*failed.RetryAfter != time.Hour {
		t.Errorf("%+v after %d calls", failed, server.numCalls())
	}
}

func TestTheServerLearnsTheTimeThatIsLeft(t *testing.T) {
	left := make(chan time.Duration, 2)
	server := &fakeServer{answers: []func(context.Context) (any, error){func(ctx context.Context) (any, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return &maxsimv1.GetInfoResponse{}, nil
	}}}
	client := newClient(t, Options{Target: start(t, server), Timeout: 20 * time.Minute})
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, one := range []context.Context{context.Background(), ctx} {
		if _, err := client.Info(one); err != nil {
			t.Fatal(err)
		}
	}
	if first := <-left; first < time.Minute || first > 20*time.Minute {
		t.Errorf("%v are left of the timeout of 20 minutes", first)
	}
	if second := <-left; second < 21*time.Minute || second > time.Hour {
		t.Errorf("%v are left of the context's hour", second)
	}
}

func TestADeadlineThatPassesIsTheContextsError(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){func(ctx context.Context) (any, error) {
		<-ctx.Done() // may come before the client sees its deadline
		return nil, status.Error(codes.DeadlineExceeded, "too late")
	}}}
	client := newClient(t, Options{Target: start(t, server), Timeout: 50 * time.Millisecond})
	_, err := client.Info(context.Background())
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

func TestCancellingTheContextEndsTheWaitForARetry(t *testing.T) {
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Hour)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	refusal := withDetails(t, codes.Unavailable, "loading", wait)
	server := &fakeServer{answers: []func(context.Context) (any, error){failing(refusal)}}
	client := clientOf(t, server)
	go func() {
		for server.numCalls() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, err := client.Info(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestAnErrorHasTheDetailsOfTheServer(t *testing.T) {
	field := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "top_k"}}}
	info := &errdetails.ErrorInfo{Reason: ReasonLimitExceeded, Domain: "maxsim",
		Metadata: map[string]string{"limit": "50", "limit_key": "limits.max_top_k"}}
	server := &fakeServer{answers: []func(context.Context) (any, error){
		failing(withDetails(t, codes.InvalidArgument, "top_k: is 51", field, info)),
	}}
	_, err := clientOf(t, server).Info(context.Background())
	failed := errorOf(t, err)
	if failed.Code != codes.InvalidArgument || failed.Message != "top_k: is 51" || failed.Field != "top_k" ||
		failed.Reason != ReasonLimitExceeded || failed.Limit == nil || *failed.Limit != 50 ||
		failed.LimitKey != "limits.max_top_k" || failed.RetryAfter != nil || failed.Attempts != 1 {
		t.Errorf("%+v", failed)
	}
}

func TestDetailsOfAnotherDomainAreLeftOut(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "QUOTA", Domain: "proxy.example", Metadata: map[string]string{"limit": "50"}}
	negative := &errdetails.RetryInfo{RetryDelay: durationpb.New(-time.Second)}
	failed := fromGRPC(withDetails(t, codes.Internal, "m", info, negative))
	if failed.Reason != "" || failed.Limit != nil || failed.RetryAfter != nil {
		t.Errorf("%+v", failed)
	}
}

func TestAMessageThatTheDetailsLackComesFromTheField(t *testing.T) {
	field := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "filter_text", Description: "is too long..."}}}
	failed := fromGRPC(withDetails(t, codes.InvalidArgument, "", field))
	if failed.Message != "filter_text: is too long..." {
		t.Errorf("%+v", failed)
	}
}

func TestWithoutAServerTheReasonIsNotConnected(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	client := newClient(t, Options{Target: listener.Addr().String(), Retry: RetryOptions{MaxAttempts: 1}})
	_, err = client.Info(context.Background())
	if failed := errorOf(t, err); failed.Code != codes.Unavailable || failed.Reason != ReasonNotConnected {
		t.Errorf("%+v", failed)
	}
}

func TestDeleteMatchingSumsItsCalls(t *testing.T) {
	more := &maxsimv1.DeleteResponse{NumDeleted: 3, NumStale: 1, Sequence: 7, HasMore: true}
	partly := &errdetails.ErrorInfo{Reason: ReasonPartlyDeleted, Domain: "maxsim",
		Metadata: map[string]string{"num_deleted": "2"}}
	server := &fakeServer{answers: []func(context.Context) (any, error){
		answering(more),
		failing(withDetails(t, codes.Unavailable, "a group is away", partly)),
		answering(&maxsimv1.DeleteResponse{NumDeleted: 1, Sequence: 6}),
	}}
	sum, err := clientOf(t, server).DeleteMatching(context.Background(), "notes", Filter{Text: "a = 1"}, nil)
	want := &maxsimv1.DeleteResponse{NumDeleted: 6, NumStale: 1, Sequence: 7}
	if err != nil || !proto.Equal(sum, want) {
		t.Errorf("%v, %v; want %v", sum, err, want)
	}
	if last := server.requests[2].(*maxsimv1.DeleteRequest); last.MinSequence != 7 {
		t.Errorf("the second page was asked for with min_sequence %d", last.MinSequence)
	}
}

func TestAFailedDeleteMatchingSaysHowManyItDeleted(t *testing.T) {
	server := &fakeServer{answers: []func(context.Context) (any, error){
		answering(&maxsimv1.DeleteResponse{NumDeleted: 3, HasMore: true}),
		failing(status.Error(codes.Internal, "broken")),
	}}
	_, err := clientOf(t, server).DeleteMatching(context.Background(), "notes", Filter{Text: "a = 1"}, nil)
	failed := errorOf(t, err)
	if failed.Code != codes.Internal || failed.Reason != ReasonPartlyDeleted || failed.NumDeleted != 3 {
		t.Errorf("%+v", failed)
	}
	if _, err := clientOf(t, server).DeleteMatching(context.Background(), "notes", Filter{}, nil); err == nil ||
		!strings.Contains(err.Error(), "filter: ") || server.numCalls() != 2 {
		t.Errorf("without a filter: %v after %d calls", err, server.numCalls())
	}
}

func TestScrollAsksForEachPageAfterTheLastId(t *testing.T) {
	page := func(hasMore bool, ids ...int64) func(context.Context) (any, error) {
		response := &maxsimv1.ScrollResponse{HasMore: hasMore}
		for _, id := range ids {
			response.Documents = append(response.Documents, &maxsimv1.StoredDocument{
				Id: &maxsimv1.StoredDocument_IntId{IntId: id}})
		}
		return answering(response)
	}
	server := &fakeServer{answers: []func(context.Context) (any, error){page(true, -1, 4), page(false, 9),
		failing(status.Error(codes.NotFound, "gone"))}}
	client := clientOf(t, server)
	scroll, seen := client.Scroll(context.Background(), "numbers", nil), []ID{}
	for scroll.Next() {
		seen = append(seen, scroll.Document().ID)
	}
	if scroll.Err() != nil || len(seen) != 3 || seen[0] != IntID(-1) || seen[2] != IntID(9) || scroll.Next() {
		t.Errorf("%v, %v", seen, scroll.Err())
	}
	second := server.requests[1].(*maxsimv1.ScrollRequest)
	if second.GetAfterIntId() != 4 || second.Limit != 0 || !second.ReturnPayloads {
		t.Errorf("the second page was asked for with %v", second)
	}
	if failed := client.Scroll(context.Background(), "numbers", nil); failed.Next() ||
		errorOf(t, failed.Err()).Code != codes.NotFound {
		t.Errorf("%v", failed.Err())
	}
}

func TestAnswersWhoseListsDifferInLengthAreErrors(t *testing.T) {
	ids := &maxsimv1.QueryResult_StringIds{StringIds: &maxsimv1.StringIds{Ids: []string{"a"}}}
	for _, response := range []*maxsimv1.RerankResponse{
		{},
		{Results: []*maxsimv1.QueryResult{{Scores: []float32{1, 2}, Positions: []uint64{0}}}},
		{Results: []*maxsimv1.QueryResult{{Ids: ids, Scores: []float32{1, 2}, Positions: []uint64{0, 1}}}},
	} {
		server := &fakeServer{answers: []func(context.Context) (any, error){answering(response)}}
		_, err := clientOf(t, server).Search(context.Background(), "passages", "volcano", nil)
		if failed := errorOf(t, err); failed.Code != codes.Internal {
			t.Errorf("%+v", failed)
		}
	}
}
