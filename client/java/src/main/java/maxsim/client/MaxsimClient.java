package maxsim.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import maxsim.client.MaxsimException.Code;

/**
 * Calls a maxsimd server over HTTP. Thread-safe: create one and share it, because it keeps connections open.
 *
 * <pre>{@code
 * try (MaxsimClient client = MaxsimClient.create("http://localhost:7071")) {
 *   Ranking ranking = client.search("demo", Query.of("Why do volcanoes explode?"), RankOptions.DEFAULT.withTopK(3));
 *   for (RankedDocument one : ranking.documents()) System.out.println(one.id() + " " + one.score());
 * }
 * }</pre>
 *
 * <p>A method throws MaxsimException if the call failed, and IllegalArgumentException if the client finds a wrong
 * argument before it sends anything. If the thread is interrupted, the call ends with MaxsimException and the code
 * CANCELLED, and the thread stays interrupted. If a method makes several requests, the timeout applies to each of them
 * separately. No argument may be null unless its method says so.
 */
public final class MaxsimClient implements AutoCloseable {
  private static final int DEFAULT_CONCURRENCY = 8;
  private static final int DEFAULT_MAX_BODY_BYTES = 16 << 20; // the server's default of http.max_body_bytes

  private final Transport transport;
  private final Duration timeout;

  MaxsimClient(Transport transport, Duration timeout) {
    this.transport = transport;
    this.timeout = timeout;
  }

  /** Returns a client with the default options. {@code url} is that of the server's HTTP port. */
  public static MaxsimClient create(String url) {
    return builder(url).build();
  }

  /**
   * Returns the options of a client. {@code url} is that of the server's HTTP port, such as {@code
   * http://localhost:7071}; it may have a path, if a proxy needs one.
   */
  public static MaxsimClientBuilder builder(String url) {
    return new MaxsimClientBuilder(url);
  }

  /**
   * Returns a client with another timeout, for example for one call: {@code
   * client.withTimeout(Duration.ofMillis(200)).rerank(...)}. It shares everything else with this one, so that closing
   * one of them closes both. At most 365 days.
   */
  public MaxsimClient withTimeout(Duration timeout) {
    return new MaxsimClient(transport, MaxsimClientBuilder.checkTimeout(timeout));
  }

  /**
   * Ends the calls in flight with the code CANCELLED. Later calls fail in the same way. The JDK closes idle connections
   * by itself some time later.
   */
  @Override
  public void close() {
    transport.close();
  }

  /**
   * Ranks documents by their MaxSim score. {@code collection} may be null if the candidates come with the request, or
   * if the server has only one collection.
   */
  public Ranking rerank(String collection, Query query, Candidates candidates, RankOptions options) {
    return Transport.await(rerankAsync(collection, query, candidates, options));
  }

  /** As {@link #rerank}, without blocking. Cancelling the future ends the request. */
  public CompletableFuture<Ranking> rerankAsync(
      String collection, Query query, Candidates candidates, RankOptions options) {
    return send("POST", "/v1/rerank", options.body(collection, query, candidates), Ranking.class);
  }

  /** Searches the whole collection, with a text or with token vectors. */
  public Ranking search(String collection, Query query, RankOptions options) {
    return rerank(collection, query, Candidates.all(), options);
  }

  /** Returns the ten best documents of a collection for a text, for which the server needs an encoder. */
  public Ranking search(String collection, String text) {
    return search(collection, Query.of(text), RankOptions.DEFAULT);
  }

  /**
   * Ranks documents for several queries. Makes one request per query, eight at a time. If one fails, cancels the
   * others and throws its error, whose {@link MaxsimException#queryIndex} is the index of the query.
   *
   * @param collection as for {@link #rerank}
   * @param candidates one for all queries, or one per query
   * @return the rankings in the order of the queries
   */
  public List<Ranking> rerankMany(
      String collection, List<Query> queries, List<Candidates> candidates, RankOptions options) {
    return Transport.await(rerankManyAsync(collection, queries, candidates, options, DEFAULT_CONCURRENCY));
  }

  /** As {@link #rerankMany}, without blocking, and with {@code concurrency} requests in flight at a time. */
  public CompletableFuture<List<Ranking>> rerankManyAsync(
      String collection, List<Query> queries, List<Candidates> candidates, RankOptions options, int concurrency) {
    if (queries.isEmpty()) throw new IllegalArgumentException("queries is empty; must have at least one query");
    if (candidates.size() != 1 && candidates.size() != queries.size()) {
      throw new IllegalArgumentException(
          "candidates has " + candidates.size() + " elements; must have 1 or one per query, " + queries.size());
    }
    if (concurrency < 1) throw new IllegalArgumentException("concurrency is " + concurrency + "; must be 1 or more");
    return RankManyCall.start(
        queries.size(),
        concurrency,
        i -> rerankAsync(collection, queries.get(i), candidates.get(candidates.size() == 1 ? 0 : i), options));
  }

  /**
   * Adds documents to a live collection. Returns when they are on the server's disk and every later request sees them.
   * More than 10,000 documents or 16 MiB are sent in several requests, one after another, and documents are taken from
   * {@code documents} only when their request is made. If a request fails, or IllegalArgumentException reports a wrong
   * document, the documents of the earlier requests have been written.
   */
  public WriteResults upsert(String collection, Iterable<NewDocument> documents) {
    return upsert(collection, documents, DEFAULT_MAX_BODY_BYTES);
  }

