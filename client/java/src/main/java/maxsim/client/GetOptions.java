package maxsim.client;

/**
 * Options of {@link MaxsimClient#get}.
 *
 * @param returnTokens fills {@link StoredDocument#tokens}
 * @param minSequence the answer must include the write of a live collection with this sequence; 0 for none
 */
public record GetOptions(boolean returnTokens, long minSequence) {
  /** Without vectors. */
  public static final GetOptions DEFAULT = new GetOptions(false, 0);

  /** Returns these options with {@code returnTokens}. */
  public GetOptions withReturnTokens(boolean returnTokens) {
    return new GetOptions(returnTokens, minSequence);
  }

  /** Returns these options with {@code minSequence}. */
  public GetOptions withMinSequence(long minSequence) {
    return new GetOptions(returnTokens, minSequence);
  }
}
