//! Arguments of several methods: ids, queries, candidates, filters and documents.

use std::fmt;

use serde_json::Value;

use crate::vectors::Vectors;

/// Id of a document. A collection has either strings or 64-bit integers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// An id of a collection with integers.
    Int(i64),
    /// An id of a collection with strings.
    Text(String),
}

impl Id {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Int(id) => (*id).into(),
            Self::Text(id) => id.as_str().into(),
        }
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = || value.as_str().map(|id| Self::Text(id.into()));
        value.as_i64().map(Self::Int).or_else(text)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(id) => id.fmt(f),
            Self::Text(id) => id.fmt(f),
        }
    }
}

impl From<i64> for Id {
    fn from(id: i64) -> Self {
        Self::Int(id)
    }
}

impl From<String> for Id {
    fn from(id: String) -> Self {
        Self::Text(id)
    }
}

impl From<&str> for Id {
    fn from(id: &str) -> Self {
        Self::Text(id.into())
    }
}

impl From<&String> for Id {
    fn from(id: &String) -> Self {
        Self::Text(id.clone())
    }
}

/// A text, for which the server needs an encoder, or token vectors.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The server's encoder turns it into vectors.
    Text(String),
    /// Vectors of the caller's own model.
    Vectors(Vectors),
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vectors> for Input {
    fn from(vectors: Vectors) -> Self {
        Self::Vectors(vectors)
    }
}

impl<R: AsRef<[f32]>> From<Vec<R>> for Input {
    fn from(rows: Vec<R>) -> Self {
        Self::Vectors(rows.into())
    }
}

/// A query: a text or token vectors, with an optional weight per token. Texts, [`Vectors`] and rows convert into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) input: Input,
    pub(crate) weights: Option<Vec<f32>>,
}

impl Query {
    /// Makes a query without weights.
    pub fn new(input: impl Into<Input>) -> Self {
        Self { input: input.into(), weights: None }
    }

    /// Sets one factor per query token. Without weights, each token has the weight 1.
    #[must_use]
    pub fn weights(mut self, weights: impl Into<Vec<f32>>) -> Self {
        self.weights = Some(weights.into());
        self
    }
}

impl<T: Into<Input>> From<T> for Query {
    fn from(input: T) -> Self {
        Self::new(input)
    }
}

/// The documents that a query ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidates {
    /// Every document of the collection.
    WholeCollection,
    /// Documents of the collection with these ids.
    Ids(Vec<Id>),
    /// Documents that are sent with the request. The call's collection may then be `""`.
    Documents(Vec<Input>),
}

impl Candidates {
    /// Makes candidates from ids: `Candidates::ids(["a", "b"])`.
    pub fn ids<T: Into<Id>>(ids: impl IntoIterator<Item = T>) -> Self {
        Self::Ids(ids.into_iter().map(Into::into).collect())
    }

    /// Makes candidates from texts or vectors: `Candidates::documents(["first text", "second text"])`.
    pub fn documents<T: Into<Input>>(documents: impl IntoIterator<Item = T>) -> Self {
        Self::Documents(documents.into_iter().map(Into::into).collect())
    }
}

/// A filter. The page `docs/reference/filters.md` describes the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// An expression, such as `lang = "en" and year >= 2020`.
    Text(String),
    /// A filter as a JSON object.
    Json(Value),
}

impl Filter {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Json(value) => value.clone(),
        }
    }
}

impl From<&str> for Filter {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Filter {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Value> for Filter {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

/// A document to write. It replaces the stored document with the same id as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub(crate) id: Id,
    pub(crate) content: Input,
    pub(crate) payload: Option<Value>,
    pub(crate) version: Option<u64>,
}

impl Document {
    /// Makes a document from its text or its token vectors.
    pub fn new(id: impl Into<Id>, content: impl Into<Input>) -> Self {
        Self { id: id.into(), content: content.into(), payload: None, version: None }
    }

    /// Sets the payload, a JSON object: `document.payload(json!({"title": "Bread"}))`.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Value>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sets the caller's version of the document, such as a time. A document with an older version never replaces one with
    /// a newer version.
    #[must_use]
    pub fn version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }
}