  /**
   * As {@link #upsert(String, Iterable)}, with at most {@code maxBodyBytes} bytes per request instead of 16 MiB. Give
   * the server's {@code http.max_body_bytes}; at least 1.
   */
  public WriteResults upsert(String collection, Iterable<NewDocument> documents, int maxBodyBytes) {
    return documents(collection).upsert(documents, maxBodyBytes);
  }

  /** Deletes documents of a live collection by their ids. */
  public WriteResults delete(String collection, List<? extends Id> ids) {
    return delete(collection, ids, 0);
  }

  /**
   * Deletes documents of a live collection by their ids, except those whose stored version is newer than {@code
   * version}; their outcome is STALE. {@code version} is not negative; 0 deletes whatever the stored version is.
   */
  public WriteResults delete(String collection, List<? extends Id> ids, long version) {
    return documents(collection).delete(ids, version);
  }

  /**
   * Deletes all documents of a live collection that match a filter. Makes several requests if more documents match than
   * the server deletes in one. If a request fails, {@link MaxsimException#numDeleted} is the number of documents that
   * were deleted before.
   */
  public DeleteSummary deleteMatching(String collection, Filter filter) {
    return deleteMatching(collection, filter, 0, 0);
  }

  /**
   * As {@link #deleteMatching(String, Filter)}, with two conditions.
   *
   * @param version keeps documents whose stored version is newer; not negative; 0 deletes all
   * @param minSequence a write of the live collection that the filter must see; 0 for none
   */
  public DeleteSummary deleteMatching(String collection, Filter filter, long version, long minSequence) {
    return documents(collection).deleteMatching(filter, version, minSequence);
  }

  /** Reads documents as they are stored, of any collection. {@code ids} may have any length above 0. */
  public StoredDocuments get(String collection, List<? extends Id> ids, GetOptions options) {
    return documents(collection).get(ids, options);
  }

  /** As {@link #get(String, List, GetOptions)}, without vectors. */
  public StoredDocuments get(String collection, List<? extends Id> ids) {
    return get(collection, ids, GetOptions.DEFAULT);
  }

  /**
   * Lists the documents of a collection, or those that match a filter, in the order of their ids. The stream reads
   * pages as it needs them, and throws the error of a page.
   */
  public Stream<StoredDocument> scroll(String collection, ScrollOptions options) {
    return documents(collection).scroll(options);
  }

  /** Returns how many documents a collection has. */
  public long count(String collection) {
    return count(collection, null, 0);
  }

  /**
   * Returns how many documents match a filter, which may be null for all of them. {@code minSequence} is a write of a
   * live collection that the answer must include, or 0.
   */
  public long count(String collection, Filter filter, long minSequence) {
    ObjectNode body = countBody(collection, filter, minSequence);
    return Transport.await(send("POST", "/v1/count", body, Count.class)).count();
  }

  /** Returns the ten most frequent values of a keyword field. */
  public Facets facets(String collection, String field) {
    return facets(collection, field, 10, null, 0);
  }

  /**
   * Returns the {@code limit} most frequent values of a keyword field, among the documents that match a filter. {@code
   * filter} and {@code minSequence} are those of {@link #count(String, Filter, long)}.
   */
  public Facets facets(String collection, String field, int limit, Filter filter, long minSequence) {
    ObjectNode body = countBody(collection, filter, minSequence).put("field", field).put("limit", limit);
    return Transport.await(send("POST", "/v1/facets", body, Facets.class));
  }

  /**
   * Returns the similarity of every token of a query with every token of one document. {@code collection} may be null
   * if the server has only one.
   */
  public Explanation explain(String collection, Query query, Id id) {
    ObjectNode body = Json.object();
    if (collection != null) body.put("model", collection);
    body.set("query", query.toJson());
    body.set("id", Json.id(id));
    if (query.weights() != null) body.set("query_weights", query.weights());
    return Transport.await(send("POST", "/v1/explain", body, Explanation.class));
  }

  /** Returns the server's encoder and the collections that the token may search. */
  public ServerInfo info() {
    return Transport.await(send("GET", "/v1/collections", null, ServerInfo.class));
  }

  /** Asks once whether the server takes requests. Throws only if there is no answer, or an unexpected one. */
  public Health health() {
    HttpResponse<byte[]> answer = Transport.await(transport.once("GET", "/readyz", timeout));
    String text = new String(answer.body(), StandardCharsets.UTF_8).strip();
    if (answer.statusCode() == 200 || answer.statusCode() == 503) return new Health(answer.statusCode() == 200, text);
    throw new MaxsimException(Code.UNKNOWN, "/readyz answered with HTTP status " + answer.statusCode(), null);
  }

  private <T> CompletableFuture<T> send(String method, String path, JsonNode body, Class<T> type) {
    byte[] bytes = body == null ? null : Json.write(body);
    return transport.call(method, path, bytes, timeout, Json.reader(type), error -> {});
  }

  private DocumentCalls documents(String collection) {
    return new DocumentCalls(transport, timeout, collection);
  }

  private static ObjectNode countBody(String collection, Filter filter, long minSequence) {
    ObjectNode body = Json.object().put("collection", collection);
    if (filter != null) body.set("filter", filter.toJson());
    Json.putMinSequence(body, minSequence);
    return body;
  }

  private record Count(@JsonProperty("count") long count) {}
}
