//! The options of a client.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::client::Client;
use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::transport::{check_token, TokenSource, Transport};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
// Much more than any call takes, and far from overflowing an Instant.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);
const DEFAULT_MAX_BODY_BYTES: usize = 16 << 20;
// ureq closes idle connections beyond this number, so it is larger than the usual number of threads that share a client.
const MAX_IDLE_CONNECTIONS: usize = 64;

/// The options of a [`Client`]. [`Client::builder`] makes it, and [`build`](Self::build) checks it.
///
/// ```
/// use std::time::Duration;
/// use maxsim::{Client, RetryPolicy};
///
/// # fn main() -> Result<(), maxsim::Error> {
/// let client = Client::builder("http://localhost:7071")
///     .timeout(Duration::from_secs(2))
///     .retry(RetryPolicy { max_attempts: 3, ..RetryPolicy::default() })
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ClientBuilder {
    url: String,
    token: Option<Arc<TokenSource>>,
    fixed_token: Option<String>,
    allows_plaintext_token: bool,
    timeout: Duration,
    retry: RetryPolicy,
    headers: Vec<(String, String)>,
    ca_file: Option<PathBuf>,
    certificate_files: Option<(PathBuf, PathBuf)>,
    max_body_bytes: usize,
}

impl ClientBuilder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            token: None,
            fixed_token: None,
            allows_plaintext_token: false,
            timeout: DEFAULT_TIMEOUT,
            retry: RetryPolicy::default(),
            headers: vec![("user-agent".into(), concat!("maxsim-rust/", env!("CARGO_PKG_VERSION")).into())],
            ca_file: None,
            certificate_files: None,
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
        }
    }

    /// Sends `authorization: Bearer TOKEN`.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.fixed_token = Some(token.clone());
        self.token = Some(Arc::new(move || Ok(token.clone())));
        self
    }

    /// Calls `source` for the token before each attempt. An error of `source` ends the call with
    /// [`Code::Unauthenticated`](crate::Code::Unauthenticated).
    pub fn token_source<F>(mut self, source: F) -> Self
    where
        F: Fn() -> Result<String, Box<dyn StdError + Send + Sync>> + Send + Sync + 'static,
    {
        self.fixed_token = None;
        self.token = Some(Arc::new(source));
        self
    }

    /// Permits a token with an `http` URL. Anyone on the way can then read it: use this only on one machine, or in a
    /// network that encrypts.
    pub fn allow_plaintext_token(mut self) -> Self {
        self.allows_plaintext_token = true;
        self
    }

    /// Limits the time of one request with all its attempts and the waits between them. Default 30 s. A method that makes
    /// several requests gives each of them this time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often a failed request is retried, and how long the client waits before each retry.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the name under which a busy server counts these calls when it divides its time among clients (header
    /// `x-client-id`).
    pub fn client_id(self, id: impl Into<String>) -> Self {
        self.header("x-client-id", id)
    }

    /// Adds a header to every request. For `authorization`, use [`token`](Self::token).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Trusts only the certificates in this PEM file, one or several, and not those of the system.
    /// `build` reads the file.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Sets this client's certificate and its key (PKCS #8), as PEM files, for a server with `tls.client_ca_file`. `build`
    /// reads the files.
    pub fn certificate_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate_files = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the largest body of a request that writes documents. Default 16 MiB, the server's default of
    /// `http.max_body_bytes`.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Makes the client. Opens no connection: if the server is down, calls fail with
    /// [`Code::Unavailable`](crate::Code::Unavailable).
    ///
    /// # Errors
    ///
    /// An error with [`is_local`](Error::is_local) if an option is wrong or a file cannot be used.
    pub fn build(self) -> Result<Client, Error> {
        let url = check_url(&self.url)?;
        let is_secure = url.scheme() == "https";
        check_timeout(self.timeout)?;
        self.retry.check()?;
        for (name, value) in &self.headers {
            check_header(name, value)?;
        }
        if let Some(token) = &self.fixed_token {
            check_token(token)?;
        }
        if self.token.is_some() && !is_secure && !self.allows_plaintext_token {
            let message = "token would be sent in the clear; use an https URL, or allow_plaintext_token";
            return Err(Error::argument(message));
        }
        if !is_secure && (self.ca_file.is_some() || self.certificate_files.is_some()) {
            let message = format!("url is {}; must be https with ca_file or certificate_files", self.url);
            return Err(Error::argument(message));
        }
        let mut agent = ureq::AgentBuilder::new()
            .redirects(0)
            .timeout_connect(self.timeout)
            .max_idle_connections(MAX_IDLE_CONNECTIONS)
            .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS);
        if is_secure {
            agent = agent.tls_connector(Arc::new(self.tls()?));
        }
        let transport = Transport {
            url: url.as_str().trim_end_matches('/').into(),
            agent: agent.build(),
            headers: self.headers,
            token: self.token,
            retry: self.retry,
            max_body_bytes: self.max_body_bytes,
        };
        Ok(Client::of_transport(transport, self.timeout))
    }

    fn tls(&self) -> Result<native_tls::TlsConnector, Error> {
        let mut builder = native_tls::TlsConnector::builder();
        builder.min_protocol_version(Some(native_tls::Protocol::Tlsv12));
        if let Some(path) = &self.ca_file {
            builder.disable_built_in_roots(true);
            for certificate in certificates(path)? {
                builder.add_root_certificate(certificate);
            }
        }
        if let Some((certificate, key)) = &self.certificate_files {
            let (chain, key) = (read(certificate)?, read(key)?);
            let identity = native_tls::Identity::from_pkcs8(&chain, &key).map_err(|cause| {
                let message = format!("certificate_files cannot be used ({}): {}", certificate.display(), cause);
                Error::argument(message).with_source(cause)
            })?;
            builder.identity(identity);
        }
        builder.build().map_err(|cause| Error::argument("TLS cannot be set up").with_source(cause))
    }
}

