//! Makes the bodies of requests.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::options::{RankOptions, Refinement};
use crate::values::{Candidates, Document, Id, Input, Query};

const DEFAULT_TOP_K: u64 = 10;
const MAX_DOCUMENTS_PER_UPSERT: usize = 10_000;

/// The members of a JSON object. Absent ones are left out.
#[derive(Default)]
pub(crate) struct Body(Map<String, Value>);

impl Body {
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    pub(crate) fn with_option(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub(crate) fn into_text(self) -> String {
        self.into_value().to_string()
    }
}

pub(crate) fn check_collection(collection: &str) -> Result<(), Error> {
    if collection.is_empty() {
        return Err(Error::argument(r#"collection is ""; must be the name of a collection"#));
    }
    Ok(())
}

/// Returns ids, of which there must be at least one.
pub(crate) fn ids_to_json(ids: &[Id]) -> Result<Value, Error> {
    if ids.is_empty() {
        return Err(Error::argument("ids is empty; must have at least one id"));
    }
    Ok(ids.iter().map(Id::to_json).collect())
}

/// Returns a number, which JSON has only if it is finite.
fn number(value: f32, name: &str) -> Result<Value, Error> {
    if value.is_finite() {
        return Ok(f64::from(value).into());
    }
    Err(Error::argument(format!("{} is {}; must be a finite number", name, value)))
}

fn query_to_json(query: &Query) -> Result<Value, Error> {
    match &query.input {
        Input::Text(text) => Ok(text.as_str().into()),
        Input::Vectors(vectors) => vectors.to_json("query"),
    }
}

fn weights_to_json(query: &Query) -> Result<Option<Value>, Error> {
    let one = |(i, weight): (usize, &f32)| number(*weight, &format!("weights[{}]", i));
    query.weights.as_ref().map(|weights| weights.iter().enumerate().map(one).collect()).transpose()
}

fn candidates_to_json(candidates: &Candidates) -> Result<Value, Error> {
    let inline = |(i, document): (usize, &Input)| -> Result<Value, Error> {
        let (name, content) = content_to_json(document, &format!("documents[{}]", i))?;
        Ok(Body::default().with(name, content).into_value())
    };
    match candidates {
        Candidates::WholeCollection => Ok("*".into()),
        Candidates::Ids(ids) => ids_to_json(ids),
        Candidates::Documents(documents) if documents.is_empty() => {
            Err(Error::argument("documents is empty; must have at least one document"))
        }
        Candidates::Documents(documents) => documents.iter().enumerate().map(inline).collect(),
    }
}

/// Returns the member of a document that holds its content.
fn content_to_json(content: &Input, name: &str) -> Result<(&'static str, Value), Error> {
    match content {
        Input::Text(text) => Ok(("text", text.as_str().into())),
        Input::Vectors(vectors) => Ok(("tokens", vectors.to_json(name)?)),
    }
}

fn refinement_to_json(refinement: &Refinement) -> Value {
    Body::default()
        .with_option("documents", refinement.documents)
        .with_option("budget", refinement.budget)
        .with_option("require_proof", refinement.require_proof)
        .into_value()
}

/// Returns the body of `/v1/rerank`.
pub(crate) fn rerank_body(
    collection: &str,
    query: &Query,
    candidates: &Candidates,
    options: &RankOptions,
) -> Result<String, Error> {
    let min_score = options.min_score.map(|score| number(score, "min_score"));
    let wants_payloads = options.wants_payloads().then(|| true);
    let body = Body::default()
        .with_option("model", Some(collection).filter(|name| !name.is_empty()))
        .with("query", query_to_json(query)?)
        .with("documents", candidates_to_json(candidates)?)
        .with_option("query_weights", weights_to_json(query)?)
        .with("top_n", options.top_k.unwrap_or(DEFAULT_TOP_K))
        .with_option("offset", options.offset)
        .with_option("min_score", min_score.transpose()?)
        .with_option("filter", options.filter.as_ref().map(|filter| filter.to_json()))
        .with_option("group_by", options.group_by.as_deref())
        .with_option("group_size", options.group_size)
        .with_option("return_documents", wants_payloads)
        .with_option("payload_fields", options.payload_fields.clone())
        .with_option("return_alignments", options.alignments)
        .with_option("normalize", options.normalize)
        .with_option("refinement", options.refinement.as_ref().map(refinement_to_json))
        .with_option("request_id", options.request_id.as_deref())
        .with_option("min_sequence", options.min_sequence);
    Ok(body.into_text())
}

impl RankOptions {
    pub(crate) fn wants_payloads(&self) -> bool {
        self.payloads == Some(true) || self.payload_fields.is_some()
    }
}

/// Returns the body of `/v1/explain`.
pub(crate) fn explain_body(collection: &str, query: &Query, id: &Id) -> Result<String, Error> {
    let body = Body::default()
        .with_option("model", Some(collection).filter(|name| !name.is_empty()))
        .with("query", query_to_json(query)?)
        .with("id", id.to_json())
        .with_option("query_weights", weights_to_json(query)?);
    Ok(body.into_text())
}

/// Makes the bodies of requests that write documents. Each has at most 10,000 documents and `max_bytes`. A single larger
/// document is sent alone, so that the server's error says how large it may be.
pub(crate) struct UpsertBodies<I> {
    documents: I,
    max_bytes: usize,
    /// The documents of the next request as JSON, without the comma between them.
    waiting: Vec<String>,
    num_read: usize,
}

/// One request: its body, the index of its first document in the whole call, and the number of its documents.
#[derive(Debug, PartialEq)]
pub(crate) struct UpsertBody {
    pub(crate) text: String,
    pub(crate) first: usize,
    pub(crate) num: usize,
}

const UPSERT_START: &str = r#"{"documents":["#;
const UPSERT_END: &str = "]}";

impl<I: Iterator<Item = Document>> UpsertBodies<I> {
    pub(crate) fn new(documents: I, max_bytes: usize) -> Self {
        Self { documents, max_bytes, waiting: Vec::new(), num_read: 0 }
    }

    fn next_body(&mut self) -> Result<Option<UpsertBody>, Error> {
        let size = |text: &String| text.len() + 1; // with the comma
        let mut bytes = UPSERT_START.len() + UPSERT_END.len() - 1;
        bytes += self.waiting.iter().map(size).sum::<usize>();
        for document in self.documents.by_ref() {
            let text = document_text(&document, self.num_read)?;
            self.num_read += 1;
            let is_full = self.waiting.len() == MAX_DOCUMENTS_PER_UPSERT || bytes + size(&text) > self.max_bytes;
            if is_full && !self.waiting.is_empty() {
                let ready = std::mem::replace(&mut self.waiting, vec![text]);
                let first = self.num_read - 1 - ready.len();
                return Ok(Some(joined(&ready, first)));
            }
            bytes += size(&text);
            self.waiting.push(text);
        }
        if self.num_read == 0 {
            return Err(Error::argument("documents is empty; must have at least one document"));
        }
        let rest = std::mem::take(&mut self.waiting);
        Ok((!rest.is_empty()).then(|| joined(&rest, self.num_read - rest.len())))
    }
}

impl<I: Iterator<Item = Document>> Iterator for UpsertBodies<I> {
    type Item = Result<UpsertBody, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_body().transpose()
    }
}

fn joined(documents: &[String], first: usize) -> UpsertBody {
    let text = [UPSERT_START, &documents.join(","), UPSERT_END].concat();
    UpsertBody { text, first, num: documents.len() }
}

fn document_text(document: &Document, index: usize) -> Result<String, Error> {
    let (name, content) = content_to_json(&document.content, &format!("documents[{}].tokens", index))?;
    let body = Body::default()
        .with("id", document.id.to_json())
        .with(name, content)
        .with_option("payload", document.payload.clone())
        .with_option("version", document.version);
    Ok(body.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::Vectors;
    use serde_json::json;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn bodies(num: usize, max_bytes: usize) -> Vec<UpsertBody> {
        let documents = (0..num).map(|i| Document::new(i as i64 % 10, "text"));
        UpsertBodies::new(documents, max_bytes).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_ranking_without_options_asks_for_ten_results_and_nothing_else() {
        let query = Query::from("words");
        let body = rerank_body("", &query, &Candidates::WholeCollection, &RankOptions::new()).unwrap();
        assert_eq!(parsed(&body), json!({"query": "words", "documents": "*", "top_n": 10}));
    }

    #[test]
    fn options_get_the_names_of_the_http_api() {
        let options = RankOptions::new()
            .top_k(3)
            .min_score(0.1)
            .filter(json!({"lang": "en"}))
            .payload_fields(["title"])
            .refinement(Refinement::new().budget(7))
            .min_sequence(u64::MAX);
        let query = Query::new(vec![vec![1.5f32]]).weights([0.5]);
        let candidates = Candidates::ids([i64::MIN, i64::MAX]);
        let body = parsed(&rerank_body("docs", &query, &candidates, &options).unwrap());
        let expected = json!({"model": "docs", "documents": [i64::MIN, i64::MAX], "top_n": 3, "query_weights": [0.5],
            "query": {"dtype": "f32", "shape": [1, 1], "data": "AADAPw=="}, "min_score": 0.1f32 as f64,
            "filter": {"lang": "en"}, "return_documents": true, "payload_fields": ["title"],
            "refinement": {"budget": 7}, "min_sequence": u64::MAX});
        assert_eq!(body, expected);
    }

    #[test]
    fn numbers_that_json_lacks_are_refused_with_their_name() {
        let refused = |query: &Query, options: &RankOptions| {
            let error = rerank_body("docs", query, &Candidates::WholeCollection, options).unwrap_err();
            assert!(error.is_local());
            error.message().to_string()
        };
        let weighted = Query::from("words").weights([1.0, f32::NAN]);
        assert_eq!(refused(&weighted, &RankOptions::new()), "weights[1] is NaN; must be a finite number");
        let options = RankOptions::new().min_score(f32::INFINITY);
        assert_eq!(refused(&Query::from("words"), &options), "min_score is inf; must be a finite number");
    }

    #[test]
    fn documents_are_split_by_bytes_at_the_limit() {
        let one = bodies(1, usize::MAX)[0].text.len();
        let two = bodies(2, usize::MAX)[0].text.len();
        let firsts = |num, max_bytes| bodies(num, max_bytes).iter().map(|body| body.first).collect::<Vec<_>>();
        assert_eq!(firsts(4, two), [0, 2]);
        assert_eq!(firsts(4, two - 1), [0, 1, 2, 3]);
        assert_eq!(firsts(2, one - 1), [0, 1]); // each is too large and is sent alone
        for body in bodies(5, two) {
            assert!(body.text.len() <= two);
            assert!(parsed(&body.text)["documents"].as_array().unwrap().len() <= 2);
        }
    }

    #[test]
    fn documents_are_split_after_ten_thousand() {
        let lengths = |num| -> Vec<usize> {
            let length = |body: &UpsertBody| parsed(&body.text)["documents"].as_array().unwrap().len();
            bodies(num, usize::MAX).iter().map(length).collect()
        };
        assert_eq!(lengths(10_000), [10_000]);
        assert_eq!(lengths(10_001), [10_000, 1]);
    }

    #[test]
    fn no_documents_and_wrong_vectors_are_refused() {
        let refused = |documents: Vec<Document>| {
            let found: Result<Vec<_>, _> = UpsertBodies::new(documents.into_iter(), usize::MAX).collect();
            found.unwrap_err().message().to_string()
        };
        assert_eq!(refused(vec![]), "documents is empty; must have at least one document");
        let documents = vec![Document::new("a", "text"), Document::new("b", Vectors::flat(vec![], 4))];
        assert!(refused(documents).starts_with("documents[1].tokens has no vectors"));
    }
}
