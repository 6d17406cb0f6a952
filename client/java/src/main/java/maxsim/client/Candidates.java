package maxsim.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.util.Collection;

/** The documents that a query ranks: some of the collection, all of it, or documents of the request. Immutable. */
public final class Candidates {
  private static final Candidates ALL = new Candidates(TextNode.valueOf("*"));

  private final JsonNode json;

  private Candidates(JsonNode json) {
    this.json = json;
  }

  /** Returns the whole collection. */
  public static Candidates all() {
    return ALL;
  }

  /** Returns documents of the collection. */
  public static Candidates ids(Collection<? extends Id> ids) {
    return new Candidates(Json.ids(ids));
  }

  /** Returns documents of a collection whose ids are texts. */
  public static Candidates ids(String... ids) {
    ArrayNode list = Json.array();
    for (String id : ids) list.add(Id.of(id).toString());
    return new Candidates(list);
  }

  /** Returns documents of a collection whose ids are integers. */
  public static Candidates ids(long... ids) {
    ArrayNode list = Json.array();
    for (long id : ids) list.add(id);
    return new Candidates(list);
  }

  /**
   * Returns documents that come with the request as token vectors. Throws IllegalArgumentException if there is none.
   */
  public static Candidates documents(Collection<Vectors> documents) {
    ArrayNode list = Json.array();
    for (Vectors one : documents) list.addObject().set("tokens", one.toJson());
    return new Candidates(checkDocuments(list));
  }

  /**
   * Returns documents that come with the request as texts, which the server's encoder turns into vectors. Throws
   * IllegalArgumentException if there is none.
   */
  public static Candidates texts(Collection<String> texts) {
    ArrayNode list = Json.array();
    for (String one : texts) list.addObject().put("text", one);
    return new Candidates(checkDocuments(list));
  }

  private static ArrayNode checkDocuments(ArrayNode documents) {
    if (documents.isEmpty()) throw new IllegalArgumentException("documents is empty; must have at least one document");
    return documents;
  }

  JsonNode toJson() {
    return json;
  }
}
