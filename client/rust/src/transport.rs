//! Makes the HTTP requests of a client: connections, deadline, retries, token.

use std::error::Error as StdError;
use std::io::{self, Read};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Code, Error};
use crate::retry::{random, RetryPolicy};

// Far more than a server answers, so that an endless answer of something else does not fill the memory.
const MAX_ANSWER_BYTES: u64 = 1 << 30;

/// Returns the bearer token, or the reason why there is none.
pub(crate) type TokenSource = dyn Fn() -> Result<String, Box<dyn StdError + Send + Sync>> + Send + Sync;

/// The state that all clones of a client share.
pub(crate) struct Transport {
    /// Without a slash at its end.
    pub(crate) url: String,
    pub(crate) agent: ureq::Agent,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) token: Option<Arc<TokenSource>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_body_bytes: usize,
}

/// A request. `body` is JSON.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) body: Option<&'a str>,
}

/// An answer of any status.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    retry_after: Option<String>,
}

impl Transport {
    /// Makes a request, and repeats it as long as its error permits a retry and `timeout` has not passed. Returns the
    /// parsed body. `on_failure` gets the error of each attempt that fails.
    pub(crate) fn call(
        &self,
        request: Request<'_>,
        timeout: Duration,
        mut on_failure: impl FnMut(&Error),
    ) -> Result<Value, Error> {
        let deadline = Deadline::after(timeout);
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(request, deadline) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            on_failure(&failure);
            match self.retry.next_delay(&failure, attempt, deadline.remaining(), random()) {
                Some(delay) => thread::sleep(delay),
                None => return Err(failure),
            }
            attempt += 1;
        }
    }

    /// Makes a request once. Fails only if there is no answer.
    pub(crate) fn once(&self, request: Request<'_>, timeout: Duration) -> Result<Answer, Error> {
        self.send(request, Deadline::after(timeout))
    }

    fn attempt(&self, request: Request<'_>, deadline: Deadline) -> Result<Value, Error> {
        let answer = self.send(request, deadline)?;
        let parsed = serde_json::from_str(&answer.text);
        if !(200..300).contains(&answer.status) {
            let body = parsed.unwrap_or(Value::Null);
            let retry_after = answer.retry_after.as_deref();
            return Err(Error::of_answer(answer.status, &body, &answer.text, retry_after));
        }
        parsed.map_err(|cause| {
            let problem = "is not JSON; is this the HTTP port of maxsimd?";
            let message = format!("the answer of {}{} {}", self.url, request.path, problem);
            Error::new(Code::Internal, message).with_source(cause)
        })
    }

    /// Sends a request on a thread of its own, and waits for the answer until the deadline. ureq alone does not keep
    /// the deadline while it looks up a name, connects, or writes on a connection that it has used before. After the
    /// deadline nothing reads the thread's answer, and the thread ends when its connection does. A thread costs 17 us
    /// of processor time.
    fn send(&self, request: Request<'_>, deadline: Deadline) -> Result<Answer, Error> {
        let mut sent = self.agent.request(request.method, &format!("{}{}", self.url, request.path));
        for (name, value) in &self.headers {
            sent = sent.set(name, value);
        }
        if let Some(source) = &self.token {
            sent = sent.set("authorization", &format!("Bearer {}", current_token(source)?));
        }
        let remaining = deadline.remaining();
        if remaining.is_zero() {
            return Err(self.late(deadline));
        }
        sent = sent.timeout(remaining);
        let body = request.body.map(String::from);
        let (sender, receiver) = mpsc::sync_channel(1);
        thread::Builder::new()
            .name("maxsim-request".into())
            // The receiver is gone if the deadline has passed.
            .spawn(move || drop(sender.send(exchange(sent, body))))
            .map_err(|cause| Error::new(Code::Internal, "cannot start a thread").with_source(cause))?;
        match receiver.recv_timeout(remaining) {
            Ok(Ok(answer)) => Ok(answer),
            // ureq keeps the same deadline, and may notice first that it has passed.
            Ok(Err(cause)) if deadline.remaining().is_zero() => Err(self.late(deadline).with_source(cause)),
            Ok(Err(cause)) if is_too_large(&*cause) => {
                let message = format!("the answer of {}{} is too large: {}", self.url, request.path, cause);
                Err(Error::new(Code::Internal, message).with_source(cause))
            }
            Ok(Err(cause)) => {
                let message = format!("cannot reach maxsimd at {}: {}", self.url, cause);
                Err(Error::new(Code::Unavailable, message).with_source(cause))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => Err(self.late(deadline)),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(Error::new(Code::Internal, "the thread of the request panicked"))
            }
        }
    }

    fn late(&self, deadline: Deadline) -> Error {
        let message = format!("no answer from {} within {:?}, the timeout of the call", self.url, deadline.timeout);
        Error::new(Code::DeadlineExceeded, message)
    }
}

#[derive(Clone, Copy)]
struct Deadline {
    timeout: Duration,
    ends_at: Instant,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self { timeout, ends_at: Instant::now() + timeout }
    }

    fn remaining(self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }
}

fn exchange(request: ureq::Request, body: Option<String>) -> Result<Answer, Box<dyn StdError + Send + Sync>> {
    let answered = match body {
        Some(body) => request.set("content-type", "application/json").send_string(&body),
        None => request.call(),
    };
    let response = match answered {
        Ok(response) | Err(ureq::Error::Status(_, response)) => response,
        Err(failed) => return Err(failed.into()),
    };
    let status = response.status();
    let retry_after = response.header("retry-after").map(String::from);
    let bytes = read_at_most(response.into_reader(), MAX_ANSWER_BYTES)?;
    // An answer of a proxy may be in another encoding. It is only shown in an error.
    let text = String::from_utf8(bytes).unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned());
    Ok(Answer { status, text, retry_after })
}

/// Says whether `read_at_most` made this error. Another attempt would then fail in the same way.
fn is_too_large(cause: &(dyn StdError + Send + Sync + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().map(io::Error::kind) == Some(io::ErrorKind::InvalidData)
}

/// Reads up to the end. Fails with `InvalidData` if there are more than `max_bytes`.
fn read_at_most(reader: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("the answer has more than {} bytes", max_bytes);
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

fn current_token(source: &Arc<TokenSource>) -> Result<String, Error> {
    let token = source().map_err(|cause| {
        let message = format!("the token source failed: {}", cause);
        Error::new(Code::Unauthenticated, message).with_source(cause)
    })?;
    check_token(&token)?;
    Ok(token)
}

/// Refuses a token that cannot be sent. The error does not show it.
pub(crate) fn check_token(token: &str) -> Result<(), Error> {
    if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let message = "token is empty or has spaces, line ends or other characters; must be printable ASCII";
    Err(Error::argument(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_have_the_largest_number_of_bytes_and_no_more() {
        assert_eq!(read_at_most(&b"1234"[..], 4).unwrap(), b"1234");
        let error = read_at_most(io::repeat(b' '), 4).unwrap_err();
        assert_eq!(error.to_string(), "the answer has more than 4 bytes");
        assert!(is_too_large(&error) && !is_too_large(&io::Error::from(io::ErrorKind::UnexpectedEof)));
    }
}
