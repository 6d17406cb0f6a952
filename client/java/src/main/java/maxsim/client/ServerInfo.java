package maxsim.client;

import com.fasterxml.jackson.annotation.JsonEnumDefaultValue;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * The encoder and the collections of a server.
 *
 * @param encoder null if the server has none
 * @param collections those that the token may search
 */
public record ServerInfo(Encoder encoder, List<Collection> collections) {
  /** Takes null for an empty list. */
  public ServerInfo {
    collections = Json.listOf(collections);
  }

  /**
   * A model that turns texts into vectors.
   *
   * @param model its name
   * @param fingerprint differs between models that have the same name
   * @param dim number of values in a vector
   */
  public record Encoder(String model, String fingerprint, @JsonProperty("dim") int dim) {}

  /** Whether a collection can be searched. */
  public enum State {
    /** It is being loaded. */
    LOADING,
    /** It can be searched. */
    READY,
    /** It could not be loaded: see {@link Collection#error}. */
    FAILED,
    /** Some of its documents cannot be searched. */
    PARTIAL,
    /** A state that this client does not know. */
    @JsonEnumDefaultValue
    UNKNOWN
  }

  /**
   * A collection.
   *
   * @param name its name
   * @param state whether it can be searched
   * @param error why it could not be loaded, or null
   * @param generation grows each time the server loads the collection again
   * @param dim number of values in a vector
   * @param storage type of the stored values, such as {@code f16}
   * @param idType {@code string} or {@code int64}
   * @param numDocuments number of documents
   * @param numTokens number of vectors
   * @param residentBytes memory that it takes on the server
   * @param residency where its vectors are, such as {@code gpu}
   * @param codePlanes planes of its codes (bits per value); 0 if it has no codes
   * @param fields fields for filters
   * @param unavailableDocuments documents of a lost device
   * @param encoder the encoder that made it, or null
   * @param live null unless the collection is live
   */
  public record Collection(
      String name,
      State state,
      String error,
      long generation,
      int dim,
      String storage,
      @JsonProperty("id_type") String idType,
      @JsonProperty("num_documents") long numDocuments,
      @JsonProperty("num_tokens") long numTokens,
      @JsonProperty("resident_bytes") long residentBytes,
      String residency,
      @JsonProperty("code_planes") int codePlanes,
      List<Field> fields,
      @JsonProperty("unavailable_documents") long unavailableDocuments,
      Encoder encoder,
      Live live) {
    /** Takes null for an empty list. */
    public Collection {
      fields = Json.listOf(fields);
    }
  }

  /**
   * A field of payloads that filters can use.
   *
   * @param name its name in filters
   * @param kind {@code keyword}, {@code keywords}, {@code integer}, {@code number}, {@code boolean} or {@code time}
   * @param path its place in payloads; empty if that is its name
   */
  public record Field(String name, String kind, @JsonProperty("path") String path) {}

  /**
   * The state of a live collection.
   *
   * @param sequence the last write
   * @param compactedSequence the last write that the shards include
   * @param numChangedDocuments documents that were written since
   * @param numDeletedDocuments documents that were deleted since
   * @param numSegments segments that hold the written documents
   * @param segmentBytes memory of the segments
   * @param segmentUsedBytes the part of it that is used
   * @param logBytes size of the log
   * @param isCompacting a compaction runs
   * @param log {@code local} or {@code nats}
   * @param lag writes of the stream that this server has not applied yet
   * @param error why nothing can be written now, or null
   */
  public record Live(
      long sequence,
      @JsonProperty("compacted_sequence") long compactedSequence,
      @JsonProperty("num_changed_documents") long numChangedDocuments,
      @JsonProperty("num_deleted_documents") long numDeletedDocuments,
      @JsonProperty("num_segments") long numSegments,
      @JsonProperty("segment_bytes") long segmentBytes,
      @JsonProperty("segment_used_bytes") long segmentUsedBytes,
      @JsonProperty("log_bytes") long logBytes,
      @JsonProperty("is_compacting") boolean isCompacting,
      String log,
      long lag,
      String error) {}
}
