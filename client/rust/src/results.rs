//! The results of the methods.

use serde_json::{Map, Value};

use crate::values::Id;
use crate::vectors::Vectors;

/// A document of a [`Ranking`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RankedDocument {
    /// `None` for a document that came with the request.
    pub id: Option<Id>,
    /// Index in the candidates of the request; for a whole collection, the document's place in it.
    pub position: u64,
    /// The MaxSim score, with the bits that the server computed.
    pub score: f32,
    /// `None` unless the options ask for payloads. An integer beyond 64 bits is rounded to an f64.
    pub payload: Option<Value>,
    /// Value of the field [`group_by`](crate::RankOptions::group_by).
    pub group: Option<String>,
    /// For each query token, the index of the document token that it matched. Empty unless `alignments` is set.
    pub matches: Vec<u32>,
    /// For each query token, the similarity of that match, before the weight. Empty unless `alignments` is set.
    pub similarities: Vec<f32>,
    /// The encoder cut the end of the document's text.
    pub truncated: bool,
}

/// The answer to one query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ranking {
    /// The best first.
    pub documents: Vec<RankedDocument>,
    /// Candidates that the collection does not have.
    pub missing: Vec<Id>,
    /// Number of candidates that were left out because a device or a group of servers is lost.
    pub unavailable_documents: u64,
    /// The groups of servers that are lost.
    pub unavailable_groups: Vec<String>,
    /// Name of the collection; empty if the documents came with the request.
    pub collection: String,
    /// Generation of the collection; 0 if the documents were scored without a collection.
    pub generation: u64,
    /// The request's id.
    pub request_id: String,
    /// The last write that the answer includes; 0 unless the collection is live and was written to.
    pub sequence: u64,
    /// Texts of the query's tokens; empty unless the query is a text and `alignments` is set.
    pub query_tokens: Vec<String>,
    /// The encoder cut the end of the query's text.
    pub query_truncated: bool,
    /// How a scan of codes chose the documents that were scored; `None` without such a scan.
    pub refinement: Option<RefinementResult>,
    /// Times on the server.
    pub timings: Timings,
}

/// How a scan of codes chose the documents of an answer (`docs/use/search.md`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RefinementResult {
    /// Planes of codes that were scanned.
    pub planes: u32,
    /// Documents that the scan chose and the server scored exactly.
    pub documents: u64,
    /// Whether it is proven that no better document was left out.
    pub is_proven: bool,
    /// Score at rank `offset + top_k` minus `outside_score`: above 0 if the answer is proven.
    pub margin: Option<f32>,
    /// The largest score that the scan computed for a document that was not scored exactly.
    pub outside_score: Option<f32>,
    /// Whether `outside_score` is an upper bound for all such documents. Otherwise it is an estimate.
    pub outside_is_bound: bool,
}

/// Times on the server, in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Timings {
    /// Turning texts into vectors.
    pub encode_us: f64,
    /// Waiting in the queue.
    pub queue_us: f64,
    /// Copying to the device.
    pub copy_us: f64,
    /// Computing scores.
    pub kernel_us: f64,
    /// The whole request.
    pub total_us: f64,
}

/// The outcome of writing or deleting one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was written or deleted.
    Applied,
    /// A newer version was there, so nothing changed.
    Stale,
    /// There was no document to delete.
    NotFound,
}

/// The result of one document of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteResult {
    /// Whether the document was written or deleted.
    pub outcome: Outcome,
    /// Sequence of the write; `None` if nothing was written.
    pub sequence: Option<u64>,
    /// The encoder cut the end of the text.
    pub truncated: bool,
}

/// The results of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteResults {
    /// One per document or id, in the order of the call.
    pub results: Vec<WriteResult>,
    /// For `min_sequence` of calls that must see this write.
    pub sequence: u64,
}

