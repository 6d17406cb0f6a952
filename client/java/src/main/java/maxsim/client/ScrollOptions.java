package maxsim.client;

/**
 * Options of {@link MaxsimClient#scroll}.
 *
 * @param filter leaves out documents that do not match; null for all
 * @param after leaves out all ids up to this one; null for none
 * @param pageSize documents per request, 1 to 1,000
 * @param payloads fills {@link StoredDocument#payload}
 * @param returnTokens fills {@link StoredDocument#tokens}
 * @param minSequence the answer must include the write of a live collection with this sequence; 0 for none
 */
public record ScrollOptions(
    Filter filter, Id after, int pageSize, boolean payloads, boolean returnTokens, long minSequence) {
  /** All documents with their payloads, in pages of 100. */
  public static final ScrollOptions DEFAULT = new ScrollOptions(null, null, 100, true, false, 0);

  /** Returns these options with {@code filter}. */
  public ScrollOptions withFilter(Filter filter) {
    return new ScrollOptions(filter, after, pageSize, payloads, returnTokens, minSequence);
  }

  /** Returns these options with {@code after}. */
  public ScrollOptions withAfter(Id after) {
    return new ScrollOptions(filter, after, pageSize, payloads, returnTokens, minSequence);
  }

  /** Returns these options with {@code pageSize}. */
  public ScrollOptions withPageSize(int pageSize) {
    return new ScrollOptions(filter, after, pageSize, payloads, returnTokens, minSequence);
  }

  /** Returns these options with {@code payloads}. */
  public ScrollOptions withPayloads(boolean payloads) {
    return new ScrollOptions(filter, after, pageSize, payloads, returnTokens, minSequence);
  }

  /** Returns these options with {@code returnTokens}. */
  public ScrollOptions withReturnTokens(boolean returnTokens) {
    return new ScrollOptions(filter, after, pageSize, payloads, returnTokens, minSequence);
  }

  /** Returns these options with {@code minSequence}. */
  public ScrollOptions withMinSequence(long minSequence) {
    return new ScrollOptions(filter, after, pageSize, payloads, returnTokens, minSequence);
  }
}
