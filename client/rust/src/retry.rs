//! Decides whether and when a failed call is tried again. The rules are those of the C++ client (`client/retry.h`).

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::error::{Code, Error};

/// How often a call is tried, and how long the client waits between attempts.
///
/// [`Code::Unavailable`] is retried. [`Code::ResourceExhausted`] is retried if the server says when to come back
/// (`Retry-After`); without that it means "too large". The wait before retry n, counted from 0, is
/// `initial_backoff * multiplier^n`, at most `max_backoff`, changed at random by up to ±`jitter`, and at least
/// `Retry-After`. An attempt that could not begin within the call's timeout is not made.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts of one request, the first included. Default 7, which covers about 3 seconds. 1 never retries.
    pub max_attempts: u32,
    /// Wait before the first retry. Default 50 ms.
    pub initial_backoff: Duration,
    /// Longest wait, unless the server asks for more. Default 2 s.
    pub max_backoff: Duration,
    /// Factor from one wait to the next, at least 1. Default 2.
    pub multiplier: f64,
    /// From 0 to 1. Default 0.2: a wait of t becomes one between 0.8 t and 1.2 t.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 7,
            initial_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            multiplier: 2.0,
            jitter: 0.2,
        }
    }
}

impl RetryPolicy {
    /// Returns a policy with one attempt.
    #[must_use]
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |name: &str, value: &dyn std::fmt::Debug, rule: &str| {
            let message = format!("retry.{} is {:?}; must be {}", name, value, rule);
            Err(Error::argument(message))
        };
        if self.max_attempts < 1 {
            return refuse("max_attempts", &self.max_attempts, "1 or more");
        }
        if self.initial_backoff.is_zero() {
            return refuse("initial_backoff", &self.initial_backoff, "more than 0");
        }
        if self.max_backoff < self.initial_backoff {
            let rule = format!("at least initial_backoff, {:?}", self.initial_backoff);
            return refuse("max_backoff", &self.max_backoff, &rule);
        }
        if !(self.multiplier >= 1.0 && self.multiplier.is_finite()) {
            return refuse("multiplier", &self.multiplier, "1 or more");
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return refuse("jitter", &self.jitter, "from 0 to 1");
        }
        Ok(())
    }

    /// Returns how long to wait after the failed attempt number `attempt`, counted from 1, or `None` if `error` is final.
    /// `remaining` is the rest of the call's time, and `random` a number in [0, 1).
    pub(crate) fn next_delay(&self, error: &Error, attempt: u32, remaining: Duration, random: f64) -> Option<Duration> {
        let is_busy = error.code() == Code::ResourceExhausted && error.retry_after().is_some();
        if attempt >= self.max_attempts || !(is_busy || error.code() == Code::Unavailable) {
            return None;
        }
        let grown = self.initial_backoff.as_secs_f64() * self.multiplier.powf(f64::from(attempt - 1));
        let backoff = grown.min(self.max_backoff.as_secs_f64());
        let varied = backoff * (1.0 + self.jitter * (2.0 * random - 1.0));
        let delay = varied.max(error.retry_after().unwrap_or_default().as_secs_f64());
        // Compared as numbers, because a Duration of more than 2^64 seconds would panic.
        (delay < remaining.as_secs_f64()).then(|| Duration::from_secs_f64(delay))
    }
}

