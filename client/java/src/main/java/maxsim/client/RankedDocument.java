package maxsim.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;

/**
 * One document of a ranking.
 *
 * @param id null for a document that came with the request
 * @param position index in the candidates of the request; for a whole collection, the document's place in it
 * @param score the MaxSim score, with the bits that the server computed
 * @param payload null if it was not asked for; empty if the document has none
 * @param group the value of the field {@link RankOptions#withGroupBy}, or null
 * @param alignment null if it was not asked for
 * @param truncated the encoder cut the end of the document's text
 */
public record RankedDocument(
    Id id,
    @JsonProperty("index") long position,
    @JsonProperty("relevance_score") float score,
    @JsonProperty("document") JsonNode payload,
    String group,
    Alignment alignment,
    boolean truncated) {
  /**
   * The matches of the tokens of the query: lists with one value per token.
   *
   * @param documentTokens indexes of the document's tokens
   * @param similarities the inner products with these, before the weights
   */
  public record Alignment(
      @JsonProperty("document_tokens") List<Integer> documentTokens, List<Float> similarities) {
    /** Takes null for a list that is empty. */
    public Alignment {
      documentTokens = Json.listOf(documentTokens);
      similarities = Json.listOf(similarities);
    }
  }
}
