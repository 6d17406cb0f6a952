//! Makes the results of methods from the JSON of answers.

use serde_json::{Map, Value};

use crate::error::{Code, Error};
use crate::results::{
    CollectionInfo, CollectionState, DeleteSummary, EncoderInfo, Explanation, Facets, Outcome, RankedDocument, Ranking,
    RefinementResult, ServerInfo, StoredDocument, StoredDocuments, Timings, WriteResult, WriteResults,
};
use crate::values::Id;
use crate::vectors::Vectors;

/// The error of an answer with a missing or wrong member.
pub(crate) fn wrong(member: &str) -> Error {
    let message = format!("the server's answer has a wrong or no {}; is this the HTTP port of maxsimd?", member);
    Error::new(Code::Internal, message)
}

fn list<'a>(value: &'a mut Value, member: &str) -> Result<&'a mut Vec<Value>, Error> {
    value.get_mut(member).and_then(Value::as_array_mut).ok_or_else(|| wrong(member))
}

fn integer(value: &Value, member: &str) -> Result<u64, Error> {
    value[member].as_u64().ok_or_else(|| wrong(member))
}

/// Returns an integer that may be left out, which means 0.
fn count(value: &Value, member: &str) -> u64 {
    value[member].as_u64().unwrap_or_default()
}

fn float(value: &Value, member: &str) -> Result<f64, Error> {
    value[member].as_f64().ok_or_else(|| wrong(member))
}

fn flag(value: &Value, member: &str) -> bool {
    value[member].as_bool().unwrap_or_default()
}

fn text(value: &Value, member: &str) -> String {
    value[member].as_str().unwrap_or_default().into()
}

fn id(value: &Value) -> Result<Id, Error> {
    Id::from_json(value).ok_or_else(|| wrong("id"))
}

