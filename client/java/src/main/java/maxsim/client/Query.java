package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.util.Objects;

/** A query: token vectors, or a text, for which the server needs an encoder. Immutable. */
public final class Query {
  private final JsonNode json;
  private final float[] weights; // null if there are none

  private Query(JsonNode json, float[] weights) {
    this.json = json;
    this.weights = weights;
  }

  /** Returns a query in words, which the server's encoder turns into vectors. */
  public static Query of(String text) {
    return new Query(TextNode.valueOf(Objects.requireNonNull(text, "text")), null);
  }

  /** Returns a query of token vectors. */
  public static Query of(Vectors tokens) {
    return new Query(tokens.toJson(), null);
  }

  /**
   * Returns a query of token vectors, one row per token, and copies them. Throws IllegalArgumentException if there is
   * no row, or if the rows are empty or differ in length.
   */
  public static Query of(float[][] tokens) {
    try {
      return of(Vectors.of(tokens));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("query: " + e.getMessage(), e);
    }
  }

  /** Returns this query with one factor per token. Throws IllegalArgumentException if one is not a finite number. */
  public Query withWeights(float... weights) {
    for (int i = 0; i < weights.length; i++) {
      if (!Float.isFinite(weights[i])) {
        throw new IllegalArgumentException("weights[" + i + "] is " + weights[i] + "; must be a finite number");
      }
    }
    return new Query(json, weights.clone());
  }

  JsonNode toJson() {
    return json;
  }

  /** Returns the weights, or null if there are none. */
  JsonNode weights() {
    if (weights == null) return null;
    ArrayNode list = Json.array();
    for (float one : weights) list.add(one);
    return list;
  }
}
