//! Runs the calls of the conformance suite with the Rust client (docs/internals/conformance.md).
//!
//! conformance_rust_client SERVER=GRPC_ADDRESS,HTTP_URL...
#![forbid(unsafe_code)]

mod arguments;
mod methods;
mod results;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use maxsim::serde_json::{from_str, json, Value};
use maxsim::{Client, Error, RetryPolicy};

/// Why a call has no result.
pub enum Failure {
    /// The client returned an error.
    Client(Error),
    /// The driver does not know the method or an argument.
    Unsupported(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

struct Driver {
    urls: HashMap<String, String>,
    /// By their options as JSON.
    clients: HashMap<String, Client>,
}

impl Driver {
    /// Returns the client with these options, the same one in every call.
    fn client(&mut self, options: &Value) -> Result<Client, Failure> {
        let key = options.to_string();
        if let Some(client) = self.clients.get(&key) {
            return Ok(client.clone());
        }
        let client = new_client(&self.urls[text(options, "server")], options)?;
        self.clients.insert(key, client.clone());
        Ok(client)
    }

    fn answer(&mut self, line: &str) -> Value {
        let call = arguments::with_integers(from_str(line).expect("a call is JSON"));
        let done = self
            .client(&call["client"])
            .and_then(|client| methods::run(&client, text(&call, "method"), &call["arguments"]));
        match done {
            Ok(result) => json!({ "result": result }),
            Err(Failure::Client(error)) => json!({ "error": results::of_error(&error) }),
            Err(Failure::Unsupported(what)) => json!({ "unsupported": what }),
        }
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("{} is no text in {}", member, value))
}

fn new_client(url: &str, options: &Value) -> Result<Client, Error> {
    let is_secure = options["tls"] == true || options["ca_file"].is_string();
    let url = if is_secure { url.to_string() } else { url.replacen("https:", "http:", 1) };
    let mut retry = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
    if let Some(attempts) = options["max_attempts"].as_u64() {
        retry.max_attempts = attempts as u32;
    }
    if let Some(backoff) = options["backoff_ms"].as_u64() {
        retry.initial_backoff = Duration::from_millis(backoff);
    }
    let mut builder = Client::builder(url).retry(retry);
    if let Some(timeout) = options["timeout_ms"].as_u64() {
        builder = builder.timeout(Duration::from_millis(timeout));
    }
    if let Some(token) = options["token"].as_str() {
        builder = builder.token(token);
        if !is_secure {
            builder = builder.allow_plaintext_token();
        }
    }
    if let Some(file) = options["ca_file"].as_str() {
        builder = builder.ca_file(file);
    }
    builder.build()
}

fn main() -> io::Result<()> {
    let address = |argument: String| {
        let (name, both) = argument.split_once('=')?;
        Some((name.to_string(), both.split_once(',')?.1.to_string()))
    };
    let urls = std::env::args().skip(1).map(|one| address(one).expect("SERVER=GRPC_ADDRESS,HTTP_URL"));
    let mut driver = Driver { urls: urls.collect(), clients: HashMap::new() };
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        writeln!(output, "{}", driver.answer(&line?))?;
        output.flush()?;
    }
    Ok(())
}
