package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigInteger;
import java.util.Objects;

/**
 * A document to write. It replaces the document with the same id as a whole. Immutable, if its payload is not changed.
 *
 * @param id the document's id
 * @param tokens its token vectors, or null if it has a text
 * @param text its text, or null if it has token vectors
 * @param payload an object that Jackson writes as a JSON object, such as a Map or an ObjectNode; or null
 * @param version 0 for none. An older version never replaces a newer one. It is unsigned: a negative number stands for
 *     a version of 2^63 or more, as in {@link Long#toUnsignedString(long)}
 */
public record NewDocument(Id id, Vectors tokens, String text, Object payload, long version) {
  /** Throws IllegalArgumentException unless there are either tokens or a text. */
  public NewDocument {
    Objects.requireNonNull(id, "id");
    if ((tokens == null) == (text == null)) {
      String given = text == null ? "neither tokens nor text" : "both tokens and text";
      throw new IllegalArgumentException("the document " + id + " has " + given + "; must have one of them");
    }
  }

  /** Returns a document of token vectors. */
  public static NewDocument of(Id id, Vectors tokens) {
    return new NewDocument(id, tokens, null, null, 0);
  }

  /** Returns a document whose text the server's encoder turns into vectors. */
  public static NewDocument of(Id id, String text) {
    return new NewDocument(id, null, text, null, 0);
  }

  /** Returns this document with a payload. */
  public NewDocument withPayload(Object payload) {
    return new NewDocument(id, tokens, text, payload, version);
  }

  /**
   * Returns this document with a version. Throws IllegalArgumentException if it is negative, which is nearly always a
   * mistake; only the constructor takes versions of 2^63 or more.
   */
  public NewDocument withVersion(long version) {
    if (version < 0) throw new IllegalArgumentException("version is " + version + "; must be 0 or more");
    return new NewDocument(id, tokens, text, payload, version);
  }

  /** Returns the JSON of a request. Errors call the document {@code name}, such as {@code documents[3]}. */
  JsonNode toJson(String name) {
    ObjectNode json = Json.object();
    json.set("id", Json.id(id));
    if (tokens != null) json.set("tokens", tokens.toJson());
    if (text != null) json.put("text", text);
    if (payload != null) json.set("payload", Json.tree(payload, name + ".payload"));
    if (version != 0) json.put("version", new BigInteger(Long.toUnsignedString(version)));
    return json;
  }
}