/// Returns a random number in [0, 1). The standard library seeds each `RandomState` at random, which is good enough to
/// spread the retries of several clients.
pub(crate) fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    const MINUTE: Duration = Duration::from_secs(60);

    fn failure(code: &str, retry_after: Option<&str>) -> Error {
        Error::of_answer(503, &json!({"error": {"code": code}}), "", retry_after)
    }

    fn delays(policy: &RetryPolicy, error: &Error, random: f64) -> Vec<Option<u128>> {
        let delay = |attempt| policy.next_delay(error, attempt, MINUTE, random);
        (1..=8).map(|attempt| delay(attempt).map(|one| one.as_millis())).collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_end_after_seven_attempts() {
        let found = delays(&RetryPolicy::default(), &failure("UNAVAILABLE", None), 0.5);
        let expected = [50, 100, 200, 400, 800, 1600].map(Some);
        assert_eq!(found[..6], expected);
        assert_eq!(found[6..], [None, None]);
        let short = RetryPolicy { max_backoff: Duration::from_millis(150), ..RetryPolicy::default() };
        let found = delays(&short, &failure("UNAVAILABLE", None), 0.5);
        assert_eq!(found[..3], [Some(50), Some(100), Some(150)]);
    }

    #[test]
    fn jitter_changes_a_wait_by_a_fifth_at_most() {
        let error = failure("UNAVAILABLE", None);
        assert_eq!(delays(&RetryPolicy::default(), &error, 0.0)[0], Some(40));
        assert_eq!(delays(&RetryPolicy::default(), &error, 1.0)[0], Some(60));
    }

    #[test]
    fn the_server_can_ask_for_a_longer_wait_but_not_for_a_shorter_one() {
        let policy = RetryPolicy::default();
        assert_eq!(delays(&policy, &failure("UNAVAILABLE", Some("3")), 0.5)[0], Some(3000));
        assert_eq!(delays(&policy, &failure("UNAVAILABLE", Some("0")), 0.5)[0], Some(50));
        assert_eq!(delays(&policy, &failure("RESOURCE_EXHAUSTED", Some("0")), 0.5)[0], Some(50));
    }

    #[test]
    fn other_errors_are_final() {
        let final_ones = ["RESOURCE_EXHAUSTED", "INTERNAL", "DEADLINE_EXCEEDED", "NOT_FOUND", "ABORTED"];
        for code in final_ones {
            assert_eq!(delays(&RetryPolicy::default(), &failure(code, None), 0.5)[0], None, "{code}");
        }
        let internal = failure("INTERNAL", Some("1"));
        assert_eq!(delays(&RetryPolicy::default(), &internal, 0.5)[0], None);
        let proxy = Error::of_answer(503, &Value::Null, "busy", None);
        assert_eq!(delays(&RetryPolicy::default(), &proxy, 0.5)[0], Some(50));
    }

    #[test]
    fn no_attempt_is_made_that_could_not_begin_in_time() {
        let policy = RetryPolicy::default();
        let error = failure("UNAVAILABLE", None);
        let delay = |ms| policy.next_delay(&error, 1, Duration::from_millis(ms), 0.5);
        assert_eq!(delay(51), Some(Duration::from_millis(50)));
        assert_eq!(delay(50), None);
        assert_eq!(delay(0), None);
    }

    #[test]
    fn huge_values_do_not_overflow() {
        let policy = RetryPolicy {
            max_attempts: u32::MAX,
            max_backoff: Duration::MAX,
            multiplier: f64::MAX,
            ..RetryPolicy::default()
        };
        policy.check().unwrap();
        let error = failure("UNAVAILABLE", None);
        assert_eq!(policy.next_delay(&error, 1000, Duration::from_secs(1 << 40), 0.5), None);
    }

    #[test]
    fn a_wrong_policy_is_refused_with_its_member_and_value() {
        let good = RetryPolicy::default;
        let wrong = [
            (RetryPolicy { max_attempts: 0, ..good() }, "retry.max_attempts is 0; must be 1 or more"),
            (RetryPolicy { initial_backoff: Duration::ZERO, ..good() }, "retry.initial_backoff is 0ns; "),
            (RetryPolicy { max_backoff: Duration::ZERO, ..good() }, "retry.max_backoff is 0ns; must be at least"),
            (RetryPolicy { multiplier: 0.9, ..good() }, "retry.multiplier is 0.9; "),
            (RetryPolicy { multiplier: f64::NAN, ..good() }, "retry.multiplier is NaN; "),
            (RetryPolicy { jitter: 1.1, ..good() }, "retry.jitter is 1.1; must be from 0 to 1"),
            (RetryPolicy { jitter: f64::NAN, ..good() }, "retry.jitter is NaN; "),
        ];
        for (policy, message) in wrong {
            let error = policy.check().unwrap_err();
            assert!(error.is_local() && error.message().starts_with(message), "{error}");
        }
    }

    #[test]
    fn random_numbers_differ_and_are_below_one() {
        let found: Vec<f64> = (0..100).map(|_| random()).collect();
        assert!(found.iter().all(|one| (0.0..1.0).contains(one)));
        assert!(found.iter().any(|one| *one < 0.5) && found.iter().any(|one| *one >= 0.5));
    }
}
