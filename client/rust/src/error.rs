//! The error of every method.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The status code of an error, as gRPC defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The call was cancelled.
    Cancelled,
    /// The server's answer has no code that this client knows.
    Unknown,
    /// The request or an argument is wrong.
    InvalidArgument,
    /// There was no answer in time.
    DeadlineExceeded,
    /// The collection or a document does not exist.
    NotFound,
    /// The object to create exists already.
    AlreadyExists,
    /// The token does not permit the call.
    PermissionDenied,
    /// The server is busy, or the request exceeds what it can hold.
    ResourceExhausted,
    /// The server or the collection is not in the state that the call needs.
    FailedPrecondition,
    /// Another call interfered. The whole operation may be tried again.
    Aborted,
    /// A value is outside its range.
    OutOfRange,
    /// The server does not have this call.
    Unimplemented,
    /// The server or the client has a fault.
    Internal,
    /// The server cannot be reached, or cannot answer now.
    Unavailable,
    /// Data is lost or damaged.
    DataLoss,
    /// The token is missing or not known.
    Unauthenticated,
}

const NAMES: [(Code, &str); 16] = [
    (Code::Cancelled, "CANCELLED"),
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::AlreadyExists, "ALREADY_EXISTS"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::Aborted, "ABORTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DataLoss, "DATA_LOSS"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
];

