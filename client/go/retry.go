package maxsim

import (
	"context"
	"math"
	"math/rand"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
)

// RetryOptions say whether and when a failed call is tried again. Only two failures are worth another attempt:
//
//   - UNAVAILABLE: the server could not be reached, is draining, or is loading the collection;
//   - RESOURCE_EXHAUSTED, and only with a hint when to come back (RetryInfo, or the trailer "grpc-retry-pushback-ms").
//     Without one it means "too large", which a second attempt cannot change.
//
// The delay is min(InitialBackoff * Multiplier^n, MaxBackoff), changed at random by up to Jitter of itself, and at
// least the delay in RetryInfo. If the answer has the trailer, its value is the delay; a negative or unreadable
// value forbids another attempt (gRPC's proposal A6). If the next attempt could only start at or after the deadline, it
// is not made, and the call returns the last error at once. The rules and the defaults are those of the C++ client.
type RetryOptions struct {
	MaxAttempts    int           // the first one included; 1 never retries. The default is 4
	InitialBackoff time.Duration // default: 50 ms
	MaxBackoff     time.Duration // default: 2 s
	Multiplier     float64       // at least 1; default: 2
	// Jitter is at most 1: a delay of t becomes one between t * (1 - Jitter) and t * (1 + Jitter). The default is 0.2; a
	// negative value means no jitter.
	Jitter float64
}

const pushbackTrailer = "grpc-retry-pushback-ms"

func (o RetryOptions) withDefaults() RetryOptions {
	setDefault(&o.MaxAttempts, 4)
	setDefault(&o.InitialBackoff, 50*time.Millisecond)
	setDefault(&o.MaxBackoff, 2*time.Second)
	setDefault(&o.Multiplier, 2)
	setDefault(&o.Jitter, 0.2)
	return o
}

// validate is written so that NaN fails too.
func (o RetryOptions) validate() error {
	if o.MaxAttempts < 1 {
		return invalid("Retry.MaxAttempts", "is %d; must be 1 or more", o.MaxAttempts)
	}
	if o.InitialBackoff < 0 {
		return invalid("Retry.InitialBackoff", "is %v; must be more than 0", o.InitialBackoff)
	}
	if o.MaxBackoff < o.InitialBackoff {
		return invalid("Retry.MaxBackoff", "is %v, less than Retry.InitialBackoff, %v", o.MaxBackoff, o.InitialBackoff)
	}
	if !(o.Multiplier >= 1) || math.IsInf(o.Multiplier, 0) {
		return invalid("Retry.Multiplier", "is %v; must be 1 or more", o.Multiplier)
	}
	if !(o.Jitter <= 1) {
		return invalid("Retry.Jitter", "is %v; must be 1 or less", o.Jitter)
	}
	return nil
}

// parsePushback returns the trailer's value as a delay; false means "do not retry".
func parsePushback(value string) (time.Duration, bool) {
	milliseconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || milliseconds < 0 || value[0] == '+' {
		return 0, false
	}
	if milliseconds > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true
	}
	return time.Duration(milliseconds) * time.Millisecond, true
}

// nextDelay returns how long to wait after the failed attempt number `attempts`, counted from 1, and false if `failed`
// is final. `pushback` is the value of the trailer, if the answer had it; `left` the time until the deadline; `uniform`
// returns random numbers in [0, 1).
func (o RetryOptions) nextDelay(failed *Error, pushback *string, attempts int, left time.Duration,
	uniform func() float64) (time.Duration, bool) {
	if attempts >= o.MaxAttempts {
		return 0, false
	}
	hasHint := failed.RetryAfter != nil || pushback != nil
	if failed.Code != codes.Unavailable && !(failed.Code == codes.ResourceExhausted && hasHint) {
		return 0, false
	}
	var delay time.Duration
	if pushback != nil {
		asked, allowed := parsePushback(*pushback)
		if !allowed {
			return 0, false
		}
		delay = asked
	} else {
		// The power may be infinite after many attempts; the minimum holds.
		grown := float64(o.InitialBackoff) * math.Pow(o.Multiplier, float64(attempts-1))
		grown = math.Min(grown, float64(o.MaxBackoff))
		grown *= 1 + math.Max(o.Jitter, 0)*(2*uniform()-1)
		delay = time.Duration(grown)
		if failed.RetryAfter != nil && *failed.RetryAfter > delay {
			delay = *failed.RetryAfter
		}
	}
	return delay, delay < left
}

// retrying runs `attempt` until its result is final, and returns that. Each attempt returns its error, and the value of
// the pushback trailer if it got one. `ctx` must have a deadline. `after` is called after each failed attempt if it is
// not nil.
func (o RetryOptions) retrying(ctx context.Context, after func(*Error), attempt func() (*Error, *string)) error {
	deadline, _ := ctx.Deadline()
	for attempts := 1; ; attempts++ {
		failed, pushback := attempt()
		if failed == nil {
			return nil
		}
		failed.Attempts = attempts
		if after != nil {
			after(failed)
		}
		delay, again := o.nextDelay(failed, pushback, attempts, time.Until(deadline), rand.Float64)
		if !again {
			return failed
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			ended := fromContext(ctx.Err())
			ended.Message += "; the last attempt failed: " + failed.Error()
			ended.Attempts = attempts
			return ended
		}
	}
}
