package maxsim.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BigIntegerNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import maxsim.client.Candidates;
import maxsim.client.Filter;
import maxsim.client.GetOptions;
import maxsim.client.Id;
import maxsim.client.NewDocument;
import maxsim.client.Query;
import maxsim.client.RankOptions;
import maxsim.client.ScrollOptions;
import maxsim.client.Vectors;

/** The arguments of one call, as the client's types. */
final class Arguments {
  private final JsonNode given;

  Arguments(JsonNode given) {
    this.given = given;
  }

  boolean has(String name) {
    return given.hasNonNull(name);
  }

  String text(String name) {
    return given.path(name).textValue();
  }

  long integer(String name, long absent) {
    return has(name) ? withIntegers(given.get(name)).longValue() : absent;
  }

  Id id(String name) {
    return idOf(given.get(name));
  }

  String collection() {
    return text("collection");
  }

  Query query() {
    return queryOf(given.get("query"), given.get("weights"));
  }

  List<Query> queries() {
    List<Query> queries = new ArrayList<>();
    JsonNode weights = given.path("weights");
    boolean isPerQuery = depthOf(weights) >= 1 && !weights.path(0).isNumber();
    for (JsonNode one : given.get("queries")) {
      queries.add(queryOf(one, isPerQuery ? weights.get(queries.size()) : weights));
    }
    return queries;
  }

  boolean hasCandidates() {
    return has("ids") || has("documents");
  }

  Candidates candidates() {
    return candidatesOf(given.path("ids"), given.path("documents"));
  }

  /** Returns one for all queries, or one per query. */
  List<Candidates> candidatesOfMany() {
    JsonNode ids = given.path("ids");
    JsonNode documents = given.path("documents");
    if (depthOf(ids) < 2 && depthOf(documents) < 4) return List.of(candidates());
    List<Candidates> each = new ArrayList<>();
    for (int i = 0; i < given.get("queries").size(); i++) each.add(candidatesOf(ids.path(i), documents.path(i)));
    return each;
  }

  List<Id> ids() {
    return listOf(given.get("ids"), Arguments::idOf);
  }

  List<NewDocument> newDocuments() {
    List<NewDocument> documents = new ArrayList<>();
    for (JsonNode one : given.get("documents")) {
      int i = documents.size();
      Vectors tokens = one.has("tokens") ? vectorsOf(one.get("tokens"), i) : null;
      JsonNode version = withIntegers(one.path("version"));
      JsonNode payload = withIntegers(one.get("payload"));
      try {
        String text = one.path("text").textValue();
        long bits = version.bigIntegerValue().longValue(); // unsigned
        documents.add(new NewDocument(idOf(one.get("id")), tokens, text, payload, bits));
      } catch (IllegalArgumentException e) {
        throw new IllegalArgumentException("documents[" + i + "]: " + e.getMessage(), e);
      }
    }
    return documents;
  }

  Filter filter() {
    return has("filter") ? filterOf(given.get("filter")) : null;
  }

  RankOptions rankOptions() {
    RankOptions options = RankOptions.DEFAULT;
    if (has("top_k")) options = options.withTopK(given.get("top_k").intValue());
    if (has("offset")) options = options.withOffset(given.get("offset").intValue());
    if (has("min_score")) options = options.withMinScore(given.get("min_score").floatValue());
    if (has("filter")) options = options.withFilter(filter());
    if (has("group_size")) options = options.withGroupBy(text("group_by"), given.get("group_size").intValue());
    else if (has("group_by")) options = options.withGroupBy(text("group_by"));
    if (has("payloads")) options = options.withPayloads(given.get("payloads").booleanValue());
    if (has("payload_fields")) {
      options = options.withPayloadFields(listOf(given.get("payload_fields"), JsonNode::textValue));
    }
    if (has("alignments")) options = options.withAlignments(given.get("alignments").booleanValue());
    if (has("normalize")) options = options.withNormalize(given.get("normalize").booleanValue());
    if (has("request_id")) options = options.withRequestId(text("request_id"));
    if (has("min_sequence")) options = options.withMinSequence(integer("min_sequence", 0));
    return options;
  }

