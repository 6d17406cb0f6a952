package maxsim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons of errors that a program may want to tell apart. docs/reference/errors.md lists all of them.
const (
	ReasonInvalidField       = "INVALID_FIELD"
	ReasonLimitExceeded      = "LIMIT_EXCEEDED"
	ReasonUnknownIDs         = "UNKNOWN_IDS"
	ReasonOtherGeneration    = "OTHER_GENERATION"
	ReasonSequenceNotReached = "SEQUENCE_NOT_REACHED"
	ReasonNothingWritten     = "NOTHING_WRITTEN"
	ReasonPartlyDeleted      = "PARTLY_DELETED"
	ReasonNotConnected       = "NOT_CONNECTED"
	ReasonTenantQuota        = "TENANT_QUOTA"
)

const (
	errorDomain   = "maxsim"
	maxRetryDelay = 365 * 24 * time.Hour
)

// Error is the error of a call. Programs read its fields; the message is for people only.
type Error struct {
	Code    codes.Code
	Message string
	Field   string // path of the wrong field of the request, such as "queries[0].tokens.dim"; "" for other errors
	Reason  string // one of the reasons of docs/reference/errors.md, or ""

	Limit    *uint64 // the largest accepted value, if the value of Field exceeds a limit; else nil
	LimitKey string  // the server's configuration key that sets the limit; "" for a constant

	RetryAfter *time.Duration // when the server expects to accept the call; nil if it did not say
	NumDeleted uint64         // documents that DeleteMatching deleted before the error
	Attempts   int            // attempts that were made; 0 if the client refused an argument or an option
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("maxsim: %v: %s", e.Code, e.Message) }

// GRPCStatus lets status.Code and status.FromError read the error.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// Is makes errors.Is work with context.DeadlineExceeded and context.Canceled.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.Code == codes.Canceled
	}
	return false
}

// invalid returns an error about an argument or an option that the client itself refuses.
func invalid(field, problem string, arguments ...any) *Error {
	message := field + ": " + fmt.Sprintf(problem, arguments...)
	return &Error{Code: codes.InvalidArgument, Message: message, Field: field, Reason: ReasonInvalidField}
}

func fromContext(err error) *Error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: codes.DeadlineExceeded, Message: err.Error()}
	}
	return &Error{Code: codes.Canceled, Message: err.Error()}
}

// fromGRPC converts an error of a stub. Details that are malformed, or whose domain is not "maxsim", are left out.
func fromGRPC(err error) *Error {
	made := status.Convert(err)
	result := &Error{Code: made.Code(), Message: made.Message()}
	details := made.Details()
	for _, detail := range details {
		switch detail := detail.(type) {
		case *errdetails.BadRequest:
			if len(detail.FieldViolations) > 0 {
				result.Field = detail.FieldViolations[0].Field
				// gRPC for Go takes the message from the details, where the server leaves it out if it has more than 1 KiB. Then
				// restore it from the field and its description.
				setDefault(&result.Message, result.Field+": "+detail.FieldViolations[0].Description)
			}
		case *errdetails.ErrorInfo:
			result.readInfo(detail)
		case *errdetails.RetryInfo:
			delay := detail.RetryDelay
			if delay.CheckValid() == nil && delay.AsDuration() >= 0 && delay.AsDuration() <= maxRetryDelay {
				duration := delay.AsDuration()
				result.RetryAfter = &duration
			}
		}
	}
	if len(details) == 0 && isNotConnected(result) {
		result.Reason = ReasonNotConnected
	}
	return result
}

func (e *Error) readInfo(info *errdetails.ErrorInfo) {
	if info.Domain != errorDomain {
		return
	}
	e.Reason = info.Reason
	e.LimitKey = info.Metadata["limit_key"]
	if limit, err := strconv.ParseUint(info.Metadata["limit"], 10, 64); err == nil {
		e.Limit = &limit
	}
	e.NumDeleted, _ = strconv.ParseUint(info.Metadata["num_deleted"], 10, 64)
}

// isNotConnected says whether gRPC itself made the error, because it had no connection. No code or detail of gRPC says
// this, so the function looks for the words of gRPC 1.33. If another version uses other words, the error only lacks the
// reason NOT_CONNECTED.
func isNotConnected(e *Error) bool {
	if e.Code != codes.Unavailable {
		return false
	}
	for _, words := range []string{"all SubConns are in TransientFailure", "last connection error: ",
		"connection error: desc = \"transport: Error while dialing", "last resolver error: "} {
		if strings.HasPrefix(e.Message, words) {
			return true
		}
	}
	return false
}
