package maxsim

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

func half() float64 { return 0.5 } // leaves a delay as it is

func TestADelayGrowsUpToItsMaximum(t *testing.T) {
	options := RetryOptions{MaxAttempts: 9, MaxBackoff: 300 * time.Millisecond}.withDefaults()
	for attempts, want := range map[int]time.Duration{1: 50e6, 2: 100e6, 3: 200e6, 4: 300e6, 8: 300e6} {
		got, again := options.nextDelay(&Error{Code: codes.Unavailable}, nil, attempts, time.Hour, half)
		if got != want || !again {
			t.Errorf("after %d attempts: %v, %v; want %v", attempts, got, again, want)
		}
	}
}

func TestJitterChangesADelayByItsShare(t *testing.T) {
	options := RetryOptions{InitialBackoff: 100 * time.Millisecond}.withDefaults()
	failed := &Error{Code: codes.Unavailable}
	if got, _ := options.nextDelay(failed, nil, 1, time.Hour, func() float64 { return 0 }); got != 80*time.Millisecond {
		t.Errorf("least delay %v", got)
	}
	options.Jitter = -1
	if got, _ := options.nextDelay(failed, nil, 1, time.Hour, func() float64 { return 0 }); got != 100*time.Millisecond {
		t.Errorf("delay without jitter %v", got)
	}
}

func TestOnlySomeErrorsAreTriedAgain(t *testing.T) {
	hint, shorter, text := 400*time.Millisecond, time.Millisecond, func(value string) *string { return &value }
	cases := []struct {
		name     string
		failed   Error
		pushback *string
		attempts int
		left     time.Duration
		want     time.Duration
		again    bool
	}{
		{"unavailable", Error{Code: codes.Unavailable}, nil, 1, time.Hour, 50e6, true},
		{"internal", Error{Code: codes.Internal}, nil, 1, time.Hour, 0, false},
		{"internal with a hint", Error{Code: codes.Internal, RetryAfter: &hint}, nil, 1, time.Hour, 0, false},
		{"exhausted", Error{Code: codes.ResourceExhausted}, nil, 1, time.Hour, 0, false},
		{"exhausted with a hint", Error{Code: codes.ResourceExhausted, RetryAfter: &hint}, nil, 1, time.Hour, hint, true},
		{"a hint below the backoff", Error{Code: codes.Unavailable, RetryAfter: &shorter}, nil, 1, time.Hour, 50e6, true},
		{"exhausted with a trailer", Error{Code: codes.ResourceExhausted}, text("7"), 1, time.Hour, 7e6, true},
		{"a trailer below the hint", Error{Code: codes.Unavailable, RetryAfter: &hint}, text("0"), 1, time.Hour, 0, true},
		{"a negative trailer", Error{Code: codes.Unavailable}, text("-1"), 1, time.Hour, 0, false},
		{"an unreadable trailer", Error{Code: codes.Unavailable}, text("soon"), 1, time.Hour, 0, false},
		{"an empty trailer", Error{Code: codes.Unavailable}, text(""), 1, time.Hour, 0, false},
		{"a trailer with a sign", Error{Code: codes.Unavailable}, text("+5"), 1, time.Hour, 0, false},
		{"an endless trailer", Error{Code: codes.Unavailable}, text("9223372036854775807"), 1, time.Hour, 1<<63 - 1, false},
		{"the last attempt but one", Error{Code: codes.Unavailable}, nil, 3, time.Hour, 200e6, true},
		{"the last attempt", Error{Code: codes.Unavailable}, nil, 4, time.Hour, 0, false},
		{"just before the deadline", Error{Code: codes.Unavailable}, nil, 1, 50e6 + 1, 50e6, true},
		{"at the deadline", Error{Code: codes.Unavailable}, nil, 1, 50e6, 50e6, false},
	}
	for _, one := range cases {
		failed := one.failed
		options := RetryOptions{}.withDefaults()
		got, again := options.nextDelay(&failed, one.pushback, one.attempts, one.left, half)
		if again != one.again || got != one.want {
			t.Errorf("%s: %v, %v; want %v, %v", one.name, got, again, one.want, one.again)
		}
	}
}