  GetOptions getOptions() {
    return new GetOptions(given.path("return_tokens").booleanValue(), integer("min_sequence", 0));
  }

  ScrollOptions scrollOptions() {
    ScrollOptions options = ScrollOptions.DEFAULT.withFilter(filter()).withMinSequence(integer("min_sequence", 0));
    if (has("after")) options = options.withAfter(id("after"));
    if (has("page_size")) options = options.withPageSize(given.get("page_size").intValue());
    if (has("payloads")) options = options.withPayloads(given.get("payloads").booleanValue());
    return options.withReturnTokens(given.path("return_tokens").booleanValue());
  }

  private static Filter filterOf(JsonNode filter) {
    return filter.isTextual() ? Filter.of(filter.textValue()) : Filter.json(withIntegers(filter));
  }

  private static Query queryOf(JsonNode query, JsonNode weights) {
    Query made = query.isTextual() ? Query.of(query.textValue()) : Query.of(rowsOf(query));
    return weights == null || !weights.isArray() ? made : made.withWeights(floatsOf(weights));
  }

  private static Candidates candidatesOf(JsonNode ids, JsonNode documents) {
    if (ids.isArray()) return Candidates.ids(listOf(ids, Arguments::idOf));
    if (!documents.isArray()) return Candidates.all();
    if (documents.path(0).isTextual()) return Candidates.texts(listOf(documents, JsonNode::textValue));
    List<Vectors> vectors = new ArrayList<>();
    for (JsonNode one : documents) vectors.add(vectorsOf(one, vectors.size()));
    return Candidates.documents(vectors);
  }

  /** Returns the number of arrays around the first value. Null stands for an array. */
  private static int depthOf(JsonNode value) {
    if (!value.isArray() || value.isEmpty()) return value.isNull() ? 1 : 0;
    return 1 + depthOf(value.get(0));
  }

  /** Returns the vectors of document `i`. Errors get its place here, because the client does not know it. */
  private static Vectors vectorsOf(JsonNode rows, int i) {
    try {
      return Vectors.of(rowsOf(rows));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("documents[" + i + "]: " + e.getMessage(), e);
    }
  }

  private static float[][] rowsOf(JsonNode rows) {
    float[][] values = new float[rows.size()][];
    for (int i = 0; i < values.length; i++) values[i] = floatsOf(rows.get(i));
    return values;
  }

  private static float[] floatsOf(JsonNode numbers) {
    float[] values = new float[numbers.size()];
    for (int i = 0; i < values.length; i++) values[i] = numbers.get(i).floatValue();
    return values;
  }

  private static Id idOf(JsonNode id) {
    JsonNode value = withIntegers(id);
    return value.isTextual() ? Id.of(value.textValue()) : Id.of(value.longValue());
  }

  private static <T> List<T> listOf(JsonNode values, Function<JsonNode, T> read) {
    List<T> list = new ArrayList<>();
    values.forEach(one -> list.add(read.apply(one)));
    return list;
  }

  /** Replaces each {"int64": "123"} by the integer. */
  private static JsonNode withIntegers(JsonNode value) {
    if (value == null || !value.isContainerNode()) return value;
    if (value.size() == 1 && value.has("int64")) {
      return BigIntegerNode.valueOf(new BigInteger(value.get("int64").textValue()));
    }
    JsonNode copy = value.deepCopy();
    if (copy instanceof ObjectNode object) {
      object.fields().forEachRemaining(one -> one.setValue(withIntegers(one.getValue())));
    }
    if (copy instanceof ArrayNode array) {
      for (int i = 0; i < array.size(); i++) array.set(i, withIntegers(array.get(i)));
    }
    return copy;
  }
}