impl Code {
    /// Returns gRPC's name, such as `"NOT_FOUND"`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        NAMES.iter().find(|(code, _)| *code == self).map_or("UNKNOWN", |(_, name)| name)
    }

    fn of_name(name: &str) -> Self {
        NAMES.iter().find(|(_, one)| *one == name).map_or(Self::Unknown, |(code, _)| *code)
    }

    /// The code of an answer without a body of maxsimd, for example from a proxy.
    fn of_status(status: u16) -> Self {
        match status {
            400 | 413 => Self::InvalidArgument,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::NotFound,
            409 => Self::Aborted,
            429 => Self::ResourceExhausted,
            499 => Self::Cancelled,
            500 => Self::Internal,
            501 => Self::Unimplemented,
            502 | 503 => Self::Unavailable,
            504 => Self::DeadlineExceeded,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

type Source = Box<dyn StdError + Send + Sync>;

/// Why a method failed. Programs should decide by the code and the other members; the message is for people.
pub struct Error(Box<Inner>);

#[derive(Debug, Default)]
struct Inner {
    code: Option<Code>,
    message: String,
    is_local: bool,
    status: Option<u16>,
    field: Option<String>,
    reason: Option<String>,
    limit: Option<u64>,
    limit_key: Option<String>,
    retry_after: Option<Duration>,
    num_deleted: Option<u64>,
    query_index: Option<usize>,
    source: Option<Source>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code: Some(code), message: message.into(), ..Inner::default() }))
    }

    /// Makes the error for an argument or an option that the client itself refuses.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        let mut error = Self::new(Code::InvalidArgument, message);
        error.0.is_local = true;
        error
    }

    /// Makes the error for an answer whose status is not 2xx. If the answer is not JSON, `body` is null, and the message shows
    /// the start of `text`.
    pub(crate) fn of_answer(status: u16, body: &Value, text: &str, retry_after: Option<&str>) -> Self {
        let found = &body["error"];
        let mut error = match found["code"].as_str() {
            Some(code) => Self::new(Code::of_name(code), found["message"].as_str().unwrap_or_default()),
            None => {
                let start: String = text.trim().chars().take(200).collect();
                let separator = if start.is_empty() { "" } else { ": " };
                Self::new(Code::of_status(status), format!("HTTP status {}{}{}", status, separator, start))
            }
        };
        let text_of = |name: &str| found[name].as_str().map(String::from);
        let inner = &mut *error.0;
        inner.status = Some(status);
        inner.field = text_of("field");
        inner.reason = text_of("reason");
        inner.limit = found["limit"].as_u64();
        inner.limit_key = text_of("limit_key");
        inner.num_deleted = found["num_deleted"].as_u64();
        inner.retry_after = retry_after.and_then(parse_retry_after);
        error
    }

    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn with_query_index(mut self, index: usize) -> Self {
        if self.0.is_local {
            self.0.message = format!("queries[{}]: {}", index, self.0.message);
        }
        self.0.query_index = Some(index);
        self
    }

    pub(crate) fn partly_deleted(mut self, num_deleted: u64) -> Self {
        self.0.reason = Some("PARTLY_DELETED".into());
        self.0.num_deleted = Some(num_deleted);
        self
    }

    /// Adds `first` to the index of a field such as `documents[3].tokens`.
    pub(crate) fn with_documents_from(mut self, first: usize) -> Self {
        let shifted = self.0.field.as_deref().and_then(|field| {
            let (index, rest) = field.strip_prefix("documents[")?.split_once(']')?;
            let index: usize = index.parse().ok()?;
            Some(format!("documents[{}]{}", index + first, rest))
        });
        if shifted.is_some() {
            self.0.field = shifted;
        }
        self
    }

    /// Returns the status code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code.unwrap_or(Code::Unknown)
    }

    /// Returns the message for people. Later versions may word it differently.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Says whether the client itself refused an argument or an option, without sending a request. The code is then
    /// [`Code::InvalidArgument`], and the message names the argument, its value and what is accepted.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0.is_local
    }

    /// Returns the HTTP status; `None` if there was no answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// Returns the path of the wrong field in the body of the HTTP request, such as `"query.shape[1]"`.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// Returns a word such as `"LIMIT_EXCEEDED"`. The page `docs/reference/errors.md` lists them; later servers may send
    /// others.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// Returns the largest accepted value, if a value exceeds a limit.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.0.limit
    }

    /// Returns the server's configuration key that sets the limit; `None` for a constant.
    #[must_use]
    pub fn limit_key(&self) -> Option<&str> {
        self.0.limit_key.as_deref()
    }

    /// Returns how long the server asks to wait before the next attempt.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns how many documents [`Client::delete_matching`](crate::Client::delete_matching) deleted before it failed.
    #[must_use]
    pub fn num_deleted(&self) -> Option<u64> {
        self.0.num_deleted
    }

    /// Returns the index of the query that failed in [`Client::rerank_many`](crate::Client::rerank_many).
    #[must_use]
    pub fn query_index(&self) -> Option<usize> {
        self.0.query_index
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Reads a header Retry-After with seconds. Dates are not read, because maxsimd sends none.
fn parse_retry_after(value: &str) -> Option<Duration> {
    let seconds: f64 = value.trim().parse().ok()?;
    (0.0..1e9).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_code_has_its_own_name_and_is_found_by_it() {
        for (code, name) in NAMES {
            assert_eq!(code.as_str(), name);
            assert_eq!(Code::of_name(name), code);
        }
        assert_eq!(Code::of_name("SOMETHING_NEW"), Code::Unknown);
    }

    #[test]
    fn an_answer_of_maxsimd_gives_all_members() {
        let body = json!({"error": {"code": "RESOURCE_EXHAUSTED", "message": "too many", "field": "documents",
            "reason": "LIMIT_EXCEEDED", "limit": u64::MAX, "limit_key": "limits.max_top_k", "num_deleted": 3}});
        let error = Error::of_answer(429, &body, "", Some("2"));
        assert_eq!(error.to_string(), "RESOURCE_EXHAUSTED: too many");
        assert_eq!(error.status(), Some(429));
        assert_eq!(error.field(), Some("documents"));
        assert_eq!(error.reason(), Some("LIMIT_EXCEEDED"));
        assert_eq!(error.limit(), Some(u64::MAX));
        assert_eq!(error.limit_key(), Some("limits.max_top_k"));
        assert_eq!(error.num_deleted(), Some(3));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
        assert!(!error.is_local());
    }

    #[test]
    fn an_answer_of_a_proxy_gets_the_code_of_its_status_and_the_start_of_its_text() {
        let long = format!("  {}  ", "ä".repeat(300));
        let error = Error::of_answer(502, &Value::Null, &long, None);
        assert_eq!(error.code(), Code::Unavailable);
        assert_eq!(error.message(), format!("HTTP status 502: {}", "ä".repeat(200)));
        let error = Error::of_answer(418, &json!({"error": "no object"}), "", None);
        assert_eq!(error.to_string(), "UNKNOWN: HTTP status 418");
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_otherwise_ignored() {
        assert_eq!(parse_retry_after(" 1.5 "), Some(Duration::from_millis(1500)));
        assert_eq!(parse_retry_after("0"), Some(Duration::ZERO));
        for wrong in ["", "soon", "-1", "NaN", "inf", "1e10", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(parse_retry_after(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_an_index_of_documents_is_shifted() {
        let with_field = |field: &str| {
            let body = json!({"error": {"code": "INVALID_ARGUMENT", "field": field}});
            Error::of_answer(400, &body, "", None).with_documents_from(10_000)
        };
        assert_eq!(with_field("documents[7].id").field(), Some("documents[10007].id"));
        assert_eq!(with_field("documents").field(), Some("documents"));
        assert_eq!(with_field("other[7]").field(), Some("other[7]"));
    }

    #[test]
    fn the_source_is_kept() {
        let error = Error::new(Code::Unavailable, "no answer").with_source("refused");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("refused"));
    }
}
