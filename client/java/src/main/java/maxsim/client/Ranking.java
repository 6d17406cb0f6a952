package maxsim.client;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * The answer to one query.
 *
 * @param documents the best first
 * @param missing ids that the collection does not have
 * @param unavailableDocuments candidates that were left out because a device or a group of servers is lost
 * @param unavailableGroups groups of servers that did not answer
 * @param collection the collection that answered; null if the documents were scored without one
 * @param generation its generation; 0 if the documents were scored without a collection
 * @param requestId {@link RankOptions#withRequestId}, or one that the server made
 * @param sequence the last write that the answer includes; 0 unless the collection is live and was written to
 * @param queryTokens texts of the query's tokens; empty unless the query is a text and alignments were asked for
 * @param queryTruncated the encoder cut the end of the query's text
 * @param refinement how a scan of codes chose the documents that were scored; null if there was no such scan
 * @param timings times on the server
 */
public record Ranking(
    @JsonProperty("results") List<RankedDocument> documents,
    List<Id> missing,
    @JsonProperty("unavailable_documents") long unavailableDocuments,
    @JsonProperty("unavailable_groups") List<String> unavailableGroups,
    @JsonProperty("model") String collection,
    long generation,
    @JsonProperty("id") String requestId,
    long sequence,
    @JsonProperty("query_tokens") List<String> queryTokens,
    @JsonProperty("query_truncated") boolean queryTruncated,
    Refinement refinement,
    Timings timings) {
  /** Takes null for a list that is empty. */
  public Ranking {
    documents = Json.listOf(documents);
    missing = Json.listOf(missing);
    unavailableGroups = Json.listOf(unavailableGroups);
    queryTokens = Json.listOf(queryTokens);
  }

  /** Whether it is proven that the best documents are among those that were scored exactly. */
  public enum Certificate {
    /** It is proven. */
    PROVEN,
    /** It is likely, but not proven. */
    NOT_PROVEN,
    /** A value that this client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN
  }

  /**
   * How a scan of codes chose the documents that were scored (docs/use/search.md).
   *
   * @param planes planes of codes (bits per value) that were scanned
   * @param documents documents that the scan chose
   * @param certificate whether the answer is proven
   * @param margin distance between the last score of the answer and {@code outsideScore}
   * @param outsideScore the largest score of a document that was not scored exactly; null if there is none
   * @param outsideIsBound {@code outsideScore} is an upper bound, not an estimate
   */
  public record Refinement(
      int planes,
      long documents,
      Certificate certificate,
      float margin,
      @JsonProperty("outside_score") Float outsideScore,
      @JsonProperty("outside_is_bound") boolean outsideIsBound) {}

  /**
   * Times on the server, in microseconds.
   *
   * @param encodeUs encoding texts
   * @param queueUs waiting for a batch
   * @param copyUs copying to and from the device
   * @param kernelUs scoring
   * @param totalUs all of the request
   */
  public record Timings(
      @JsonProperty("encode_us") double encodeUs,
      @JsonProperty("queue_us") double queueUs,
      @JsonProperty("copy_us") double copyUs,
      @JsonProperty("kernel_us") double kernelUs,
      @JsonProperty("total_us") double totalUs) {}
}
