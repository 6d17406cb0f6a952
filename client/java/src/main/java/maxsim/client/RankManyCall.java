package maxsim.client;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;

/**
 * The requests of one {@code rerankMany}: at most {@code concurrency} of them are in flight at a time. The first that
 * fails ends the others.
 */
final class RankManyCall {
  private final IntFunction<CompletableFuture<Ranking>> ask;
  private final Ranking[] rankings;
  private final AtomicInteger next = new AtomicInteger();
  private final AtomicInteger numLeft;
  private final Set<CompletableFuture<Ranking>> inFlight = ConcurrentHashMap.newKeySet();
  private final CompletableFuture<List<Ranking>> result = new CompletableFuture<>();

  private RankManyCall(int numQueries, IntFunction<CompletableFuture<Ranking>> ask) {
    this.ask = ask;
    this.rankings = new Ranking[numQueries];
    this.numLeft = new AtomicInteger(numQueries);
  }

  /** Begins. {@code ask} sends the request of the query with an index. */
  static CompletableFuture<List<Ranking>> start(
      int numQueries, int concurrency, IntFunction<CompletableFuture<Ranking>> ask) {
    RankManyCall call = new RankManyCall(numQueries, ask);
    call.result.whenComplete((rankings, failure) -> call.inFlight.forEach(one -> one.cancel(true)));
    for (int i = 0; i < Math.min(concurrency, numQueries); i++) call.askNext();
    return call.result;
  }

  private void askNext() {
    int i = next.getAndIncrement();
    if (i >= rankings.length || result.isDone()) return;
    CompletableFuture<Ranking> asked;
    try {
      asked = ask.apply(i);
    } catch (RuntimeException e) {
      result.completeExceptionally(new IllegalArgumentException("queries[" + i + "]: " + e.getMessage(), e));
      return;
    }
    inFlight.add(asked);
    // The result may have ended since, and not have found this request.
    if (result.isDone()) asked.cancel(true);
    asked.whenComplete((ranking, failure) -> end(i, asked, ranking, failure));
  }

  private void end(int i, CompletableFuture<Ranking> asked, Ranking ranking, Throwable failure) {
    inFlight.remove(asked);
    if (failure != null) {
      result.completeExceptionally(located(failure, i));
      return;
    }
    rankings[i] = ranking;
    // The decrement makes what other threads wrote to `rankings` visible to the thread that reads it.
    if (numLeft.decrementAndGet() == 0) result.complete(List.copyOf(Arrays.asList(rankings)));
    else askNext();
  }

  private static Throwable located(Throwable failure, int i) {
    return failure instanceof MaxsimException error ? error.with(error.details().withQueryIndex(i)) : failure;
  }
}