/// The result of [`delete_matching`](crate::Client::delete_matching).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteSummary {
    /// Documents that were deleted.
    pub num_deleted: u64,
    /// Documents that were gone before they could be deleted.
    pub num_missing: u64,
    /// Documents that were kept because they have a newer version.
    pub num_stale: u64,
    /// For `min_sequence` of calls that must see this deletion.
    pub sequence: u64,
}

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredDocument {
    /// The document's id.
    pub id: Id,
    /// Number of token vectors.
    pub num_tokens: u64,
    /// `None` if the call leaves payloads out. An integer beyond 64 bits is rounded to an f64.
    pub payload: Option<Value>,
    /// The caller's version; 0 if it has none.
    pub version: u64,
    /// The write that added it; 0 if it is in the generation's shards.
    pub sequence: u64,
    /// The vectors, if the call asked for them. An I8 collection stores them multiplied by a fixed orthogonal matrix,
    /// and quantised.
    pub tokens: Option<Vectors>,
}

/// The result of [`get`](crate::Client::get).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoredDocuments {
    /// In the order of the ids.
    pub documents: Vec<StoredDocument>,
    /// Ids that the collection does not have.
    pub missing: Vec<Id>,
    /// Generation of the collection.
    pub generation: u64,
    /// The last write that the answer includes.
    pub sequence: u64,
}

/// The result of [`facets`](crate::Client::facets).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facets {
    /// Values of the field with the number of documents that have them, the most frequent first.
    pub values: Vec<(String, u64)>,
    /// Number of all values, also of those that the limit left out.
    pub num_values: u64,
    /// Number of documents that have a value.
    pub num_documents: u64,
}

/// The result of [`explain`](crate::Client::explain).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The document's id.
    pub id: Id,
    /// Name of the collection.
    pub collection: String,
    /// Generation of the collection.
    pub generation: u64,
    /// Weighted sum of the largest similarity of each row.
    pub score: f64,
    /// One row per query token, one column per document token, before the weights.
    pub similarities: Vec<Vec<f64>>,
    /// Texts of the query's tokens; empty if they are not known.
    pub query_tokens: Vec<String>,
    /// Texts of the document's tokens; empty if they are not known.
    pub document_tokens: Vec<String>,
    /// The encoder cut the end of the query's text.
    pub query_truncated: bool,
}

/// The encoder of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncoderInfo {
    /// Name of the model.
    pub model: String,
    /// Fingerprint of the model's files.
    pub fingerprint: String,
    /// Length of the vectors.
    pub dim: u64,
}

/// State of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectionState {
    /// It is being loaded.
    Loading,
    /// It answers.
    Ready,
    /// Loading failed ([`CollectionInfo::error`]).
    Failed,
    /// It answers, but a part of it is lost.
    Partial,
    /// A state that a later server adds.
    Other(String),
}

/// A collection of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionInfo {
    /// The collection's name.
    pub name: String,
    /// Whether it answers.
    pub state: CollectionState,
    /// Why loading failed.
    pub error: Option<String>,
    /// Number of the generation that answers.
    pub generation: u64,
    /// Length of the vectors.
    pub dim: u64,
    /// Type of the stored values, such as `"f16"`.
    pub storage: String,
    /// `"string"` or `"int64"`.
    pub id_type: String,
    /// Number of documents.
    pub num_documents: u64,
    /// Number of token vectors.
    pub num_tokens: u64,
    /// Whether it is a live collection, which can be written.
    pub is_live: bool,
    /// Every member of the server's answer, also those above, such as `"fields"` and `"live"`.
    pub members: Map<String, Value>,
}

/// The result of [`info`](crate::Client::info).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The encoder; `None` if the server has none.
    pub encoder: Option<EncoderInfo>,
    /// The server's collections.
    pub collections: Vec<CollectionInfo>,
}

/// The result of [`health`](crate::Client::health).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the server takes requests.
    pub is_ready: bool,
    /// The server's text: the reason if it is not ready, and lost devices if it is.
    pub message: String,
}
