package maxsim.client;

import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;

/**
 * A document as it is stored.
 *
 * @param id the document's id
 * @param numTokens number of its vectors
 * @param payload null if it has none, or if it was not asked for
 * @param version 0 if it has none; unsigned, see {@link Long#toUnsignedString(long)}
 * @param sequence the write that stored it; 0 if it is not of a live collection
 * @param tokens its vectors, or null if they were not asked for. An I8 collection
 *     stores them multiplied by a fixed orthogonal matrix, and quantised
 */
public record StoredDocument(
    Id id, int numTokens, JsonNode payload, long version, long sequence, Vectors tokens) {
  @JsonCreator
  static StoredDocument read(
      @JsonProperty("id") Id id,
      @JsonProperty("num_tokens") int numTokens,
      @JsonProperty("payload") JsonNode payload,
      @JsonProperty("version") long version,
      @JsonProperty("sequence") long sequence,
      @JsonProperty("tokens") JsonNode tokens,
      @JsonProperty("scale") Float scale)
      throws IOException {
    Vectors vectors = tokens == null ? null : Vectors.fromJson(tokens, scale == null ? 1f : scale);
    return new StoredDocument(id, numTokens, payload, version, sequence, vectors);
  }
}
