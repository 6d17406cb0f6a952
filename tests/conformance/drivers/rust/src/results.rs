//! Makes the results of a driver from those of the client.

use maxsim::serde_json::{json, Map, Value};
use maxsim::{
    CollectionInfo, CollectionState, DeleteSummary, Error, Explanation, Facets, Id, Outcome, RankedDocument, Ranking,
    ServerInfo, StoredDocument, StoredDocuments, WriteResult, WriteResults,
};

/// Returns an object without the members that are null.
fn present(object: Value) -> Value {
    match object {
        Value::Object(members) => {
            Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn of_id(id: &Id) -> Value {
    match id {
        Id::Int(number) => json!(number),
        Id::Text(text) => json!(text),
    }
}

fn of_ids(ids: &[Id]) -> Value {
    ids.iter().map(of_id).collect()
}

pub fn of_ranking(ranking: &Ranking) -> Value {
    json!({
        "documents": ranking.documents.iter().map(of_ranked).collect::<Vec<_>>(),
        "missing": of_ids(&ranking.missing),
        "sequence": ranking.sequence,
        "query_tokens": ranking.query_tokens,
        "query_truncated": ranking.query_truncated,
    })
}

fn of_ranked(document: &RankedDocument) -> Value {
    let list = |numbers: Value, is_empty: bool| if is_empty { Value::Null } else { numbers };
    present(json!({
        "id": document.id.as_ref().map(of_id),
        "position": document.position,
        "score": document.score,
        "payload": document.payload,
        "group": document.group,
        "matches": list(json!(document.matches), document.matches.is_empty()),
        "similarities": list(json!(document.similarities), document.similarities.is_empty()),
        "truncated": document.truncated,
    }))
}

pub fn of_writes(writes: &WriteResults) -> Value {
    let one = |result: &WriteResult| {
        let outcome = match result.outcome {
            Outcome::Applied => "applied",
            Outcome::Stale => "stale",
            Outcome::NotFound => "not_found",
            _ => "unknown",
        };
        present(json!({ "outcome": outcome, "sequence": result.sequence, "truncated": result.truncated }))
    };
    json!({ "results": writes.results.iter().map(one).collect::<Vec<_>>(), "sequence": writes.sequence })
}

pub fn of_deleted(summary: &DeleteSummary) -> Value {
    json!({
        "num_deleted": summary.num_deleted,
        "num_missing": summary.num_missing,
        "num_stale": summary.num_stale,
        "sequence": summary.sequence,
    })
}

pub fn of_stored(stored: &StoredDocuments) -> Value {
    json!({
        "documents": stored.documents.iter().map(of_document).collect::<Vec<_>>(),
        "missing": of_ids(&stored.missing),
    })
}

pub fn of_document(document: &StoredDocument) -> Value {
    let rows = document.tokens.as_ref().map(|tokens| tokens.rows().map(|row| json!(row)).collect::<Vec<_>>());
    present(json!({
        "id": of_id(&document.id),
        "num_tokens": document.num_tokens,
        "version": document.version,
        "sequence": document.sequence,
        "payload": document.payload,
        "tokens": rows,
    }))
}

pub fn of_facets(facets: &Facets) -> Value {
    json!({ "values": facets.values, "num_values": facets.num_values, "num_documents": facets.num_documents })
}

pub fn of_explanation(explanation: &Explanation) -> Value {
    json!({
        "score": explanation.score,
        "similarities": explanation.similarities,
        "query_tokens": explanation.query_tokens,
    })
}

pub fn of_info(info: &ServerInfo) -> Value {
    let encoder = info
        .encoder
        .as_ref()
        .map(|encoder| json!({ "model": encoder.model, "fingerprint": encoder.fingerprint, "dim": encoder.dim }));
    let collections: Vec<Value> = info.collections.iter().map(of_collection).collect();
    present(json!({ "encoder": encoder, "collections": collections }))
}

fn of_collection(collection: &CollectionInfo) -> Value {
    let state = match &collection.state {
        CollectionState::Loading => "loading",
        CollectionState::Ready => "ready",
        CollectionState::Failed => "failed",
        CollectionState::Partial => "partial",
        _ => "unknown",
    };
    let mut members = collection.members.clone();
    // The members that have a field of their own come from there.
    let fields = json!({
        "name": collection.name,
        "state": state,
        "dim": collection.dim,
        "storage": collection.storage,
        "id_type": collection.id_type,
        "num_documents": collection.num_documents,
        "num_tokens": collection.num_tokens,
        "generation": collection.generation,
        "live": collection.is_live,
    });
    members.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(members)
}

pub fn of_error(error: &Error) -> Value {
    if error.is_local() {
        return json!({ "code": error.code().as_str(), "local": true, "message": error.message() });
    }
    present(json!({
        "code": error.code().as_str(),
        "message": error.message(),
        "field": error.field(),
        "reason": error.reason(),
        "limit": error.limit(),
        "limit_key": error.limit_key(),
        "retry_after_ms": error.retry_after().map(|delay| delay.as_millis() as u64),
    }))
}
