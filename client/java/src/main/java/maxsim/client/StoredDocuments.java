package maxsim.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * Documents as they are stored.
 *
 * @param documents in the order of the ids that were asked for
 * @param missing ids that the collection does not have
 * @param generation the collection's generation
 * @param sequence the last write that the answer includes; 0 unless the collection is live and was written to
 */
public record StoredDocuments(List<StoredDocument> documents, List<Id> missing, long generation, long sequence) {
  /** Takes null for a list that is empty. */
  public StoredDocuments {
    documents = Json.listOf(documents);
    missing = Json.listOf(missing);
  }

  /** A page of {@code scroll}. */
  record Page(List<StoredDocument> documents, @JsonProperty("has_more") boolean hasMore) {
    Page {
      documents = Json.listOf(documents);
    }
  }
}
