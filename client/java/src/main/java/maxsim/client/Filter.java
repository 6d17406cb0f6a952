package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.time.Instant;
import java.util.Collection;
import java.util.Objects;

/**
 * A condition on the fields of documents. Immutable. Values are a String, a Boolean, a number or, for a field of kind
 * {@code time}, an {@link Instant}.
 *
 * <pre>{@code
 * Filter filter = Filter.equalTo("lang", "en").and(Filter.atLeast("year", 2020)).and(Filter.exists("hidden").not());
 * }</pre>
 */
public final class Filter {
  private final JsonNode json;

  private Filter(JsonNode json) {
    this.json = json;
  }

  /**
   * Returns a filter in the server's language, such as {@code lang = "en" and year >= 2020}. For values that come from
   * users take the other methods, because a text is not escaped.
   */
  public static Filter of(String text) {
    return new Filter(TextNode.valueOf(Objects.requireNonNull(text, "text")));
  }

  /** Returns a filter in its JSON form (docs/reference/filters.md): a Map, or a JsonNode. */
  public static Filter json(Object filter) {
    return new Filter(Json.tree(filter, "filter"));
  }

  /** Matches documents whose field has this value, or whose list of keywords has it. */
  public static Filter equalTo(String field, Object value) {
    return compare(field, "equals", value);
  }

  /** Matches documents whose field has one of these values. */
  public static Filter in(String field, Collection<?> values) {
    ArrayNode list = Json.array();
    for (Object one : values) list.add(valueOf(one));
    return comparison(field, "in", list);
  }

  /** Matches documents that have a value. */
  public static Filter exists(String field) {
    return compare(field, "exists", true);
  }

  /** Matches documents whose value is larger. */
  public static Filter greaterThan(String field, Object value) {
    return compare(field, "gt", value);
  }

  /** Matches documents whose value is this one or larger. */
  public static Filter atLeast(String field, Object value) {
    return compare(field, "gte", value);
  }

  /** Matches documents whose value is smaller. */
  public static Filter lessThan(String field, Object value) {
    return compare(field, "lt", value);
  }

  /** Matches documents whose value is this one or smaller. */
  public static Filter atMost(String field, Object value) {
    return compare(field, "lte", value);
  }

  /** Matches documents that match this filter and another. Throws IllegalArgumentException if one of them is a text. */
  public Filter and(Filter other) {
    return join("and", other);
  }

  /** Matches documents that match this filter or another. Throws IllegalArgumentException if one of them is a text. */
  public Filter or(Filter other) {
    return join("or", other);
  }

  /** Matches documents that do not match this filter. Throws IllegalArgumentException if it is a text. */
  public Filter not() {
    return new Filter(Json.object().set("not", operand()));
  }

  @Override
  public String toString() {
    return json.isTextual() ? json.textValue() : json.toString();
  }

  JsonNode toJson() {
    return json;
  }

  private static Filter compare(String field, String how, Object value) {
    return comparison(field, how, valueOf(value));
  }

  private static Filter comparison(String field, String how, JsonNode value) {
    return new Filter(Json.object().put("field", field).set(how, value));
  }

  private static JsonNode valueOf(Object value) {
    return Json.tree(value instanceof Instant ? value.toString() : value, "filter");
  }

  private Filter join(String how, Filter other) {
    ObjectNode both = Json.object();
    both.putArray(how).add(operand()).add(other.operand());
    return new Filter(both);
  }

  private JsonNode operand() {
    if (!json.isTextual()) return json;
    throw new IllegalArgumentException(
        "the filter is the text " + json.textValue() + "; a text cannot be combined: write the whole filter as a text");
  }
}
