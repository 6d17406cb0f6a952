package maxsim.client;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.function.Consumer;

/**
 * Options of a ranking (docs/use/search.md). Immutable: each method returns a copy that differs in one option.
 *
 * <pre>{@code
 * RankOptions options = RankOptions.DEFAULT.withTopK(3).withPayloads(true).withFilter(Filter.equalTo("lang", "en"));
 * }</pre>
 */
public final class RankOptions {
  /** Ten results, without payloads. */
  public static final RankOptions DEFAULT = new RankOptions(Json.object().put("top_n", 10));

  private final ObjectNode members; // of the body of the request; never changed

  private RankOptions(ObjectNode members) {
    this.members = members;
  }

  /** Sets the number of results, or of groups if {@link #withGroupBy} is set. Default 10. */
  public RankOptions withTopK(int topK) {
    return changed(json -> json.put("top_n", topK));
  }

  /** Skips this many of the best documents or groups, to get the next page of results. */
  public RankOptions withOffset(int offset) {
    return changed(json -> json.put("offset", offset));
  }

  /** Leaves out documents with a lower score. Throws IllegalArgumentException if {@code minScore} is not finite. */
  public RankOptions withMinScore(float minScore) {
    if (!Float.isFinite(minScore)) {
      throw new IllegalArgumentException("minScore is " + minScore + "; must be a finite number");
    }
    return changed(json -> json.put("min_score", minScore));
  }

  /** Scores only documents that match. */
  public RankOptions withFilter(Filter filter) {
    return changed(json -> json.set("filter", filter.toJson()));
  }

  /** Returns the best documents of each value of a keyword field: at most {@code groupSize} of each. */
  public RankOptions withGroupBy(String field, int groupSize) {
    return changed(json -> json.put("group_by", field).put("group_size", groupSize));
  }

  /** Returns the best document of each value of a keyword field. */
  public RankOptions withGroupBy(String field) {
    return changed(json -> json.put("group_by", field).remove("group_size"));
  }

  /** Fills {@link RankedDocument#payload}. */
  public RankOptions withPayloads(boolean payloads) {
    return changed(json -> json.put("return_documents", payloads));
  }

  /** Fills {@link RankedDocument#payload} with these members only. */
  public RankOptions withPayloadFields(List<String> names) {
    return changed(
        json -> {
          ArrayNode list = json.put("return_documents", true).putArray("payload_fields");
          names.forEach(list::add);
        });
  }

  /** Fills {@link RankedDocument#alignment}. */
  public RankOptions withAlignments(boolean alignments) {
    return changed(json -> json.put("return_alignments", alignments));
  }

  /** Divides scores by the number of query tokens. */
  public RankOptions withNormalize(boolean normalize) {
    return changed(json -> json.put("normalize", normalize));
  }

  /** Sets how a collection with codes is scanned. */
  public RankOptions withRefinement(Refinement refinement) {
    return changed(json -> json.set("refinement", refinement.toJson()));
  }

  /** Sets {@link Ranking#requestId}. Default: one that the server makes. */
  public RankOptions withRequestId(String requestId) {
    return changed(json -> json.put("request_id", requestId));
  }

  /** The answer must include the write of a live collection with this sequence; 0 for none. */
  public RankOptions withMinSequence(long minSequence) {
    return changed(json -> Json.putMinSequence(json, minSequence));
  }

  @Override
  public String toString() {
    return "RankOptions" + members;
  }

  /** Returns the body of a request that asks with these options. {@code collection} may be null. */
  ObjectNode body(String collection, Query query, Candidates candidates) {
    ObjectNode body = members.deepCopy();
    if (collection != null) body.put("model", collection);
    body.set("query", query.toJson());
    if (query.weights() != null) body.set("query_weights", query.weights());
    body.set("documents", candidates.toJson());
    return body;
  }

  private RankOptions changed(Consumer<ObjectNode> change) {
    ObjectNode copy = members.deepCopy();
    change.accept(copy);
    return new RankOptions(copy);
  }

  /**
   * How a collection with codes is scanned (docs/use/search.md).
   *
   * @param documents documents to score exactly; 0 for the server's choice
   * @param budget with {@code requireProof}, the most documents to score exactly; 0 for the server's choice
   * @param requireProof scores more documents, up to {@code budget}, until it is proven that the best are among them
   */
  public record Refinement(int documents, int budget, boolean requireProof) {
    ObjectNode toJson() {
      return Json.object().put("documents", documents).put("budget", budget).put("require_proof", requireProof);
    }
  }
}
