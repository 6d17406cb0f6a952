package maxsim.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigInteger;
import java.util.List;
import java.util.Locale;
import maxsim.client.Explanation;
import maxsim.client.Id;
import maxsim.client.MaxsimException;
import maxsim.client.RankedDocument;
import maxsim.client.Ranking;
import maxsim.client.ServerInfo;
import maxsim.client.StoredDocument;
import maxsim.client.StoredDocuments;
import maxsim.client.WriteResults;

/** The results of the client's methods, in the form of the conformance suite. */
final class Results {
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  private Results() {}

  static ObjectNode of(MaxsimException error) {
    ObjectNode json = NODES.objectNode().put("code", error.code().name()).put("message", error.getMessage());
    error.field().ifPresent(value -> json.put("field", value));
    error.reason().ifPresent(value -> json.put("reason", value));
    error.limit().ifPresent(value -> json.put("limit", value));
    error.limitKey().ifPresent(value -> json.put("limit_key", value));
    error.retryAfter().ifPresent(value -> json.put("retry_after_ms", value.toMillis()));
    return json;
  }

  static ObjectNode of(Ranking ranking) {
    ObjectNode json = NODES.objectNode();
    ArrayNode documents = json.putArray("documents");
    ranking.documents().forEach(one -> documents.add(of(one)));
    json.set("missing", ids(ranking.missing()));
    json.put("sequence", ranking.sequence()).put("query_truncated", ranking.queryTruncated());
    ranking.queryTokens().forEach(json.putArray("query_tokens")::add);
    return json;
  }

  private static ObjectNode of(RankedDocument document) {
    ObjectNode json = NODES.objectNode().put("score", document.score()).put("position", document.position());
    if (document.id() != null) json.set("id", id(document.id()));
    if (document.payload() != null) json.set("payload", document.payload());
    if (document.group() != null) json.put("group", document.group());
    if (document.alignment() != null) {
      document.alignment().documentTokens().forEach(json.putArray("matches")::add);
      document.alignment().similarities().forEach(json.putArray("similarities")::add);
    }
    return json.put("truncated", document.truncated());
  }

  static ObjectNode of(WriteResults written) {
    ObjectNode json = NODES.objectNode().put("sequence", written.sequence());
    ArrayNode results = json.putArray("results");
    for (WriteResults.Result one : written.results()) {
      ObjectNode result = results.addObject().put("outcome", one.outcome().name().toLowerCase(Locale.ROOT));
      result.put("sequence", one.sequence()).put("truncated", one.truncated());
    }
    return json;
  }

  static ObjectNode of(StoredDocuments stored) {
    ObjectNode json = NODES.objectNode();
    ArrayNode documents = json.putArray("documents");
    stored.documents().forEach(one -> documents.add(of(one)));
    json.set("missing", ids(stored.missing()));
    return json;
  }

  static ObjectNode of(StoredDocument document) {
    ObjectNode json = NODES.objectNode().put("num_tokens", document.numTokens());
    json.set("id", id(document.id()));
    json.put("version", new BigInteger(Long.toUnsignedString(document.version()))).put("sequence", document.sequence());
    if (document.payload() != null) json.set("payload", document.payload());
    if (document.tokens() != null) {
      ArrayNode rows = json.putArray("tokens");
      for (float[] row : document.tokens().toArray()) {
        ArrayNode values = rows.addArray();
        for (float value : row) values.add(value);
      }
    }
    return json;
  }

  static ObjectNode of(Explanation explanation) {
    ObjectNode json = NODES.objectNode().put("score", explanation.score());
    ArrayNode rows = json.putArray("similarities");
    explanation.similarities().forEach(row -> row.forEach(rows.addArray()::add));
    explanation.queryTokens().forEach(json.putArray("query_tokens")::add);
    return json;
  }

  static ObjectNode of(ServerInfo info) {
    ObjectNode json = NODES.objectNode();
    ServerInfo.Encoder encoder = info.encoder();
    if (encoder != null) {
      ObjectNode entry = json.putObject("encoder").put("model", encoder.model());
      entry.put("fingerprint", encoder.fingerprint()).put("dim", encoder.dim());
    }
    ArrayNode collections = json.putArray("collections");
    for (ServerInfo.Collection one : info.collections()) {
      ObjectNode entry = collections.addObject().put("name", one.name()).put("dim", one.dim());
      entry.put("state", one.state().name().toLowerCase(Locale.ROOT)).put("storage", one.storage());
      entry.put("id_type", one.idType()).put("num_documents", one.numDocuments());
      entry.put("num_tokens", one.numTokens()).put("generation", one.generation()).put("live", one.live() != null);
      ArrayNode fields = entry.putArray("fields");
      one.fields().forEach(field -> fields.addObject().put("name", field.name()).put("kind", field.kind()));
    }
    return json;
  }

  private static JsonNode id(Id id) {
    return id instanceof Id.Number number ? NODES.numberNode(number.value()) : NODES.textNode(id.toString());
  }

  private static ArrayNode ids(List<Id> ids) {
    ArrayNode json = NODES.arrayNode();
    ids.forEach(one -> json.add(id(one)));
    return json;
  }
}
