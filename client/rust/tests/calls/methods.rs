//! Methods that make several requests, with a server of the test's own. The conformance suite tests what one request asks
//! and answers.

use maxsim::serde_json::{json, Value};
use maxsim::{Candidates, Client, Code, DeleteOptions, Document, GetOptions, Id, Query, RankOptions, ScrollOptions};

use crate::server::{Reply, Request, Server};

fn client(server: &Server) -> Client {
    Client::new(&server.url).unwrap()
}

fn refused(field: &str) -> Reply {
    let error = json!({"code": "INVALID_ARGUMENT", "message": "wrong", "field": field});
    Reply::Answer(400, "", json!({ "error": error }).to_string())
}

/// Answers with one document per id.
fn stored(ids: Vec<Value>, has_more: bool) -> Reply {
    let documents: Vec<Value> = ids.into_iter().map(|id| json!({"id": id, "num_tokens": 1})).collect();
    Reply::ok(json!({"documents": documents, "has_more": has_more, "generation": 2, "sequence": 3}))
}

#[test]
fn rerank_many_returns_rankings_in_the_order_of_the_queries() {
    let server = Server::start(|request, _| {
        let score: f64 = request.body["query"].as_str().unwrap().parse().unwrap();
        Reply::ok(json!({"results": [{"index": 0, "relevance_score": score}], "id": request.body["documents"][0]}))
    });
    let queries: Vec<Query> = (0..20).map(|i| i.to_string().into()).collect();
    let candidates: Vec<Candidates> = (0..20).map(|i| Candidates::ids([format!("d{i}")])).collect();
    let rankings = client(&server).rerank_many("docs", &queries, &candidates, &RankOptions::new()).unwrap();
    let scores: Vec<f32> = rankings.iter().map(|ranking| ranking.documents[0].score).collect();
    assert_eq!(scores, (0..20).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!(rankings[19].request_id, "d19");
}

#[test]
fn an_error_of_rerank_many_has_the_index_of_its_query() {
    let answer = |request: &Request, _| match request.body["query"].as_str() {
        Some("bad") => refused("query"),
        _ => Reply::ok(json!({"results": []})),
    };
    let server = Server::start(answer);
    let queries = ["good", "bad", "good"].map(Query::from);
    let options = RankOptions::new().concurrency(1);
    let all = [Candidates::WholeCollection];
    let error = client(&server).rerank_many("docs", &queries, &all, &options).unwrap_err();
    assert_eq!((error.query_index(), error.field()), (Some(1), Some("query")));
    assert_eq!(server.requests().len(), 2);

    let local = [Query::from("good"), Query::new(Vec::<Vec<f32>>::new())];
    let error = client(&server).rerank_many("docs", &local, &all, &options).unwrap_err();
    assert!(error.is_local() && error.message().starts_with("queries[1]: query has no vectors"), "{error}");
}

#[test]
fn wrong_arguments_of_rerank_many_are_refused() {
    let server = Server::start(|_, _| Reply::Hang);
    let refuse = |queries: &[Query], num_candidates, options: &RankOptions| {
        let candidates = vec![Candidates::WholeCollection; num_candidates];
        let error = client(&server).rerank_many("docs", queries, &candidates, options).unwrap_err();
        assert!(error.is_local());
        error.message().to_string()
    };
    let three = ["a", "b", "c"].map(Query::from);
    assert_eq!(refuse(&[], 1, &RankOptions::new()), "queries is empty; must have at least one query");
    let message = "candidates has 2 elements; must have 1, or one per query: 3";
    assert_eq!(refuse(&three, 2, &RankOptions::new()), message);
    assert_eq!(refuse(&three, 1, &RankOptions::new().concurrency(0)), "concurrency is 0; must be 1 or more");
}

#[test]
fn a_large_upsert_is_sent_in_parts_and_errors_have_the_index_in_the_whole_call() {
    let server = Server::start(|request, i| {
        if i == 2 {
            return refused("documents[1].tokens");
        }
        let results: Vec<Value> =
            request.body["documents"].as_array().unwrap().iter().map(|_| json!({"outcome": "applied"})).collect();
        Reply::ok(json!({"results": results, "sequence": i + 1}))
    });
    let documents = |num: i64| (0..num).map(|i| Document::new(i % 10, "text"));
    let body = r#"{"documents":[{"id":0,"text":"text"},{"id":1,"text":"text"}]}"#.len();
    let client = Client::builder(&server.url).max_body_bytes(body).build().unwrap();
    let written = client.upsert("docs", documents(3)).unwrap();
    assert_eq!((written.results.len(), written.sequence), (3, 2));
    let error = client.upsert("docs", documents(2)).unwrap_err();
    assert_eq!(error.field(), Some("documents[1].tokens"));

    let server = Server::start(|_, i| match i {
        0 => Reply::ok(json!({"results": [{"outcome": "applied"}, {"outcome": "stale"}], "sequence": 1})),
        _ => refused("documents[0]"),
    });
    let client = Client::builder(&server.url).max_body_bytes(body).build().unwrap();
    let error = client.upsert("docs", documents(3)).unwrap_err();
    assert_eq!(error.field(), Some("documents[2]"));
}

#[test]
fn more_than_a_thousand_ids_are_read_in_parts() {
    let server = Server::start(|request, _| stored(request.body["ids"].as_array().unwrap().clone(), false));
    let found = client(&server).get("docs", 0..2001i64, &GetOptions::new()).unwrap();
    assert_eq!(found.documents.len(), 2001);
    assert_eq!(found.documents[2000].id, Id::Int(2000));
    assert_eq!((found.generation, found.sequence), (2, 3));
    let lengths: Vec<usize> = server.requests().iter().map(|one| one.body["ids"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [1000, 1000, 1]);
    let error = client(&server).get("docs", Vec::<Id>::new(), &GetOptions::new()).unwrap_err();
    assert_eq!(error.message(), "ids is empty; must have at least one id");
}

#[test]
fn scroll_reads_pages_as_it_needs_them() {
    let server = Server::start(|request, _| match request.body["after"].as_str() {
        None => stored(vec![json!("a"), json!("b")], true),
        Some("b") => stored(vec![json!("c")], false),
        other => panic!("after {other:?}"),
    });
    let client = client(&server);
    let mut scroll = client.scroll("docs", &ScrollOptions::new().page_size(2));
    assert_eq!(server.requests().len(), 0);
    assert_eq!(scroll.next().unwrap().unwrap().id, "a".into());
    assert_eq!(server.requests().len(), 1);
    let rest: Vec<String> = scroll.map(|one| one.unwrap().id.to_string()).collect();
    assert_eq!(rest, ["b", "c"]);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(server.requests()[1].body, json!({"after": "b", "limit": 2, "return_payloads": true}));
}

#[test]
fn scroll_ends_after_an_error_and_after_a_page_without_documents() {
    let server = Server::start(|_, i| if i == 0 { stored(vec![json!(1)], true) } else { refused("after") });
    let mut scroll = client(&server).scroll("docs", &ScrollOptions::new());
    assert!(scroll.next().unwrap().is_ok());
    assert_eq!(scroll.next().unwrap().unwrap_err().code(), Code::InvalidArgument);
    assert!(scroll.next().is_none());
    assert_eq!(server.requests().len(), 2);

    let server = Server::start(|_, _| stored(vec![], true));
    assert_eq!(client(&server).scroll("docs", &ScrollOptions::new()).count(), 0);
    let mut unnamed = client(&server).scroll("", &ScrollOptions::new());
    assert!(unnamed.next().unwrap().unwrap_err().is_local());
    assert!(unnamed.next().is_none());
}

#[test]
fn delete_matching_is_repeated_until_nothing_matches() {
    let server = Server::start(|_, i| {
        let stale = u64::from(i == 1);
        Reply::ok(json!({"num_deleted": 5, "num_stale": stale, "sequence": 10 + i, "has_more": i < 2}))
    });
    let sum = client(&server).delete_matching("docs", "old", &DeleteOptions::new().version(3)).unwrap();
    assert_eq!((sum.num_deleted, sum.num_stale, sum.num_missing, sum.sequence), (15, 1, 0, 12));
    let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies[0], json!({"filter": "old", "version": 3}));
    assert_eq!(bodies[2], json!({"filter": "old", "version": 3, "min_sequence": 11}));
}

#[test]
fn an_error_of_delete_matching_has_the_number_of_deleted_documents() {
    let server = Server::start(|_, i| match i {
        0 => Reply::ok(json!({"num_deleted": 5, "sequence": 10, "has_more": true})),
        1 => Reply::Answer(503, "", json!({"error": {"code": "UNAVAILABLE", "num_deleted": 1}}).to_string()),
        _ => Reply::Answer(500, "", json!({"error": {"code": "INTERNAL", "num_deleted": 2}}).to_string()),
    });
    let error = client(&server).delete_matching("docs", "old", &DeleteOptions::new()).unwrap_err();
    assert_eq!((error.code(), error.reason(), error.num_deleted()), (Code::Internal, Some("PARTLY_DELETED"), Some(8)));

    let endless = Server::start(|_, _| Reply::ok(json!({"num_deleted": 0, "sequence": 10, "has_more": true})));
    let error = client(&endless).delete_matching("docs", "old", &DeleteOptions::new()).unwrap_err();
    assert_eq!((error.code(), error.reason(), endless.requests().len()), (Code::Internal, None, 1));
}

#[test]
fn health_returns_the_servers_text_and_does_not_retry() {
    let server = Server::start(|_, i| match i {
        0 => Reply::ok("ok\n"),
        1 => Reply::Answer(503, "", "loading\n".into()),
        _ => Reply::Answer(404, "", "not found".into()),
    });
    let client = client(&server);
    let found = client.health().unwrap();
    assert_eq!((found.is_ready, found.message.as_str()), (true, "ok"));
    let found = client.health().unwrap();
    assert_eq!((found.is_ready, found.message.as_str()), (false, "loading"));
    assert_eq!(client.health().unwrap_err().code(), Code::Unknown);
    assert_eq!(server.requests().len(), 3);
}
