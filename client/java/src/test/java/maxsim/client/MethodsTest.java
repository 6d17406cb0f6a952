package maxsim.client;

import static maxsim.client.TestServer.RANKING;
import static maxsim.client.TestServer.ok;
import static maxsim.client.TestServer.refusal;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import maxsim.client.MaxsimException.Code;
import maxsim.client.TestServer.Answer;
import maxsim.client.TestServer.Request;
import org.junit.Test;

/** Checks the requests that each method sends, and the results that it makes of the answers. */
public class MethodsTest {
  private static JsonNode json(String text) throws IOException {
    return Json.parse(text.replace('\'', '"').getBytes(StandardCharsets.UTF_8));
  }

  @Test
  public void rerankSendsEveryOptionUnderItsNameOfTheHttpApi() throws IOException {
    try (TestServer server = new TestServer(RANKING)) {
      MaxsimClientBuilder builder = MaxsimClient.builder(server.url() + "/").token("secret").allowPlaintextToken();
      MaxsimClient client = builder.clientId("me").header("x-more", "1").build();
      RankOptions options =
          RankOptions.DEFAULT.withTopK(3).withOffset(4).withMinScore(0.5f).withFilter(Filter.of("x = 1"))
              .withGroupBy("book", 2).withPayloadFields(List.of("title")).withAlignments(true).withNormalize(true)
              .withRequestId("r").withMinSequence(9).withRefinement(new RankOptions.Refinement(5, 6, true));
      client.rerank("demo", Query.of("why?").withWeights(1, 2), Candidates.ids("a", "b"), options);
      Request request = server.requests.get(0);
      assertEquals("POST /v1/rerank", request.method() + " " + request.path());
      assertEquals("Bearer secret", request.headers().getFirst("authorization"));
      assertEquals("me", request.headers().getFirst("x-client-id"));
      assertEquals("1", request.headers().getFirst("x-more"));
      assertEquals("application/json", request.headers().getFirst("content-type"));
      assertEquals(
          json(
              "{'top_n':3,'offset':4,'min_score':0.5,'filter':'x = 1','group_by':'book','group_size':2,"
                  + "'return_documents':true,'payload_fields':['title'],'return_alignments':true,'normalize':true,"
                  + "'request_id':'r','min_sequence':9,'refinement':{'documents':5,'budget':6,'require_proof':true},"
                  + "'model':'demo','query':'why?','query_weights':[1.0,2.0],'documents':['a','b']}"),
          request.json());
    }
  }

  @Test
  public void aSearchWithoutOptionsAsksForTenOfTheWholeCollection() throws IOException {
    try (TestServer server = new TestServer(RANKING)) {
      server.client().search("demo", "why?");
      assertEquals(json("{'top_n':10,'model':'demo','query':'why?','documents':'*'}"), server.requests.get(0).json());
    }
  }

  @Test
  public void aRankingHasEveryMemberOfTheAnswer() {
    String body =
        "{'results':[{'id':7,'index':1,'relevance_score':2.5,'document':{'title':'x'},'group':'g','truncated':true,"
            + "'alignment':{'document_tokens':[3],'similarities':[0.5]}},{'index':0,'relevance_score':0.1}],"
            + "'missing':['z'],'unavailable_documents':2,'unavailable_groups':['g1'],'sequence':4,'model':'demo',"
            + "'query_tokens':['why'],'query_truncated':true,'generation':1,'id':'request','later':{'x':1},"
            + "'refinement':{'planes':2,'documents':9,'certificate':'PROVEN','outside_score':1.5,"
            + "'outside_is_bound':true},"
            + "'timings':{'total_us':10.5}}";
    try (TestServer server = new TestServer(ok(body))) {
      Ranking ranking = server.client().search("demo", "why?");
      RankedDocument first = ranking.documents().get(0);
      RankedDocument.Alignment alignment = new RankedDocument.Alignment(List.of(3), List.of(0.5f));
      assertEquals(new RankedDocument(Id.of(7), 1, 2.5f, first.payload(), "g", alignment, true), first);
      assertEquals("x", first.payload().path("title").textValue());
      assertEquals(new RankedDocument(null, 0, 0.1f, null, null, null, false), ranking.documents().get(1));
      Ranking.Refinement refinement = new Ranking.Refinement(2, 9, Ranking.Certificate.PROVEN, 0, 1.5f, true);
      Ranking.Timings timings = new Ranking.Timings(0, 0, 0, 0, 10.5);
      assertEquals(
          new Ranking(
              ranking.documents(), List.of(Id.of("z")), 2, List.of("g1"), "demo", 1, "request", 4, List.of("why"), true,
              refinement, timings),
          ranking);
    }
  }