/// Returns the elements of a list that may be left out.
fn elements<T>(value: &Value, member: &str, one: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, Error> {
    let found = value[member].as_array().map_or(&[][..], Vec::as_slice);
    found.iter().map(|value| one(value).ok_or_else(|| wrong(member))).collect()
}

fn texts(value: &Value, member: &str) -> Result<Vec<String>, Error> {
    elements(value, member, |one| one.as_str().map(String::from))
}

/// Returns an FP32 number. The server writes the digits that are needed to tell it from its neighbours, and these also
/// give the same FP32 number if they are first read as FP64.
fn f32_of(value: &Value) -> Option<f32> {
    value.as_f64().map(|number| number as f32)
}

pub(crate) fn read_ranking(mut answer: Value, wants_payloads: bool) -> Result<Ranking, Error> {
    let results = list(&mut answer, "results")?;
    let documents = results.iter_mut().map(|one| read_ranked(one, wants_payloads));
    Ok(Ranking {
        documents: documents.collect::<Result<_, _>>()?,
        missing: elements(&answer, "missing", Id::from_json)?,
        unavailable_documents: count(&answer, "unavailable_documents"),
        unavailable_groups: texts(&answer, "unavailable_groups")?,
        collection: text(&answer, "model"),
        generation: count(&answer, "generation"),
        request_id: text(&answer, "id"),
        sequence: count(&answer, "sequence"),
        query_tokens: texts(&answer, "query_tokens")?,
        query_truncated: flag(&answer, "query_truncated"),
        refinement: answer.get("refinement").map(read_refinement),
        timings: read_timings(&answer["timings"]),
    })
}

fn read_ranked(one: &mut Value, wants_payloads: bool) -> Result<RankedDocument, Error> {
    let payload = one.get_mut("document").filter(|_| wants_payloads).map(Value::take);
    let found = &one["alignment"];
    Ok(RankedDocument {
        id: one.get("id").filter(|id| !id.is_null()).map(id).transpose()?,
        position: integer(one, "index")?,
        score: f32_of(&one["relevance_score"]).ok_or_else(|| wrong("relevance_score"))?,
        payload,
        group: one["group"].as_str().map(String::from),
        matches: elements(found, "document_tokens", |index| index.as_u64().and_then(|one| one.try_into().ok()))?,
        similarities: elements(found, "similarities", f32_of)?,
        truncated: flag(one, "truncated"),
    })
}

fn read_refinement(found: &Value) -> RefinementResult {
    RefinementResult {
        planes: count(found, "planes").try_into().unwrap_or_default(),
        documents: count(found, "documents"),
        is_proven: found["certificate"] == "PROVEN",
        margin: f32_of(&found["margin"]),
        outside_score: f32_of(&found["outside_score"]),
        outside_is_bound: flag(found, "outside_is_bound"),
    }
}

fn read_timings(found: &Value) -> Timings {
    let time = |member| float(found, member).unwrap_or_default();
    Timings {
        encode_us: time("encode_us"),
        queue_us: time("queue_us"),
        copy_us: time("copy_us"),
        kernel_us: time("kernel_us"),
        total_us: time("total_us"),
    }
}

/// Reads the answer to a write of `num` documents.
pub(crate) fn read_writes(answer: &Value, num: usize) -> Result<WriteResults, Error> {
    let outcome = |one: &Value| {
        Some(WriteResult {
            outcome: match one["outcome"].as_str()? {
                "applied" => Outcome::Applied,
                "stale" => Outcome::Stale,
                "not_found" => Outcome::NotFound,
                _ => return None,
            },
            sequence: one["sequence"].as_u64(),
            truncated: flag(one, "truncated"),
        })
    };
    let results = elements(answer, "results", outcome)?;
    if results.len() != num {
        return Err(wrong("results"));
    }
    Ok(WriteResults { results, sequence: integer(answer, "sequence")? })
}

/// Reads one answer to a delete with a filter, and whether more documents match.
pub(crate) fn read_deleted(answer: &Value) -> Result<(DeleteSummary, bool), Error> {
    let summary = DeleteSummary {
        num_deleted: integer(answer, "num_deleted")?,
        num_missing: count(answer, "num_missing"),
        num_stale: count(answer, "num_stale"),
        sequence: count(answer, "sequence"),
    };
    Ok((summary, flag(answer, "has_more")))
}

/// Reads the answer to a get or one page of a scroll. The bool says whether more documents follow the page.
pub(crate) fn read_stored(mut answer: Value) -> Result<(StoredDocuments, bool), Error> {
    let documents = list(&mut answer, "documents")?.iter_mut().map(read_document);
    let stored = StoredDocuments {
        documents: documents.collect::<Result<_, _>>()?,
        missing: elements(&answer, "missing", Id::from_json)?,
        generation: count(&answer, "generation"),
        sequence: count(&answer, "sequence"),
    };
    Ok((stored, flag(&answer, "has_more")))
}

fn read_document(one: &mut Value) -> Result<StoredDocument, Error> {
    let scale = one.get("scale").and_then(f32_of).unwrap_or(1.0);
    let tokens = one.get("tokens").map(|matrix| Vectors::from_json(matrix, scale));
    Ok(StoredDocument {
        id: id(&one["id"])?,
        num_tokens: integer(one, "num_tokens")?,
        version: count(one, "version"),
        sequence: count(one, "sequence"),
        tokens: tokens.transpose()?,
        payload: one.get_mut("payload").map(Value::take),
    })
}

pub(crate) fn read_count(answer: &Value) -> Result<u64, Error> {
    integer(answer, "count")
}

pub(crate) fn read_facets(answer: &Value) -> Result<Facets, Error> {
    let pair = |one: &Value| Some((one["value"].as_str()?.into(), one["count"].as_u64()?));
    Ok(Facets {
        values: elements(answer, "values", pair)?,
        num_values: integer(answer, "num_values")?,
        num_documents: integer(answer, "num_documents")?,
    })
}

pub(crate) fn read_explanation(answer: &Value) -> Result<Explanation, Error> {
    let row = |one: &Value| one.as_array()?.iter().map(Value::as_f64).collect();
    Ok(Explanation {
        id: id(&answer["id"])?,
        collection: text(answer, "model"),
        generation: count(answer, "generation"),
        score: float(answer, "score")?,
        similarities: elements(answer, "similarities", row)?,
        query_tokens: texts(answer, "query_tokens")?,
        document_tokens: texts(answer, "document_tokens")?,
        query_truncated: flag(answer, "query_truncated"),
    })
}

pub(crate) fn read_info(mut answer: Value) -> Result<ServerInfo, Error> {
    let encoder = answer.get("encoder").filter(|one| one.is_object()).map(|found| EncoderInfo {
        model: text(found, "model"),
        fingerprint: text(found, "fingerprint"),
        dim: count(found, "dim"),
    });
    let collections = list(&mut answer, "collections")?.iter_mut().map(read_collection);
    Ok(ServerInfo { encoder, collections: collections.collect::<Result<_, _>>()? })
}

fn read_collection(found: &mut Value) -> Result<CollectionInfo, Error> {
    let state = found["state"].as_str().ok_or_else(|| wrong("state"))?;
    Ok(CollectionInfo {
        name: text(found, "name"),
        state: match state {
            "LOADING" => CollectionState::Loading,
            "READY" => CollectionState::Ready,
            "FAILED" => CollectionState::Failed,
            "PARTIAL" => CollectionState::Partial,
            other => CollectionState::Other(other.into()),
        },
        error: found["error"].as_str().map(String::from),
        generation: count(found, "generation"),
        dim: count(found, "dim"),
        storage: text(found, "storage"),
        id_type: text(found, "id_type"),
        num_documents: count(found, "num_documents"),
        num_tokens: count(found, "num_tokens"),
        is_live: found["live"].is_object(),
        members: found.as_object_mut().map(std::mem::take).unwrap_or_else(Map::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// Returns numbers of all magnitudes, the same in every run (a xorshift generator).
    fn patterns() -> impl Iterator<Item = u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
        .take(20_000)
    }

    #[test]
    fn fp32_scores_keep_their_bits_with_the_fewest_digits_and_with_nine() {
        let numbers = patterns().map(|bits| f32::from_bits(bits as u32)).filter(|one| one.is_finite());
        let edges = [0.0, -0.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), 16_777_217.0, 0.1];
        for number in numbers.chain(edges) {
            for written in [format!("{number:?}"), format!("{number:.8e}")] {
                let found = f32_of(&parsed(&written)).unwrap();
                assert_eq!(found.to_bits(), number.to_bits(), "{written}");
            }
        }
    }

    #[test]
    fn fp64_numbers_of_explanations_keep_their_bits() {
        for number in patterns().map(f64::from_bits).filter(|one| one.is_finite()) {
            let answer = format!(r#"{{"id": 1, "score": {number:?}, "similarities": [[{number:.16e}]]}}"#);
            let found = read_explanation(&parsed(&answer)).unwrap();
            assert_eq!(found.score.to_bits(), number.to_bits(), "{answer}");
            assert_eq!(found.similarities[0][0].to_bits(), number.to_bits(), "{answer}");
        }
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        let answer = parsed(
            r#"{"documents": [{"id": -9223372036854775808, "num_tokens": 1, "version": 18446744073709551615,
                "payload": {"n": 9007199254740993}}], "missing": [9223372036854775807], "sequence": 9007199254740993}"#,
        );
        let (found, has_more) = read_stored(answer).unwrap();
        assert_eq!(found.documents[0].id, Id::Int(i64::MIN));
        assert_eq!(found.documents[0].version, u64::MAX);
        assert_eq!(found.documents[0].payload, Some(json!({"n": 9_007_199_254_740_993u64})));
        assert_eq!(found.missing, [Id::Int(i64::MAX)]);
        assert_eq!(found.sequence, (1 << 53) + 1);
        assert!(!has_more);
    }

    #[test]
    fn an_answer_without_a_member_names_it() {
        let message = |error: Error| {
            assert_eq!(error.code(), Code::Internal);
            error.message().to_string()
        };
        assert!(message(read_ranking(json!({}), false).unwrap_err()).contains("results"));
        let unscored = json!({"results": [{"index": 0}]});
        assert!(message(read_ranking(unscored, false).unwrap_err()).contains("relevance_score"));
        assert!(message(read_count(&json!({"count": -1})).unwrap_err()).contains("count"));
        let outcome = json!({"results": [{"outcome": "else"}], "sequence": 1});
        assert!(message(read_writes(&outcome, 1).unwrap_err()).contains("results"));
        let short = json!({"results": [{"outcome": "applied"}], "sequence": 1});
        assert!(message(read_writes(&short, 2).unwrap_err()).contains("results"));
        assert_eq!(read_writes(&short, 1).unwrap().results.len(), 1);
        assert!(message(read_stored(json!([])).unwrap_err()).contains("documents"));
        assert!(message(read_explanation(&json!({"id": 1.5})).unwrap_err()).contains("id"));
    }

    #[test]
    fn payloads_are_given_only_if_they_were_asked_for() {
        let answer = json!({"results": [{"index": 0, "relevance_score": 1, "document": {"a": 1}, "id": null}]});
        let first = |wanted| read_ranking(answer.clone(), wanted).unwrap().documents.remove(0);
        assert_eq!(first(true).payload, Some(json!({"a": 1})));
        assert_eq!(first(false).payload, None);
        assert_eq!(first(false).id, None);
    }
}
