//! Calls the method of a case.

use maxsim::serde_json::{json, Value};
use maxsim::{Candidates, Client, CountOptions, DeleteOptions, FacetsOptions, GetOptions, ScrollOptions};

use crate::{arguments, results, Failure};

/// Sets an option if the case has it.
macro_rules! set {
    ($options:ident, $name:ident, $value:expr) => {
        if let Some(value) = $value {
            $options = $options.$name(value);
        }
    };
}

pub fn run(client: &Client, method: &str, given: &Value) -> Result<Value, Failure> {
    let collection = given["collection"].as_str().unwrap_or_default();
    match method {
        "rerank" | "search" => {
            let query = arguments::query(&given["query"], &given["weights"]);
            let options = arguments::rank_options(given.as_object().expect("an object"))?;
            let candidates = arguments::candidates(&given["ids"], &given["documents"]);
            let ranking = match candidates {
                Candidates::WholeCollection if method == "search" => client.search(collection, query, &options)?,
                listed => client.rerank(collection, query, &listed, &options)?,
            };
            Ok(results::of_ranking(&ranking))
        }
        "rerank_many" => {
            let (queries, candidates) = arguments::queries(given);
            let options = arguments::rank_options(given.as_object().expect("an object"))?;
            let rankings = client.rerank_many(collection, &queries, &candidates, &options)?;
            Ok(json!({ "rankings": rankings.iter().map(results::of_ranking).collect::<Vec<_>>() }))
        }
        "upsert" => {
            let documents = arguments::documents(&given["documents"])?;
            Ok(results::of_writes(&client.upsert(collection, documents)?))
        }
        "delete" => delete(client, collection, given),
        "get" => {
            let mut options = GetOptions::new();
            set!(options, return_tokens, arguments::flag(&given["return_tokens"]));
            set!(options, min_sequence, given["min_sequence"].as_u64());
            Ok(results::of_stored(&client.get(collection, arguments::ids(&given["ids"]), &options)?))
        }
        "scroll" => scroll(client, collection, given),
        "count" => {
            let mut options = CountOptions::new();
            set!(options, filter, arguments::filter(&given["filter"]));
            set!(options, min_sequence, given["min_sequence"].as_u64());
            Ok(json!({ "count": client.count(collection, &options)? }))
        }
        "facets" => {
            let mut options = FacetsOptions::new();
            set!(options, filter, arguments::filter(&given["filter"]));
            set!(options, limit, given["limit"].as_u64());
            set!(options, min_sequence, given["min_sequence"].as_u64());
            let field = given["field"].as_str().unwrap_or_default();
            Ok(results::of_facets(&client.facets(collection, field, &options)?))
        }
        "explain" => {
            let query = arguments::query(&given["query"], &given["weights"]);
            Ok(results::of_explanation(&client.explain(collection, query, arguments::id(&given["id"]))?))
        }
        "info" => Ok(results::of_info(&client.info()?)),
        "health" => Ok(json!({ "status": if client.health()?.is_ready { "SERVING" } else { "NOT_SERVING" } })),
        other => Err(Failure::Unsupported(format!("this driver has no {}", other))),
    }
}

fn delete(client: &Client, collection: &str, given: &Value) -> Result<Value, Failure> {
    let mut options = DeleteOptions::new();
    set!(options, version, given["version"].as_u64());
    set!(options, min_sequence, given["min_sequence"].as_u64());
    match arguments::filter(&given["filter"]) {
        Some(filter) => Ok(results::of_deleted(&client.delete_matching(collection, filter, &options)?)),
        None => Ok(results::of_writes(&client.delete(collection, arguments::ids(&given["ids"]), &options)?)),
    }
}

fn scroll(client: &Client, collection: &str, given: &Value) -> Result<Value, Failure> {
    let mut options = ScrollOptions::new();
    set!(options, filter, arguments::filter(&given["filter"]));
    set!(options, page_size, given["page_size"].as_u64());
    set!(options, payloads, arguments::flag(&given["payloads"]));
    set!(options, return_tokens, arguments::flag(&given["return_tokens"]));
    set!(options, min_sequence, given["min_sequence"].as_u64());
    if !given["after"].is_null() {
        options = options.after(arguments::id(&given["after"]));
    }
    let documents: Vec<_> = client.scroll(collection, &options).collect::<Result<_, _>>()?;
    Ok(json!({ "documents": documents.iter().map(results::of_document).collect::<Vec<_>>() }))
}