  @Test
  public void severalThreadsMayShareAClient() throws Exception {
    try (TestServer server =
        new TestServer(
            request -> ok("{'results':[],'id':'" + request.json().path("query").textValue() + "'}"))) {
      MaxsimClient client = server.client();
      ExecutorService threads = Executors.newFixedThreadPool(8);
      List<Future<String>> asked = new ArrayList<>();
      for (int i = 0; i < 200; i++) {
        String query = "query " + i;
        asked.add(threads.submit(() -> client.search("demo", query).requestId()));
      }
      for (int i = 0; i < asked.size(); i++) assertEquals("query " + i, asked.get(i).get());
      threads.shutdown();
    }
  }

  @Test
  public void upsertSplitsDocumentsByBytesAndLocatesAnErrorInTheWholeCall() {
    AtomicInteger sequence = new AtomicInteger();
    List<Integer> sizes = new ArrayList<>();
    try (TestServer server =
        new TestServer(
            request -> {
              int size = request.body().getBytes(StandardCharsets.UTF_8).length;
              assertTrue("a body has " + size + " bytes", size <= 220);
              sizes.add(request.json().path("documents").size());
              int last = sequence.incrementAndGet();
              if (last == 3) {
                String error = "{'error':{'code':'INVALID_ARGUMENT','message':'no','field':'documents[1].payload'}}";
                return new Answer(400, error.replace('\'', '"'), null);
              }
              String result = "{'outcome':'applied','sequence':" + last + "}";
              return ok("{'results':[" + result + "," + result + "],'sequence':" + last + "}");
            })) {
      List<NewDocument> documents =
          IntStream.range(0, 6).mapToObj(i -> NewDocument.of(Id.of("" + i), "\u00e9".repeat(35))).toList();
      WriteResults written = server.client().upsert("notes", documents.subList(0, 4), 220);
      WriteResults.Result first = new WriteResults.Result(WriteResults.Outcome.APPLIED, 1, false);
      assertEquals(first, written.results().get(1));
      assertEquals(4, written.results().size());
      assertEquals(2, written.sequence());
      assertEquals(List.of(2, 2), sizes);
      sequence.set(1);
      MaxsimException error =
          assertThrows(MaxsimException.class, () -> server.client().upsert("notes", documents.subList(0, 4), 220));
      assertEquals(Optional.of("documents[3].payload"), error.field());
    }
  }

  @Test
  public void aBodyMayHaveExactlyTheBytesThatAreAllowed() {
    NewDocument document = NewDocument.of(Id.of("a"), "text");
    int size = "{\"documents\":[{\"id\":\"a\",\"text\":\"text\"},{\"id\":\"a\",\"text\":\"text\"}]}".length();
    for (int allowed : List.of(size - 1, size, size + 1)) {
      try (TestServer server = new TestServer(ok("{'results':[],'sequence':1}"))) {
        server.client().upsert("notes", List.of(document, document), allowed);
        assertEquals(allowed < size ? 2 : 1, server.requests.size());
      }
    }
  }

  @Test
  public void aRequestHasAtMostTenThousandDocuments() {
    NewDocument document = NewDocument.of(Id.of(1), "x");
    for (int n : List.of(9_999, 10_000, 10_001)) {
      try (TestServer server = new TestServer(ok("{'results':[],'sequence':1}"))) {
        server.client().upsert("notes", Collections.nCopies(n, document));
        List<Integer> sizes = server.requests.stream().map(one -> one.json().path("documents").size()).toList();
        assertEquals(n > 10_000 ? List.of(10_000, n - 10_000) : List.of(n), sizes);
      }
    }
  }

