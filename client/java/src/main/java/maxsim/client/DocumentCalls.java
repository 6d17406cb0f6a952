package maxsim.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import maxsim.client.MaxsimException.Code;

/** The calls of one client about the documents of one collection. Thread-safe. */
final class DocumentCalls {
  private static final int MAX_IDS_PER_GET = 1000;
  private static final Pattern DOCUMENT_INDEX = Pattern.compile("documents\\[(\\d{1,9})\\](.*)", Pattern.DOTALL);

  private final Transport transport;
  private final Duration timeout;
  private final String path;

  DocumentCalls(Transport transport, Duration timeout, String collection) {
    if (collection.isEmpty()) {
      throw new IllegalArgumentException("collection is \"\"; must be the name of a collection");
    }
    this.transport = transport;
    this.timeout = timeout;
    String name = URLEncoder.encode(collection, StandardCharsets.UTF_8).replace("+", "%20");
    path = "/v1/collections/" + name + "/documents";
  }

  WriteResults upsert(Iterable<NewDocument> documents, int maxBodyBytes) {
    if (maxBodyBytes < 1) throw new IllegalArgumentException("maxBodyBytes is " + maxBodyBytes + "; must be 1 or more");
    UpsertBatches batches = new UpsertBatches(documents, maxBodyBytes);
    if (!batches.hasNext()) throw new IllegalArgumentException("documents is empty; must have at least one document");
    List<WriteResults.Result> results = new ArrayList<>();
    long sequence = 0;
    while (batches.hasNext()) {
      UpsertBatches.Batch batch = batches.next();
      try {
        Transport.Reader<WriteResults> reader = Json.reader(WriteResults.class);
        WriteResults written = Transport.await(transport.call("PUT", path, batch.body(), timeout, reader, e -> {}));
        results.addAll(written.results());
        sequence = written.sequence();
      } catch (MaxsimException e) {
        throw inBatch(e, batch.first());
      }
    }
    return new WriteResults(results, sequence);
  }

  /** Replaces the index of a document within its request, in the error's field, by its index in the whole upsert. */
  private static MaxsimException inBatch(MaxsimException error, int first) {
    Matcher found = DOCUMENT_INDEX.matcher(error.field().orElse(""));
    if (first == 0 || !found.matches()) return error;
    String field = "documents[" + (Integer.parseInt(found.group(1)) + first) + "]" + found.group(2);
    return error.with(error.details().withField(field));
  }

  WriteResults delete(List<? extends Id> ids, long version) {
    ObjectNode body = Json.object();
    body.set("ids", idsOf(ids));
    Json.putUnlessZero(body, "version", version, "version");
    return ask("DELETE", path, body, WriteResults.class);
  }

  DeleteSummary deleteMatching(Filter filter, long version, long minSequence) {
    ObjectNode body = Json.object();
    body.set("filter", filter.toJson());
    Json.putUnlessZero(body, "version", version, "version");
    Json.putMinSequence(body, minSequence);
    DeleteSummary sum = new DeleteSummary(0, 0, 0, 0);
    // When a router's call fails, some groups of servers may have deleted documents. Only the error counts these: a
    // later attempt does not find them any more.
    AtomicLong numLost = new AtomicLong();
    try {
      while (true) {
        Transport.Reader<Deleted> reader = Json.reader(Deleted.class);
        Deleted answer =
            Transport.await(
                transport.call(
                    "DELETE",
                    path,
                    Json.write(body),
                    timeout,
                    reader,
                    error -> numLost.addAndGet(error.numDeleted().orElse(0))));
        sum = sum.plus(answer.summary());
        if (!answer.hasMore()) return sum.plus(new DeleteSummary(numLost.get(), 0, 0, sum.sequence()));
        if (answer.isEmpty()) {
          throw new MaxsimException(
              Code.INTERNAL, "the server deleted nothing, and says that more documents match", null);
        }
        // Otherwise a replica that lags could find documents again that the previous request has deleted.
        Json.putMinSequence(body, sum.sequence());
      }
    } catch (MaxsimException error) {
      long numDeleted = sum.numDeleted() + numLost.get();
      throw numDeleted == 0 ? error : error.with(error.details().partlyDeleted(numDeleted));
    }
  }

  StoredDocuments get(List<? extends Id> ids, GetOptions options) {
    ArrayNode all = idsOf(ids);
    List<StoredDocument> documents = new ArrayList<>();
    List<Id> missing = new ArrayList<>();
    StoredDocuments last = null;
    for (int first = 0; first < all.size(); first += MAX_IDS_PER_GET) {
      ObjectNode body = Json.object();
      ArrayNode some = body.putArray("ids");
      for (int i = first; i < Math.min(all.size(), first + MAX_IDS_PER_GET); i++) some.add(all.get(i));
      if (options.returnTokens()) body.put("return_tokens", true);
      Json.putMinSequence(body, options.minSequence());
      last = ask("POST", path + "/get", body, StoredDocuments.class);
      documents.addAll(last.documents());
      missing.addAll(last.missing());
    }
    return new StoredDocuments(documents, missing, last.generation(), last.sequence());
  }

  Stream<StoredDocument> scroll(ScrollOptions options) {
    ObjectNode body = Json.object();
    if (options.filter() != null) body.set("filter", options.filter().toJson());
    if (options.after() != null) body.set("after", Json.id(options.after()));
    body.put("limit", options.pageSize()).put("return_payloads", options.payloads());
    if (options.returnTokens()) body.put("return_tokens", true);
    Json.putMinSequence(body, options.minSequence());
    int traits = Spliterator.ORDERED | Spliterator.NONNULL | Spliterator.IMMUTABLE;
    return StreamSupport.stream(Spliterators.spliteratorUnknownSize(new Scroll(body), traits), false);
  }

  /** Reads page after page. {@code body} is that of the next request. */
  private final class Scroll implements Iterator<StoredDocument> {
    private final ObjectNode body;
    private Iterator<StoredDocument> page = List.<StoredDocument>of().iterator();
    private boolean hasMore = true;

    Scroll(ObjectNode body) {
      this.body = body;
    }

    @Override
    public boolean hasNext() {
      if (page.hasNext() || !hasMore) return page.hasNext();
      StoredDocuments.Page read = ask("POST", path + "/scroll", body, StoredDocuments.Page.class);
      page = read.documents().iterator();
      hasMore = read.hasMore() && page.hasNext();
      if (hasMore) body.set("after", Json.id(read.documents().get(read.documents().size() - 1).id()));
      return page.hasNext();
    }

    @Override
    public StoredDocument next() {
      if (!hasNext()) throw new NoSuchElementException();
      return page.next();
    }
  }

  private <T> T ask(String method, String path, JsonNode body, Class<T> type) {
    return Transport.await(transport.call(method, path, Json.write(body), timeout, Json.reader(type), error -> {}));
  }

  private static ArrayNode idsOf(List<? extends Id> ids) {
    if (ids.isEmpty()) throw new IllegalArgumentException("ids is empty; must have at least one id");
    return Json.ids(ids);
  }

  /** The answer to one request of a delete with a filter. */
  private record Deleted(
      @JsonProperty("num_deleted") long numDeleted,
      @JsonProperty("num_missing") long numMissing,
      @JsonProperty("num_stale") long numStale,
      @JsonProperty("sequence") long sequence,
      @JsonProperty("has_more") boolean hasMore) {
    DeleteSummary summary() {
      return new DeleteSummary(numDeleted, numMissing, numStale, sequence);
    }

    boolean isEmpty() {
      return numDeleted + numMissing + numStale == 0;
    }
  }
}
