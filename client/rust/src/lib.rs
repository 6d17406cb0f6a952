#![doc = include_str!("../README.md")]
//!
//! **Blocking.** A call returns when the answer is there. This needs no async runtime, and works with each of them: call
//! the client from `tokio::task::spawn_blocking` or the like.
//!
//! **Time.** A call ends within the client's timeout, with all its attempts and the waits between them. See
//! [`ClientBuilder::timeout`] and [`Client::with_timeout`].
//!
//! **Retries.** [`RetryPolicy`] says which errors are tried again. All methods except [`Client::health`] are retried. That
//! is safe for writes too, because a write replaces the whole document. But if the answer to the first attempt is lost, a
//! document with a version may get the outcome [`Outcome::Stale`], because the first attempt wrote it already. And a
//! document without a version may replace one that another client wrote between the attempts.
//!
//! **Errors.** [`Error`] has the code, the wrong field, the reason and the limit. The client checks what it needs to make
//! a request; the server checks the rest.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answers;
mod bodies;
mod builder;
mod client;
mod error;
mod many;
mod options;
mod results;
mod retry;
mod scroll;
mod transport;
mod values;
mod vectors;

pub use builder::ClientBuilder;
pub use client::Client;
pub use error::{Code, Error};
pub use options::{CountOptions, DeleteOptions, FacetsOptions, GetOptions, RankOptions, Refinement, ScrollOptions};
pub use results::{
    CollectionInfo, CollectionState, DeleteSummary, EncoderInfo, Explanation, Facets, Health, Outcome, RankedDocument,
    Ranking, RefinementResult, ServerInfo, StoredDocument, StoredDocuments, Timings, WriteResult, WriteResults,
};
pub use retry::RetryPolicy;
pub use scroll::Scroll;
/// The crate whose `Value` and `Map` are in payloads and filters.
pub use serde_json;
pub use values::{Candidates, Document, Filter, Id, Input, Query};
pub use vectors::Vectors;
