package maxsim.client;

/**
 * The answer to a delete with a filter.
 *
 * @param numDeleted documents that were deleted
 * @param numMissing documents that were deleted by another write meanwhile
 * @param numStale documents that have a newer version
 * @param sequence the last write, for {@code minSequence} of calls that must see it
 */
public record DeleteSummary(long numDeleted, long numMissing, long numStale, long sequence) {
  DeleteSummary plus(DeleteSummary later) {
    return new DeleteSummary(
        numDeleted + later.numDeleted,
        numMissing + later.numMissing,
        numStale + later.numStale,
        Math.max(sequence, later.sequence));
  }
}
