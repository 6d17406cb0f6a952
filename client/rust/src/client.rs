//! The client and its methods.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::answers::{
    read_count, read_deleted, read_explanation, read_facets, read_info, read_ranking, read_stored, read_writes,
};
use crate::bodies::{check_collection, explain_body, ids_to_json, rerank_body, Body, UpsertBodies};
use crate::builder::{check_timeout, ClientBuilder};
use crate::error::{Code, Error};
use crate::many::in_parallel;
use crate::options::{CountOptions, DeleteOptions, FacetsOptions, GetOptions, RankOptions, ScrollOptions};
use crate::results::{DeleteSummary, Explanation, Facets, Health, Ranking, ServerInfo, StoredDocuments, WriteResults};
use crate::scroll::Scroll;
use crate::transport::{Request, Transport};
use crate::values::{Candidates, Document, Filter, Id, Query};

const MAX_IDS_PER_GET: usize = 1000;
const DEFAULT_CONCURRENCY: usize = 8;

/// Calls a server over HTTP.
///
/// Any number of threads may use one client at the same time. A clone is cheap and shares the connections, so make one
/// client per server and keep it.
///
/// # Errors
///
/// Every method returns an [`Error`]: with [`is_local`](Error::is_local) if an argument is wrong and nothing was sent,
/// otherwise with the code of the server, [`Code::Unavailable`] if it cannot be reached, or [`Code::DeadlineExceeded`].
#[derive(Clone)]
pub struct Client {
    transport: Arc<Transport>,
    timeout: Duration,
}

