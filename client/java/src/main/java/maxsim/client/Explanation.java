package maxsim.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Shows which tokens the score of one document comes from. Numbers are FP64; the FP32 score of a ranking differs from
 * {@code score} by at most 1e-5 of its magnitude.
 *
 * @param id the document
 * @param collection its collection
 * @param generation the collection's generation
 * @param score weighted sum of the largest similarity of each row
 * @param similarities inner products before the weights: a row per query token, a column per document token
 * @param queryTokens texts of the query's tokens; empty if they are not known
 * @param documentTokens texts of the document's tokens; empty if they are not known
 * @param queryTruncated the encoder cut the end of the query's text
 */
public record Explanation(
    Id id,
    @JsonProperty("model") String collection,
    long generation,
    double score,
    List<List<Double>> similarities,
    @JsonProperty("query_tokens") List<String> queryTokens,
    @JsonProperty("document_tokens") List<String> documentTokens,
    @JsonProperty("query_truncated") boolean queryTruncated) {
  /** Takes null for a list that is empty. */
  public Explanation {
    similarities = Json.listOf(similarities).stream().map(List::copyOf).toList();
    queryTokens = Json.listOf(queryTokens);
    documentTokens = Json.listOf(documentTokens);
  }
}