  @Test
  public void aDocumentThatIsTooLargeIsSentAlone() {
    try (TestServer server = new TestServer(ok("{'results':[],'sequence':1}"))) {
      List<NewDocument> documents =
          List.of("a", "b".repeat(300), "c").stream().map(text -> NewDocument.of(Id.of(text), text)).toList();
      server.client().upsert("notes", documents, 200);
      assertEquals(3, server.requests.size());
    }
  }

  @Test
  public void aDeleteWithAFilterIsRepeatedUntilNothingMatches() throws IOException {
    Answer more = ok("{'num_deleted':5,'num_missing':1,'num_stale':2,'sequence':9,'has_more':true}");
    Answer last = ok("{'num_deleted':1,'num_missing':0,'num_stale':0,'sequence':10,'has_more':false}");
    try (TestServer server = new TestServer(more, last)) {
      DeleteSummary done = server.client().deleteMatching("notes", Filter.of("x = 1"), 4, 0);
      assertEquals(new DeleteSummary(6, 1, 2, 10), done);
      assertEquals("DELETE", server.requests.get(0).method());
      assertEquals(json("{'filter':'x = 1','version':4}"), server.requests.get(0).json());
      assertEquals(json("{'filter':'x = 1','version':4,'min_sequence':9}"), server.requests.get(1).json());
    }
    try (TestServer server = new TestServer(more, refusal(400, "INVALID_ARGUMENT", null))) {
      MaxsimException error =
          assertThrows(MaxsimException.class, () -> server.client().deleteMatching("notes", Filter.of("x = 1")));
      assertEquals(OptionalLong.of(5), error.numDeleted());
      assertEquals(Optional.of("PARTLY_DELETED"), error.reason());
    }
    Answer endless = ok("{'num_deleted':0,'num_missing':0,'num_stale':0,'sequence':9,'has_more':true}");
    try (TestServer server = new TestServer(endless)) {
      MaxsimException error =
          assertThrows(MaxsimException.class, () -> server.client().deleteMatching("notes", Filter.of("x = 1")));
      assertEquals(Code.INTERNAL, error.code());
    }
  }

  @Test
  public void documentsThatAFailedAttemptHasDeletedAreCounted() {
    String refused = "{'error':{'code':'UNAVAILABLE','message':'a group is lost','num_deleted':3}}";
    Answer last = ok("{'num_deleted':1,'num_missing':0,'num_stale':0,'sequence':10,'has_more':false}");
    try (TestServer server = new TestServer(new Answer(503, refused.replace('\'', '"'), null), last)) {
      assertEquals(4, server.client().deleteMatching("notes", Filter.of("x = 1")).numDeleted());
    }
  }

  @Test
  public void getReadsAnyNumberOfIdsWithAThousandPerRequest() {
    AtomicInteger numRequests = new AtomicInteger();
    try (TestServer server =
        new TestServer(
            request -> {
              assertEquals("/v1/collections/a%2Fb%20c/documents/get", request.path());
              int n = request.json().path("ids").size();
              String documents = "'documents':[{'id':" + n + ",'num_tokens':2}]";
              return ok("{" + documents + ",'missing':[" + numRequests.incrementAndGet() + "],'generation':3}");
            })) {
      List<Id> ids = IntStream.range(0, 2001).mapToObj(Id::of).toList();
      StoredDocuments found = server.client().get("a/b c", ids);
      List<StoredDocument> expected =
          List.of(1000, 1000, 1).stream().map(n -> new StoredDocument(Id.of(n), 2, null, 0, 0, null)).toList();
      assertEquals(new StoredDocuments(expected, List.of(Id.of(1), Id.of(2), Id.of(3)), 3, 0), found);
    }
  }