impl Client {
    /// Makes a client with default options. `url` is that of the server's HTTP port, such as `"http://localhost:7071"`; it
    /// may have a path, if a proxy needs one. Opens no connection.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Returns a builder for other options: timeout, retries, token, TLS.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(url.into())
    }

    pub(crate) fn of_transport(transport: Transport, timeout: Duration) -> Self {
        Self { transport: Arc::new(transport), timeout }
    }

    /// Returns a client that shares these connections and has another timeout.
    pub fn with_timeout(&self, timeout: Duration) -> Result<Self, Error> {
        check_timeout(timeout)?;
        Ok(Self { timeout, ..self.clone() })
    }

    /// Ranks candidates by their MaxSim score. `collection` may be `""` if the candidates are documents of the request, or
    /// if the server has only one collection.
    pub fn rerank(
        &self,
        collection: &str,
        query: impl Into<Query>,
        candidates: &Candidates,
        options: &RankOptions,
    ) -> Result<Ranking, Error> {
        self.rank(collection, &query.into(), candidates, options)
    }

    /// Searches the whole collection, with a text or with token vectors.
    pub fn search(&self, collection: &str, query: impl Into<Query>, options: &RankOptions) -> Result<Ranking, Error> {
        self.rank(collection, &query.into(), &Candidates::WholeCollection, options)
    }

    fn rank(
        &self,
        collection: &str,
        query: &Query,
        candidates: &Candidates,
        options: &RankOptions,
    ) -> Result<Ranking, Error> {
        let body = rerank_body(collection, query, candidates, options)?;
        read_ranking(self.call("POST", "/v1/rerank", &body)?, options.wants_payloads())
    }

    /// Ranks candidates for several queries, and returns the rankings in the order of the queries. `candidates` has one
    /// element per query, or one for all of them.
    ///
    /// Makes one request per query, because the HTTP API takes one query per request, and
    /// [`concurrency`](RankOptions::concurrency) of them at a time, on threads of their own. If one request fails, no
    /// further ones are sent, and the error has the [`query_index`](Error::query_index).
    pub fn rerank_many(
        &self,
        collection: &str,
        queries: &[Query],
        candidates: &[Candidates],
        options: &RankOptions,
    ) -> Result<Vec<Ranking>, Error> {
        if queries.is_empty() {
            return Err(Error::argument("queries is empty; must have at least one query"));
        }
        if candidates.len() != 1 && candidates.len() != queries.len() {
            let (found, wanted) = (candidates.len(), queries.len());
            let message = format!("candidates has {} elements; must have 1, or one per query: {}", found, wanted);
            return Err(Error::argument(message));
        }
        let concurrency = options.concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        if concurrency == 0 {
            return Err(Error::argument("concurrency is 0; must be 1 or more"));
        }
        in_parallel(queries.len(), concurrency, |i| {
            let own = &candidates[if candidates.len() == 1 { 0 } else { i }];
            self.rank(collection, &queries[i], own, options).map_err(|error| error.with_query_index(i))
        })
    }

    /// Adds documents to a live collection. Returns when they are on the server's disk and every later request sees them.
    ///
    /// More than 10,000 documents, or than [`max_body_bytes`](ClientBuilder::max_body_bytes), are sent in several
    /// requests, one after another. If one fails, those before it have been written.
    pub fn upsert(
        &self,
        collection: &str,
        documents: impl IntoIterator<Item = Document>,
    ) -> Result<WriteResults, Error> {
        let path = documents_path(collection, "")?;
        let mut written = WriteResults::default();
        for body in UpsertBodies::new(documents.into_iter(), self.transport.max_body_bytes) {
            let body = body?;
            let answer = self.call("PUT", &path, &body.text).map_err(|error| error.with_documents_from(body.first))?;
            let one = read_writes(&answer, body.num)?;
            written.results.extend(one.results);
            written.sequence = one.sequence;
        }
        Ok(written)
    }

    /// Deletes documents of a live collection by their ids.
    pub fn delete<T: Into<Id>>(
        &self,
        collection: &str,
        ids: impl IntoIterator<Item = T>,
        options: &DeleteOptions,
    ) -> Result<WriteResults, Error> {
        let ids: Vec<Id> = ids.into_iter().map(Into::into).collect();
        let body = Body::default().with("ids", ids_to_json(&ids)?).with_option("version", options.version).into_text();
        read_writes(&self.call("DELETE", &documents_path(collection, "")?, &body)?, ids.len())
    }

    /// Deletes all documents of a live collection that match a filter. If one request cannot delete them all,
    /// it is repeated until no more match. An error has [`num_deleted`](Error::num_deleted).
    pub fn delete_matching(
        &self,
        collection: &str,
        filter: impl Into<Filter>,
        options: &DeleteOptions,
    ) -> Result<DeleteSummary, Error> {
        let path = documents_path(collection, "")?;
        let filter = filter.into();
        let mut min_sequence = options.min_sequence;
        let mut sum = DeleteSummary::default();
        let partly =
            |error: Error, num_deleted| if num_deleted > 0 { error.partly_deleted(num_deleted) } else { error };
        loop {
            let body = Body::default()
                .with("filter", filter.to_json())
                .with_option("version", options.version)
                .with_option("min_sequence", min_sequence)
                .into_text();
            let request = Request { method: "DELETE", path: &path, body: Some(&body) };
            // A failed attempt may have deleted documents, too.
            let answered = self.transport.call(request, self.timeout, |error| {
                sum.num_deleted += error.num_deleted().unwrap_or(0);
            });
            let read = answered.and_then(|answer| read_deleted(&answer));
            let (one, has_more) = read.map_err(|error| partly(error, sum.num_deleted))?;
            sum.num_deleted += one.num_deleted;
            sum.num_missing += one.num_missing;
            sum.num_stale += one.num_stale;
            sum.sequence = one.sequence;
            if !has_more {
                return Ok(sum);
            }
            if one.num_deleted + one.num_missing + one.num_stale == 0 {
                let message = "the server deleted nothing, and says that more documents match";
                return Err(partly(Error::new(Code::Internal, message), sum.num_deleted));
            }
            min_sequence = Some(one.sequence);
        }
    }

    /// Reads documents of any collection as they are stored. More than 1,000 ids are read in several requests.
    pub fn get<T: Into<Id>>(
        &self,
        collection: &str,
        ids: impl IntoIterator<Item = T>,
        options: &GetOptions,
    ) -> Result<StoredDocuments, Error> {
        let path = documents_path(collection, "/get")?;
        let ids: Vec<Id> = ids.into_iter().map(Into::into).collect();
        ids_to_json(&ids[..ids.len().min(1)])?;
        let mut all = StoredDocuments::default();
        for part in ids.chunks(MAX_IDS_PER_GET) {
            let body = Body::default()
                .with("ids", ids_to_json(part)?)
                .with_option("return_tokens", options.return_tokens)
                .with_option("min_sequence", options.min_sequence);
            let (one, _) = read_stored(self.call("POST", &path, &body.into_text())?)?;
            all.documents.extend(one.documents);
            all.missing.extend(one.missing);
            all.generation = one.generation;
            all.sequence = one.sequence;
        }
        Ok(all)
    }

    /// Returns an iterator over the documents of a collection, or those that match a filter, in the order of their ids. It
    /// reads pages as it needs them; the timeout is that of one page. It ends after an error.
    #[must_use]
    pub fn scroll(&self, collection: &str, options: &ScrollOptions) -> Scroll {
        Scroll::new(self.clone(), collection, options)
    }

    /// Returns how many documents match a filter, or are in the collection.
    pub fn count(&self, collection: &str, options: &CountOptions) -> Result<u64, Error> {
        check_collection(collection)?;
        let body = Body::default()
            .with("collection", collection)
            .with_option("filter", options.filter.as_ref().map(Filter::to_json))
            .with_option("min_sequence", options.min_sequence);
        read_count(&self.call("POST", "/v1/count", &body.into_text())?)
    }

    /// Returns the most frequent values of a keyword field.
    pub fn facets(&self, collection: &str, field: &str, options: &FacetsOptions) -> Result<Facets, Error> {
        check_collection(collection)?;
        let body = Body::default()
            .with("collection", collection)
            .with("field", field)
            .with_option("filter", options.filter.as_ref().map(Filter::to_json))
            .with_option("limit", options.limit)
            .with_option("min_sequence", options.min_sequence);
        read_facets(&self.call("POST", "/v1/facets", &body.into_text())?)
    }

    /// Returns the similarity of every token of a query with every token of one stored document. `collection` may be
    /// `""` if the server has only one.
    pub fn explain(&self, collection: &str, query: impl Into<Query>, id: impl Into<Id>) -> Result<Explanation, Error> {
        let body = explain_body(collection, &query.into(), &id.into())?;
        read_explanation(&self.call("POST", "/v1/explain", &body)?)
    }

    /// Returns the encoder and the collections.
    pub fn info(&self) -> Result<ServerInfo, Error> {
        let request = Request { method: "GET", path: "/v1/collections", body: None };
        read_info(self.transport.call(request, self.timeout, |_| ())?)
    }

    /// Asks once whether the server takes requests. Needs no token. Fails only if there is no answer, or an unexpected
    /// one.
    pub fn health(&self) -> Result<Health, Error> {
        let request = Request { method: "GET", path: "/readyz", body: None };
        let answer = self.transport.once(request, self.timeout)?;
        if answer.status != 200 && answer.status != 503 {
            let message = format!("/readyz answered with HTTP status {}", answer.status);
            return Err(Error::new(Code::Unknown, message));
        }
        Ok(Health { is_ready: answer.status == 200, message: answer.text.trim().into() })
    }

    pub(crate) fn call(&self, method: &'static str, path: &str, body: &str) -> Result<serde_json::Value, Error> {
        self.transport.call(Request { method, path, body: Some(body) }, self.timeout, |_| ())
    }
}

impl fmt::Debug for Client {
    /// Leaves out the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.transport.url)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Returns the path of a collection's documents. Refuses `.` and `..`, because in a URL these name other paths, even if
/// they are escaped.
pub(crate) fn documents_path(collection: &str, call: &str) -> Result<String, Error> {
    check_collection(collection)?;
    if matches!(collection, "." | "..") {
        return Err(Error::argument(format!("collection is {:?}; must be the name of a collection", collection)));
    }
    Ok(format!("/v1/collections/{}/documents{}", path_segment(collection), call))
}

/// Escapes everything except letters, digits and `-._~`.
fn path_segment(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{:02X}", byte),
    };
    text.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_errors_and_iterators_can_be_shared_by_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Client>();
        check::<Error>();
        check::<Scroll>();
    }

    #[test]
    fn names_of_collections_are_escaped_in_paths() {
        let path = documents_path("a/b ä?%.", "/get").unwrap();
        assert_eq!(path, "/v1/collections/a%2Fb%20%C3%A4%3F%25./documents/get");
        for wrong in ["", ".", ".."] {
            let error = documents_path(wrong, "").unwrap_err();
            assert!(error.is_local() && error.message().starts_with(&format!("collection is {wrong:?}; ")), "{error}");
        }
    }
}
