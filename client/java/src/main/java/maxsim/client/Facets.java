package maxsim.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * The most frequent values of a field.
 *
 * @param values the most frequent first
 * @param numValues number of different values
 * @param numDocuments number of documents that match the filter, with or without a value
 */
public record Facets(
    List<Value> values,
    @JsonProperty("num_values") long numValues,
    @JsonProperty("num_documents") long numDocuments) {
  /** Takes null for an empty list. */
  public Facets {
    values = Json.listOf(values);
  }

  /**
   * One value of the field.
   *
   * @param value the value
   * @param count number of documents that have it
   */
  public record Value(String value, @JsonProperty("count") long count) {}
}