  @Test
  public void scrollReadsPagesOnlyAsTheStreamNeedsThem() throws IOException {
    Answer page = ok("{'documents':[{'id':'a','num_tokens':1},{'id':'b','num_tokens':1}],'has_more':true}");
    Answer last = ok("{'documents':[{'id':'c','num_tokens':1,'payload':{'x':1}}],'has_more':false}");
    try (TestServer server = new TestServer(page, last)) {
      ScrollOptions options = ScrollOptions.DEFAULT.withFilter(Filter.equalTo("lang", "en")).withPageSize(2);
      Iterator<StoredDocument> documents = server.client().scroll("notes", options).iterator();
      assertEquals(0, server.requests.size());
      assertEquals(Id.of("a"), documents.next().id());
      assertEquals(Id.of("b"), documents.next().id());
      assertEquals(1, server.requests.size());
      assertEquals(1, documents.next().payload().path("x").intValue());
      assertEquals(false, documents.hasNext());
      String body = "{'filter':{'field':'lang','equals':'en'},'limit':2,'return_payloads':true";
      assertEquals(json(body + "}"), server.requests.get(0).json());
      assertEquals(json(body + ",'after':'b'}"), server.requests.get(1).json());
      assertEquals(2, server.requests.size());
    }
  }

  @Test
  public void severalThreadsMayReadAScroll() {
    try (TestServer server =
        new TestServer(
            request -> {
              int first = request.json().path("after").asInt() + 1;
              List<String> documents = IntStream.range(first, first + 100).mapToObj(i -> "{'id':" + i + "}").toList();
              return ok("{'documents':" + documents + ",'has_more':" + (first < 4901) + "}");
            })) {
      List<Id> ids =
          server.client().scroll("notes", ScrollOptions.DEFAULT).parallel().map(StoredDocument::id).toList();
      assertEquals(IntStream.rangeClosed(1, 5000).mapToObj(Id::of).toList(), ids);
    }
  }

  @Test
  public void countsFacetsExplanationsAndHealthAreRead() throws IOException {
    try (TestServer server =
        new TestServer(
            ok("{'count':5,'generation':1}"),
            ok("{'values':[{'value':'en','count':3}],'num_values':2,'num_documents':9}"),
            ok("{'id':'a','model':'demo','generation':2,'score':0.1,'similarities':[[0.1,-2]],'query_tokens':null}"),
            new Answer(503, "loading\n", null))) {
      MaxsimClient client = server.client();
      assertEquals(5, client.count("demo", Filter.exists("lang"), 7));
      Facets facets = client.facets("demo", "lang", 4, null, 0);
      assertEquals(new Facets(List.of(new Facets.Value("en", 3)), 2, 9), facets);
      Explanation explanation = client.explain("demo", Query.of("why?"), Id.of("a"));
      List<List<Double>> similarities = List.of(List.of(0.1, -2.0));
      assertEquals(
          new Explanation(Id.of("a"), "demo", 2, 0.1, similarities, List.of(), List.of(), false), explanation);
      assertEquals(new Health(false, "loading"), client.health());
      assertEquals(
          json("{'collection':'demo','filter':{'field':'lang','exists':true},'min_sequence':7}"),
          server.requests.get(0).json());
      assertEquals(json("{'collection':'demo','field':'lang','limit':4}"), server.requests.get(1).json());
      assertEquals(json("{'model':'demo','query':'why?','id':'a'}"), server.requests.get(2).json());
      assertEquals("/readyz", server.requests.get(3).path());
    }
  }

  @Test
  public void filtersHaveTheirJsonForm() throws IOException {
    Filter filter =
        Filter.in("lang", List.of("en", "de")).and(Filter.atLeast("year", 2020).or(Filter.lessThan("rating", 2.5)))
            .and(Filter.greaterThan("published", Instant.EPOCH).not()).and(Filter.atMost("pages", 7L));
    String languages = "{'field':'lang','in':['en','de']}";
    String years = "{'or':[{'field':'year','gte':2020},{'field':'rating','lt':2.5}]}";
    String time = "{'not':{'field':'published','gt':'1970-01-01T00:00:00Z'}}";
    String expected =
        "{'and':[{'and':[{'and':[" + languages + "," + years + "]}," + time + "]},{'field':'pages','lte':7}]}";
    assertEquals(expected.replace('\'', '"'), filter.toString());
    assertEquals(filter.toString(), Filter.json(filter.toJson()).toString());
    assertEquals("{\"field\":\"x\"}", Filter.json(Map.of("field", "x")).toString());
  }
}
