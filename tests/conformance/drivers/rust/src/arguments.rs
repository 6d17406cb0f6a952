//! Makes the client's arguments from those of a case.

use maxsim::serde_json::{Map, Value};
use maxsim::{Candidates, Document, Filter, Id, Input, Query, RankOptions, Vectors};

use crate::{text, Failure};

/// Replaces `{"int64": "123"}` by the integer.
pub fn with_integers(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(with_integers).collect(),
        Value::Object(members) => {
            let number = members.get("int64").filter(|_| members.len() == 1).and_then(Value::as_str);
            if let Some(digits) = number {
                let signed = digits.parse::<i64>().map(Value::from);
                return signed.or_else(|_| digits.parse::<u64>().map(Value::from)).expect("int64 is an integer");
            }
            Value::Object(members.into_iter().map(|(name, one)| (name, with_integers(one))).collect())
        }
        other => other,
    }
}

pub fn id(value: &Value) -> Id {
    match value.as_i64() {
        Some(number) => number.into(),
        None => value.as_str().expect("an id is an integer or a text").into(),
    }
}

pub fn ids(value: &Value) -> Vec<Id> {
    elements(value).iter().map(id).collect()
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn floats(value: &Value) -> Vec<f32> {
    elements(value).iter().map(|one| one.as_f64().expect("a number") as f32).collect()
}

fn vectors(rows: &Value) -> Vectors {
    elements(rows).iter().map(floats).collect::<Vec<_>>().into()
}

/// Returns a text, or vectors.
fn input(value: &Value) -> Input {
    value.as_str().map_or_else(|| vectors(value).into(), Into::into)
}

pub fn query(value: &Value, weights: &Value) -> Query {
    let query = Query::new(input(value));
    if weights.is_null() {
        query
    } else {
        query.weights(floats(weights))
    }
}

/// Returns the candidates of the members `ids` and `documents`.
pub fn candidates(ids_given: &Value, documents: &Value) -> Candidates {
    if !ids_given.is_null() {
        return Candidates::Ids(ids(ids_given));
    }
    if !documents.is_null() {
        return Candidates::documents(elements(documents).iter().map(input));
    }
    Candidates::WholeCollection
}

/// Returns the number of lists around the first value. Null stands for a list.
fn depth(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Array(list) => list.first().map_or(0, |first| 1 + depth(first)),
        _ => 0,
    }
}

/// Returns the member that belongs to query `i`: an element if there is one per query, otherwise the whole value. `one` is
/// the number of lists around a value of one query.
fn of_query(value: &Value, i: usize, one: usize) -> &Value {
    if depth(value) > one {
        &value[i]
    } else {
        value
    }
}

/// Returns the queries of `rerank_many`, and the candidates of each.
pub fn queries(given: &Value) -> (Vec<Query>, Vec<Candidates>) {
    let both = elements(&given["queries"]).iter().enumerate().map(|(i, one)| {
        let own = query(one, of_query(&given["weights"], i, 1));
        (own, candidates(of_query(&given["ids"], i, 1), of_query(&given["documents"], i, 3)))
    });
    both.unzip()
}

pub fn filter(value: &Value) -> Option<Filter> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.as_str().into()),
        other => Some(other.clone().into()),
    }
}

/// Says whether an option is true, as far as it is given.
pub fn flag(value: &Value) -> Option<bool> {
    value.as_bool()
}

/// Returns the options of a ranking.
pub fn rank_options(given: &Map<String, Value>) -> Result<RankOptions, Failure> {
    let mut options = RankOptions::new();
    for (name, value) in given {
        let integer = || value.as_u64().ok_or_else(|| Failure::Unsupported(format!("{} is {}", name, value)));
        let words = || value.as_str().unwrap_or_default();
        options = match name.as_str() {
            "collection" | "query" | "queries" | "ids" | "documents" | "weights" => options,
            "top_k" => options.top_k(integer()?),
            "offset" => options.offset(integer()?),
            "min_score" => options.min_score(value.as_f64().expect("a number") as f32),
            "filter" => options.filter(filter(value).expect("a filter")),
            "group_by" => options.group_by(words()),
            "group_size" => options.group_size(integer()?),
            "payloads" => options.payloads(value == true),
            "payload_fields" => options.payload_fields(elements(value).iter().map(|one| one.as_str().expect("a name"))),
            "alignments" => options.alignments(value == true),
            "normalize" => options.normalize(value == true),
            "request_id" => options.request_id(words()),
            "min_sequence" => options.min_sequence(integer()?),
            "priority" | "missing_policy" => options, // which the HTTP API does not have
            other => return Err(Failure::Unsupported(format!("this driver has no option {}", other))),
        };
    }
    Ok(options)
}

/// Returns the documents of an upsert. A case may have one without content, which the client's type cannot express: then
/// the document has no vectors.
pub fn documents(value: &Value) -> Result<Vec<Document>, Failure> {
    let one = |given: &Value| {
        let content = if given["text"].is_string() { text(given, "text").into() } else { input(&given["tokens"]) };
        if given["text"].is_string() && !given["tokens"].is_null() {
            return Err(Failure::Unsupported("a document of this client has either tokens or a text".into()));
        }
        let mut document = Document::new(id(&given["id"]), content);
        if let Some(payload) = given.get("payload") {
            document = document.payload(payload.clone());
        }
        if let Some(version) = given["version"].as_u64() {
            document = document.version(version);
        }
        Ok(document)
    };
    elements(value).iter().map(one).collect()
}
