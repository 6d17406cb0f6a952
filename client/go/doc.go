// Package maxsim is the Go client of maxsimd, a server that ranks documents exactly for late-interaction models.
//
//	client, err := maxsim.New(maxsim.Options{Target: "search-1:7070"})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	query := maxsim.Query{Tokens: maxsim.Float32Tokens(values, 128)}
//	ranking, err := client.Rerank(ctx, "passages", query, maxsim.StringCandidates(ids...), nil)
//
// Deadlines: if the context has a deadline, it covers all attempts of a call. Otherwise the call has Options.Timeout.
// The server learns the time that is left. Cancelling the context ends the call, also between two attempts.
//
// Retries: RetryOptions says which calls are tried again, and when. All methods except Health are retried. That is safe
// for Upsert and Delete too, because a write replaces the whole document. See Client.Upsert for the two exceptions.
//
// Errors: every error of a method is an *Error, which has the code, the field and the reason. Use errors.As. The
// functions errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled) and status.Code(err) work too.
//
// A Client is safe for use by several goroutines at the same time. It owns the connections, so a process should create
// one and keep it. Methods do not change their arguments. They share the arguments and do not copy them, so do not
// change the arguments before the call returns.
//
// The package maxsimv1 has the generated messages. The server checks every field of a request and names the wrong one;
// this package only checks what it needs to make the request.
package maxsim
