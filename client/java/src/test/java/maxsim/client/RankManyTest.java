package maxsim.client;

import static maxsim.client.TestServer.RANKING;
import static maxsim.client.TestServer.ok;
import static maxsim.client.TestServer.refusal;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import maxsim.client.MaxsimException.Code;
import maxsim.client.TestServer.Answer;
import org.junit.Test;

/** Checks the requests of a {@code rerankMany}. */
public class RankManyTest {
  private static Ranking rankingOf(int query) {
    return new Ranking(null, null, 0, null, null, 0, "query " + query, 0, null, false, null, null);
  }

  @Test
  public void aRequestBeginsOnlyWhenFewerThanTheLimitAreInFlight() {
    List<CompletableFuture<Ranking>> asked = new ArrayList<>();
    CompletableFuture<List<Ranking>> result =
        RankManyCall.start(
            5,
            3,
            i -> {
              assertEquals(asked.size(), i);
              asked.add(new CompletableFuture<>());
              return asked.get(i);
            });
    assertEquals(3, asked.size());
    asked.get(1).complete(rankingOf(1));
    assertEquals(4, asked.size());
    asked.get(3).complete(rankingOf(3));
    assertEquals(5, asked.size());
    for (int i : List.of(0, 4)) asked.get(i).complete(rankingOf(i));
    assertFalse(result.isDone());
    asked.get(2).complete(rankingOf(2));
    assertEquals(IntStream.range(0, 5).mapToObj(RankManyTest::rankingOf).toList(), result.join());
  }

  @Test
  public void aFailureAndACancelledCallEndTheOtherRequests() {
    for (boolean isCancelled : List.of(false, true)) {
      List<CompletableFuture<Ranking>> asked = new ArrayList<>();
      CompletableFuture<List<Ranking>> result =
          RankManyCall.start(
              5,
              2,
              i -> {
                asked.add(new CompletableFuture<>());
                return asked.get(i);
              });
      if (isCancelled) result.cancel(true);
      else asked.get(0).completeExceptionally(new MaxsimException(Code.INTERNAL, "failed", null));
      assertTrue(result.isCompletedExceptionally());
      assertTrue(asked.get(1).isCancelled());
      assertEquals(2, asked.size());
    }
  }

  @Test
  public void theRankingsHaveTheOrderOfTheQueries() {
    try (TestServer server =
        new TestServer(
            request -> ok("{'results':[],'id':'" + request.json().path("query").textValue() + "'}"))) {
      List<Query> queries = IntStream.range(0, 40).mapToObj(i -> Query.of("query " + i)).toList();
      List<Ranking> rankings =
          server.client().rerankMany("demo", queries, List.of(Candidates.all()), RankOptions.DEFAULT);
      List<String> expected = IntStream.range(0, 40).mapToObj(i -> "query " + i).toList();
      assertEquals(expected, rankings.stream().map(Ranking::requestId).toList());
    }
  }

  @Test
  public void rerankManyTakesCandidatesPerQuery() {
    try (TestServer server = new TestServer(RANKING)) {
      List<Query> queries = List.of(Query.of("a"), Query.of("b"), Query.of("c"));
      Vectors one = Vectors.of(new float[][] {{1, 2}});
      List<Candidates> candidates =
          List.of(Candidates.ids(1, 2), Candidates.texts(List.of("x")), Candidates.documents(List.of(one)));
      server.client().rerankManyAsync("demo", queries, candidates, RankOptions.DEFAULT, 1).join();
      List<String> sent = server.requests.stream().map(request -> request.json().path("documents").toString()).toList();
      String vectors = "[{\"tokens\":{\"dtype\":\"f32\",\"shape\":[1,2],\"data\":\"AACAPwAAAEA=\"}}]";
      assertEquals(List.of("[1,2]", "[{\"text\":\"x\"}]", vectors), sent);
    }
  }

  @Test
  public void anErrorOfRerankManySaysWhichQueryFailedAndEndsTheCall() {
    Answer wrong = refusal(400, "INVALID_ARGUMENT", null);
    try (TestServer server = new TestServer(RANKING, wrong, RANKING)) {
      List<Query> queries = List.of(Query.of("a"), Query.of("b"), Query.of("c"));
      List<Candidates> all = List.of(Candidates.all());
      ExecutionException failure =
          assertThrows(
              ExecutionException.class,
              () -> server.client().rerankManyAsync("demo", queries, all, RankOptions.DEFAULT, 1).get());
      MaxsimException error = (MaxsimException) failure.getCause();
      assertEquals(Code.INVALID_ARGUMENT, error.code());
      assertEquals(OptionalInt.of(1), error.queryIndex());
      assertEquals(2, server.requests.size());
    }
  }

  @Test
  public void aQueryThatCannotBeSentEndsRerankManyAndIsNamed() {
    try (TestServer server = new TestServer(RANKING)) {
      List<Query> queries = Arrays.asList(Query.of("a"), null);
      List<Candidates> all = List.of(Candidates.all());
      ExecutionException failure =
          assertThrows(
              ExecutionException.class,
              () -> server.client().rerankManyAsync("demo", queries, all, RankOptions.DEFAULT, 1).get());
      assertTrue(failure.getCause().getMessage(), failure.getCause().getMessage().startsWith("queries[1]: "));
    }
  }
}