impl fmt::Debug for ClientBuilder {
    /// Leaves out tokens and headers, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("url", &self.url).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

fn check_url(given: &str) -> Result<Url, Error> {
    let refuse = |rule: &str| Error::argument(format!("url is {}; must be {}", given, rule));
    let example = "an http or https URL, such as http://localhost:7071";
    let url = Url::parse(given).map_err(|cause| refuse(example).with_source(cause))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse(example));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err(Error::argument("url has a user, a query or a fragment; must have host, port and path only"));
    }
    Ok(url)
}

pub(crate) fn check_timeout(timeout: Duration) -> Result<(), Error> {
    if !timeout.is_zero() && timeout <= MAX_TIMEOUT {
        return Ok(());
    }
    Err(Error::argument(format!("timeout is {:?}; must be more than 0 and at most {:?}", timeout, MAX_TIMEOUT)))
}

fn check_header(name: &str, value: &str) -> Result<(), Error> {
    if name.eq_ignore_ascii_case("authorization") {
        // `build` checks a token's URL, and a header would go round that check.
        return Err(Error::argument("header \"authorization\" must be set with token or token_source"));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_value = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if !name.is_empty() && name.bytes().all(is_name) && value.bytes().all(is_value) {
        return Ok(());
    }
    Err(Error::argument(format!("header {:?} cannot be sent; name and value must be printable ASCII", name)))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path)
        .map_err(|cause| Error::argument(format!("{} cannot be read: {}", path.display(), cause)).with_source(cause))
}

/// Returns the certificates of a PEM file, at least one.
fn certificates(path: &Path) -> Result<Vec<native_tls::Certificate>, Error> {
    const END: &str = "-----END CERTIFICATE-----";
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    let blocks: Vec<&str> = text.split_inclusive(END).filter(|block| block.ends_with(END)).collect();
    if blocks.is_empty() {
        return Err(Error::argument(format!("ca_file {} holds no certificate in the format PEM", path.display())));
    }
    let parse = |block: &&str| {
        let start = block.find("-----BEGIN CERTIFICATE-----").unwrap_or(0);
        native_tls::Certificate::from_pem(block[start..].as_bytes()).map_err(|cause| {
            let message = format!("ca_file {} has a wrong certificate: {}", path.display(), cause);
            Error::argument(message).with_source(cause)
        })
    };
    blocks.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: ClientBuilder) -> String {
        let error = builder.build().expect_err("the option is wrong");
        assert!(error.is_local());
        error.message().to_string()
    }

    #[test]
    fn wrong_options_are_refused_with_name_and_value() {
        let plain = || Client::builder("http://localhost:7071");
        let secure = || Client::builder("https://localhost:7071");
        let cases = [
            (Client::builder("localhost:7071"), "url is localhost:7071; must be an http or https URL"),
            (Client::builder("nothing"), "url is nothing; "),
            (Client::builder("http://user:secret@host"), "url has a user"),
            (Client::builder("http://host/?a=1"), "url has a user, a query"),
            (plain().timeout(Duration::ZERO), "timeout is 0ns; "),
            (plain().timeout(Duration::MAX), "timeout is "),
            (plain().retry(RetryPolicy { jitter: 2.0, ..RetryPolicy::default() }), "retry.jitter is 2.0; "),
            (plain().client_id("two\nlines"), "header \"x-client-id\" cannot be sent"),
            (plain().header("a b", ""), "header \"a b\" cannot be sent"),
            (plain().header("Authorization", "Bearer secret"), "header \"authorization\" must be set with token"),
            (plain().token("secret"), "token would be sent in the clear"),
            (plain().token_source(|| Ok("secret".into())), "token would be sent in the clear"),
            (plain().ca_file("ca.pem"), "url is http://localhost:7071; must be https with ca_file"),
            (secure().ca_file("/nothing/ca.pem"), "/nothing/ca.pem cannot be read: "),
            (secure().ca_file("Cargo.toml"), "ca_file Cargo.toml holds no certificate"),
            (secure().certificate_files("Cargo.toml", "Cargo.toml"), "certificate_files cannot be used (Cargo.toml)"),
        ];
        for (builder, message) in cases {
            let found = refused(builder);
            assert!(found.starts_with(message), "{found}");
        }
    }

    #[test]
    fn a_wrong_token_is_refused_and_not_shown() {
        for token in ["", "two words", "line\n", "ä"] {
            let found = refused(Client::builder("https://localhost").token(token));
            assert!(found.starts_with("token is empty or has") && (token.is_empty() || !found.contains(token)));
        }
        let shown = format!("{:?}", Client::builder("https://localhost").token("secret").header("cookie", "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_token_in_the_clear_can_be_permitted() {
        assert!(Client::builder("http://localhost").token("secret").allow_plaintext_token().build().is_ok());
    }

    #[test]
    fn certificates_are_found_between_other_lines() {
        let folder = std::env::temp_dir().join(format!("maxsim-ca-{}", std::process::id()));
        std::fs::write(&folder, "a comment\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        let found = refused(Client::builder("https://localhost").ca_file(&folder));
        std::fs::remove_file(&folder).unwrap();
        assert!(found.contains("has a wrong certificate"), "{found}");
    }
}
