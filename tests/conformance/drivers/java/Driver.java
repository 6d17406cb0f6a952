package maxsim.conformance;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import maxsim.client.DeleteSummary;
import maxsim.client.Facets;
import maxsim.client.MaxsimClient;
import maxsim.client.MaxsimClientBuilder;
import maxsim.client.MaxsimException;
import maxsim.client.Ranking;
import maxsim.client.RetryPolicy;

/** Runs the calls of the conformance suite with the Java client (docs/internals/conformance.md). */
final class Driver {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private final Map<String, String> urls = new HashMap<>();
  private final Map<JsonNode, MaxsimClient> clients = new HashMap<>();

  /** Arguments: SERVER=GRPC_ADDRESS,HTTP_URL... */
  public static void main(String[] servers) throws IOException {
    Driver driver = new Driver();
    for (String one : servers) {
      driver.urls.put(one.substring(0, one.indexOf('=')), one.substring(one.indexOf(',') + 1));
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      answers.println(MAPPER.writeValueAsString(driver.answer(MAPPER.readTree(line))));
    }
    driver.clients.values().forEach(MaxsimClient::close);
  }

  private ObjectNode answer(JsonNode line) {
    ObjectNode answer = MAPPER.createObjectNode();
    try {
      MaxsimClient client = clients.computeIfAbsent(line.get("client"), this::newClient);
      Arguments given = new Arguments(line.get("arguments"));
      ObjectNode result = call(client, line.get("method").textValue(), given);
      if (result == null) return answer.put("unsupported", "this driver has no " + line.get("method"));
      answer.set("result", result);
    } catch (MaxsimException e) {
      answer.set("error", Results.of(e));
    } catch (IllegalArgumentException e) {
      answer.putObject("error").put("code", "INVALID_ARGUMENT").put("local", true).put("message", e.getMessage());
    }
    return answer;
  }

  private MaxsimClient newClient(JsonNode options) {
    RetryPolicy retry = RetryPolicy.DEFAULT.withJitter(0);
    if (options.has("max_attempts")) retry = retry.withMaxAttempts(options.get("max_attempts").intValue());
    if (options.has("backoff_ms")) {
      retry = retry.withBackoff(Duration.ofMillis(options.get("backoff_ms").intValue()), retry.maxBackoff());
    }
    boolean isSecure = options.path("tls").booleanValue() || options.has("ca_file");
    String url = urls.get(options.get("server").textValue());
    MaxsimClientBuilder builder = MaxsimClient.builder(isSecure ? url : url.replaceFirst("^https:", "http:"));
    builder.retry(retry).allowPlaintextToken();
    if (options.has("token")) builder.token(options.get("token").textValue());
    if (options.has("timeout_ms")) builder.timeout(Duration.ofMillis(options.get("timeout_ms").longValue()));
    if (options.has("ca_file")) builder.caFile(Path.of(options.get("ca_file").textValue()));
    return builder.build();
  }

  /** Returns the result of a call, or null if this driver does not have the method. */
  private static ObjectNode call(MaxsimClient client, String method, Arguments given) {
    ObjectNode result = MAPPER.createObjectNode();
    switch (method) {
      case "rerank" -> {
        return Results.of(client.rerank(given.collection(), given.query(), given.candidates(), given.rankOptions()));
      }
      case "search" -> {
        return given.hasCandidates()
            ? call(client, "rerank", given)
            : Results.of(client.search(given.collection(), given.query(), given.rankOptions()));
      }
      case "rerank_many" -> {
        List<Ranking> rankings =
            client.rerankMany(given.collection(), given.queries(), given.candidatesOfMany(), given.rankOptions());
        rankings.forEach(one -> result.withArray("rankings").add(Results.of(one)));
      }
      case "upsert" -> {
        return Results.of(client.upsert(given.collection(), given.newDocuments()));
      }
      case "delete" -> {
        long version = given.integer("version", 0);
        if (given.has("ids")) return Results.of(client.delete(given.collection(), given.ids(), version));
        long minSequence = given.integer("min_sequence", 0);
        DeleteSummary done = client.deleteMatching(given.collection(), given.filter(), version, minSequence);
        result.put("num_deleted", done.numDeleted()).put("num_missing", done.numMissing());
        result.put("num_stale", done.numStale()).put("sequence", done.sequence());
      }
      case "get" -> {
        return Results.of(client.get(given.collection(), given.ids(), given.getOptions()));
      }
      case "scroll" -> {
        result.putArray("documents");
        client
            .scroll(given.collection(), given.scrollOptions())
            .forEach(one -> result.withArray("documents").add(Results.of(one)));
      }
      case "count" -> result.put("count", client.count(given.collection(), given.filter(), 0));
      case "facets" -> {
        int limit = (int) given.integer("limit", 10);
        Facets facets = client.facets(given.collection(), given.text("field"), limit, given.filter(), 0);
        result.putArray("values");
        facets.values().forEach(one -> result.withArray("values").addArray().add(one.value()).add(one.count()));
        result.put("num_values", facets.numValues()).put("num_documents", facets.numDocuments());
      }
      case "explain" -> {
        return Results.of(client.explain(given.collection(), given.query(), given.id("id")));
      }
      case "info" -> {
        return Results.of(client.info());
      }
      case "health" -> result.put("status", client.health().isReady() ? "SERVING" : "NOT_SERVING");
      default -> {
        return null;
      }
    }
    return result;
  }
}
