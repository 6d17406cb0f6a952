//! Retries, deadlines, headers and connections, with a server of the test's own.

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use maxsim::serde_json::json;
use maxsim::{Client, ClientBuilder, Code, CountOptions, Document, RetryPolicy};

use crate::server::{Reply, Server};

fn quick(server: &Server) -> ClientBuilder {
    let backoff = Duration::from_millis(1);
    Client::builder(&server.url).retry(RetryPolicy { initial_backoff: backoff, ..RetryPolicy::default() })
}

fn count(client: &Client) -> Result<u64, maxsim::Error> {
    client.count("docs", &CountOptions::new())
}

fn unavailable() -> Reply {
    Reply::Answer(503, "", json!({"error": {"code": "UNAVAILABLE", "message": "busy"}}).to_string())
}

#[test]
fn a_call_is_repeated_with_the_same_body_until_it_succeeds() {
    let server = Server::start(|_, i| if i < 3 { unavailable() } else { Reply::ok(json!({"count": 7})) });
    assert_eq!(count(&quick(&server).build().unwrap()).unwrap(), 7);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for request in requests {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/count"));
        assert_eq!(request.body, json!({"collection": "docs"}));
        assert_eq!(request.headers["content-type"], "application/json");
    }
}

#[test]
fn the_last_error_is_returned_after_the_last_attempt() {
    let server = Server::start(|_, _| unavailable());
    let error = count(&quick(&server).build().unwrap()).unwrap_err();
    assert_eq!((error.code(), error.message(), error.status()), (Code::Unavailable, "busy", Some(503)));
    assert_eq!(server.requests().len(), 7);
}

#[test]
fn a_connection_that_ends_without_an_answer_is_retried() {
    let server = Server::start(|_, i| if i == 0 { Reply::Close } else { Reply::ok(json!({"count": 1})) });
    assert_eq!(count(&quick(&server).build().unwrap()).unwrap(), 1);
    let server = Server::start(|_, _| Reply::Close);
    let client = quick(&server).retry(RetryPolicy::never()).build().unwrap();
    let error = count(&client).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains(&server.url) && error.source().is_some(), "{error:?}");
}

#[test]
fn a_cut_answer_and_the_error_page_of_a_proxy_are_retried() {
    // Without its last byte, the first answer would still be JSON.
    let server = Server::start(|_, i| match i {
        0 => Reply::Cut(json!({"count": 1}).to_string() + " "),
        1 => Reply::Answer(502, "content-type: text/html\r\n", "<html>Bad gateway</html>".into()),
        _ => Reply::ok(json!({"count": 2})),
    });
    assert_eq!(count(&quick(&server).build().unwrap()).unwrap(), 2);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_wait_that_the_deadline_would_end_is_not_begun() {
    let busy = || Reply::Answer(429, "retry-after: 3600\r\n", r#"{"error": {"code": "RESOURCE_EXHAUSTED"}}"#.into());
    let server = Server::start(move |_, _| busy());
    let error = count(&quick(&server).build().unwrap()).unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_call_ends_at_its_deadline() {
    let server = Server::start(|_, _| Reply::Hang);
    let client = quick(&server).build().unwrap().with_timeout(Duration::from_millis(50)).unwrap();
    let error = count(&client).unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(error.message().contains("within 50ms"), "{error}");
}

#[test]
fn a_large_body_that_the_server_does_not_read_ends_at_the_deadline() {
    // Uses the connection for another call first, because the HTTP library limits the time of writes only on new
    // connections. The body is larger than what the kernel buffers.
    let server = Server::start(|_, _| Reply::AnswerAndHang(json!({"count": 1}).to_string()));
    let client = quick(&server).build().unwrap();
    count(&client).unwrap();
    let hanging = client.with_timeout(Duration::from_millis(300)).unwrap();
    let error = hanging.upsert("docs", [Document::new("a", "x".repeat(12 << 20))]).unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert_eq!((server.requests().len(), server.num_connections()), (1, 1));
}

#[test]
fn threads_share_connections_and_keep_them_open() {
    let server = Server::start(|_, i| Reply::ok(json!({ "count": i })));
    let client = quick(&server).build().unwrap();
    for _ in 0..5 {
        let clone = client.clone();
        std::thread::spawn(move || count(&clone).unwrap()).join().unwrap();
    }
    assert_eq!(server.requests().len(), 5);
    assert_eq!(server.num_connections(), 1);
}

#[test]
fn headers_and_the_token_of_each_attempt_are_sent() {
    let server = Server::start(|_, i| if i == 0 { unavailable() } else { Reply::ok(json!({"count": 1})) });
    let calls = AtomicUsize::new(0);
    let source = move || Ok(format!("token-{}", calls.fetch_add(1, Ordering::SeqCst)));
    let builder = quick(&server).token_source(source).allow_plaintext_token();
    count(&builder.client_id("tests").header("x-more", "two words").build().unwrap()).unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].headers["authorization"], "Bearer token-0");
    assert_eq!(requests[1].headers["authorization"], "Bearer token-1");
    assert_eq!(requests[0].headers["x-client-id"], "tests");
    assert_eq!(requests[0].headers["x-more"], "two words");
    assert!(requests[0].headers["user-agent"].starts_with("maxsim-rust/"));
}

#[test]
fn a_token_source_that_fails_ends_the_call() {
    let server = Server::start(|_, _| unavailable());
    let builder = quick(&server).allow_plaintext_token().token_source(|| Err("no network".into()));
    let error = count(&builder.build().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "UNAUTHENTICATED: the token source failed: no network");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn redirects_are_not_followed_because_they_would_take_the_token_along() {
    let server = Server::start(|_, _| Reply::Answer(307, "location: /elsewhere\r\n", String::new()));
    let error = count(&quick(&server).build().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "UNKNOWN: HTTP status 307");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_answer_that_is_not_json_names_the_address() {
    let server = Server::start(|_, _| Reply::ok("<html>"));
    let error = count(&quick(&server).build().unwrap()).unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    assert!(error.message().contains("/v1/count is not JSON") && error.source().is_some(), "{error}");
}

#[test]
fn answers_in_chunks_and_of_many_megabytes_are_read() {
    let long = "x".repeat(12 << 20); // beyond the 10 MiB that the HTTP library reads into a text
    let sent = format!(r#"{{"documents": [{{"id": "a", "num_tokens": 1, "payload": {{"text": "{long}"}}}}]}}"#);
    let server = Server::start(move |_, i| match i {
        0 => Reply::Chunked(json!({"count": 123_456_789}).to_string()),
        _ => Reply::ok(&sent),
    });
    let client = quick(&server).build().unwrap();
    assert_eq!(count(&client).unwrap(), 123_456_789);
    let found = client.get("docs", ["a"], &maxsim::GetOptions::new()).unwrap();
    assert_eq!(found.documents[0].payload.as_ref().unwrap()["text"].as_str().unwrap().len(), 12 << 20);
    assert_eq!(server.num_connections(), 1);
}

#[test]
fn the_path_of_the_url_is_kept() {
    let server = Server::start(|_, _| Reply::ok(json!({"count": 1})));
    let client = Client::new(format!("{}/proxy/maxsim/", server.url)).unwrap();
    count(&client).unwrap();
    assert_eq!(server.requests()[0].path, "/proxy/maxsim/v1/count");
}
