package maxsim.client;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * The answer to a write.
 *
 * @param results one per document or id, in the order of the request
 * @param sequence the last write, for {@code minSequence} of calls that must see it
 */
public record WriteResults(List<Result> results, long sequence) {
  /** Takes null for an empty list. */
  public WriteResults {
    results = Json.listOf(results);
  }

  /** How the write of a document ended. */
  public enum Outcome {
    /** It was written, or deleted. */
    APPLIED,
    /** A newer version is stored, so nothing was done. */
    STALE,
    /** There was no such document to delete. */
    NOT_FOUND,
    /** A value that this client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN
  }

  /**
   * The write of one document.
   *
   * @param outcome how it ended
   * @param sequence the write's sequence; 0 if nothing was written
   * @param truncated the encoder cut the end of the text
   */
  public record Result(Outcome outcome, long sequence, @JsonProperty("truncated") boolean truncated) {}
}
