// Tests maxsimctl's commands against a server that answers what it is told.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/fake_server.h"
#include "tools/command_line/server_target.h"
#include "tools/maxsimctl/support/context.h"
#include "tools/maxsimctl/support/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int code;
  std::string out, err;
};

class CtlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    // The array is float32 [2, 8], and every element is a half.
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 8), }";
    header.resize(128 - 10 - 1, ' ');
    header.push_back('\n');
    std::ofstream file(Path("q.npy"), std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
    const std::vector<float> values(16, 0.5f);
    file.write(reinterpret_cast<const char*>(values.data()), 64);

    v1::CollectionInfo* collection = server_.info.add_collections();
    collection->set_name("passages");
    collection->set_state(v1::COLLECTION_STATE_READY);
    collection->set_generation(3);
    collection->set_dim(8);
    collection->set_storage(v1::DATA_TYPE_F16);
    collection->set_id_type(v1::ID_TYPE_STRING);
    collection->set_num_documents(1398);
    collection->set_num_tokens(174339);
    collection->set_residency("host");
    server_.info.set_version("1.2.3");
    server_.info.mutable_limits()->set_max_top_k(10000);
    server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
      request_ = request;
      return Answer(request, response);
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void WriteFile(const std::string& name, const std::string& text) { std::ofstream(Path(name)) << text; }

  static grpc::Status Answer(const v1::RerankRequest& request, v1::RerankResponse& response) {
    response.set_generation(3);
    v1::QueryResult* result = response.add_results();
    for (const char* id : {"doc-b", "doc-a"}) {
      if (result->scores_size() == static_cast<int>(request.top_k())) break;
      result->mutable_string_ids()->add_ids(id);
      result->add_scores(result->scores_size() == 0 ? 1.5f : 0.1f);
      result->add_positions(result->scores_size() == 1 ? 1 : 0);
      if (request.return_payloads()) {
        result->add_payloads(R"({"title": "On wings\u001b[2J", "tokens": ["on", "wing", "##s"]})");
      }
      if (request.return_alignments()) {
        v1::Alignment* alignment = result->add_alignments();
        for (const uint32_t token : {2u, 0u}) {
          alignment->add_document_tokens(token);
          alignment->add_similarities(0.75f);
        }
      }
    }
    for (const std::string& id : request.candidates().string_ids().ids()) {
      if (id == "gone") result->mutable_missing_string_ids()->add_ids(id);
    }
    return grpc::Status::OK;
  }

  Outcome Run(std::vector<std::string> arguments, bool terminal = false, const char* no_color = nullptr) {
    std::ostringstream out, err;
    Environment environment{.out = out, .err = err};
    environment.out_is_terminal = terminal;
    environment.getenv = [no_color](const char* name) { return std::string(name) == "NO_COLOR" ? no_color : nullptr; };
    arguments.insert(arguments.begin(), {"--server", server_.target()});
    const int code = RunMaxsimctl(arguments, environment);
    return {code, out.str(), err.str()};
  }

  const std::string folder_ = ::testing::TempDir() + "/ctl_service_" + std::to_string(getpid());
  v1::RerankRequest request_;
  test::FakeServer server_;
};

TEST_F(CtlTest, RerankPrintsATable) {
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--ids", "doc-a,doc-b", "--payload"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out,
            "rank  id        score  position  title\n"
            "   1  doc-b  1.500000         1  On wings [2J\n"
            "   2  doc-a  0.100000         0  On wings [2J\n");
  EXPECT_THAT(run.err, HasSubstr("collection passages, generation 3"));
  EXPECT_EQ(request_.collection(), "passages") << "the only one, without --collection";
  EXPECT_EQ(request_.queries(0).tokens().num_tokens(), 2);
  EXPECT_EQ(request_.candidates().string_ids().ids_size(), 2);
}

TEST_F(CtlTest, RerankPrintsJsonThatScriptsCanRead) {
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all", "--payload", "--alignments", "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  const json answer = json::parse(run.out);
  EXPECT_EQ(answer["generation"], 3);
  EXPECT_EQ(answer["results"][0]["id"], "doc-b");
  EXPECT_EQ(answer["results"][1]["score"].dump(), "0.1") << "the shortest decimal of the float";
  EXPECT_EQ(answer["results"][0]["payload"]["tokens"][2], "##s");
  EXPECT_EQ(answer["results"][0]["alignment"]["document_tokens"], json::parse("[2, 0]"));
  EXPECT_TRUE(request_.candidates().has_whole_collection());
}

TEST_F(CtlTest, RerankSendsAText) {
  server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    request_ = request;
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->add_query_tokens("wing");
    response.mutable_results(0)->add_query_tokens("##s");
    response.mutable_timings()->set_encode_us(1500);
    return status;
  };
  const Outcome run = Run({"rerank", "--text", "on wings", "--all", "--alignments"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.queries(0).text(), "on wings");
  EXPECT_FALSE(request_.queries(0).has_tokens());
  EXPECT_THAT(run.out, HasSubstr("0:2 1:0")) << "alignments of as many tokens as the server says";
  EXPECT_THAT(run.err, HasSubstr(" ms on the server (encoding 1.50, queue "));
  const json answer = json::parse(Run({"rerank", "--text", "on wings", "--all", "--alignments", "--json"}).out);
  EXPECT_EQ(answer["query_tokens"], json::parse(R"(["wing", "##s"])"));
  EXPECT_EQ(answer["timings_us"]["encode"], 1500);
}

TEST_F(CtlTest, RerankReadsIdsFromAFileAndReportsMissingOnes) {
  WriteFile("ids.txt", "doc-a\ngone\n");
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--ids-file", Path("ids.txt"), "--top-k", "1"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("1 id is not in the collection: gone"));
  EXPECT_EQ(request_.missing_policy(), v1::MISSING_POLICY_REPORT);
  EXPECT_THAT(run.out, Not(HasSubstr("doc-a")));
}

TEST_F(CtlTest, RerankSaysWhatALostDeviceTook) {
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->set_unavailable_documents(1200);
    return status;
  };
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("1,200 candidates could not be scored: the server has lost a device\n"));
  const Outcome as_json = Run({"rerank", "--query", Path("q.npy"), "--all", "--json"});
  EXPECT_EQ(json::parse(as_json.out)["unavailable_documents"], 1200);
}

TEST_F(CtlTest, InfoShowsLostDevicesAndWhereCollectionsLie) {
  for (const uint32_t number : {0u, 1u}) {
    v1::DeviceInfo* device = server_.info.add_devices();
    device->set_number(number);
    if (number == 1) device->set_lost("device 1: Xid 79");
    v1::TierInfo* tier = server_.info.mutable_collections(0)->add_tiers();
    tier->set_tier(number == 0 ? "gpu" : "host");
    tier->set_device(number);
    tier->set_num_shards(number + 3);
  }
  server_.info.mutable_collections(0)->set_unavailable_documents(7);
  const Outcome run = Run({"info"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("LOST"));
  EXPECT_THAT(run.out, HasSubstr("lost: device 1: Xid 79\n"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("passages +host +1 +4 "));
  EXPECT_THAT(run.err, HasSubstr("passages: 7 documents cannot be scored: their device is lost\n"));
}

TEST_F(CtlTest, IntegerCollectionsWantIntegers) {
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_INT64);
  EXPECT_EQ(Run({"rerank", "--query", Path("q.npy"), "--ids", "7,-1"}).code, 0);
  EXPECT_EQ(request_.candidates().int_ids().ids(1), -1);
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--ids", "7,x"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("candidate 2: \"x\""));
}

TEST_F(CtlTest, TheFirstTokenOfTheServersOwnFileIsSent) {
  WriteFile("tokens", "# of the team\n\n  first \r\nsecond\n");
  ASSERT_EQ(Run({"info", "--token-file", Path("tokens")}).code, 0);
  EXPECT_EQ(server_.metadata("authorization"), "Bearer first");
}

TEST_F(CtlTest, TheClientsNameIsSentUnderTheServersKey) {
  ASSERT_EQ(Run({"info", "--client-id", "nightly"}).code, 0);
  EXPECT_EQ(server_.metadata("x-client-id"), "nightly");
  ASSERT_EQ(Run({"reload", "passages", "--client-id", "nightly", "--client-key", "x-tenant"}).code, 0);
  EXPECT_EQ(server_.metadata("x-tenant"), "nightly");
  EXPECT_EQ(server_.metadata("x-client-id"), "");
  const Outcome run = Run({"info", "--client-id", "two words"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("client_id holds a space"));
}

TEST_F(CtlTest, OfSeveralServersOneAnswersTheWholeCommand) {
  test::FakeServer other;
  other.info = server_.info;
  for (int i = 0; i < 5; ++i) {
    std::ostringstream out, err;
    const std::string both = "ipv4:" + server_.target() + "," + other.target();
    ASSERT_EQ(RunMaxsimctl({"--server", both, "rerank", "--query", Path("q.npy"), "--all"}, {.out = out, .err = err}),
              0)
        << err.str();
  }
  EXPECT_EQ(server_.num_reranks, 5);
  EXPECT_EQ(other.num_reranks, 0);
}

TEST_F(CtlTest, ADeadlineThatPassedIsTheOneThatWasUsed) {
  grpc::Status late(grpc::StatusCode::DEADLINE_EXCEEDED, "late");
  server_.on_rerank = [&late](auto&, auto&, auto&) { return late; };
  EXPECT_THAT(Run({"rerank", "--query", Path("q.npy"), "--all"}).err, HasSubstr(" within 60 s (see --timeout): late"));
  EXPECT_THAT(Run({"rerank", "--query", Path("q.npy"), "--all", "--timeout", "1.5"}).err, HasSubstr(" within 1.5 s "));
  server_.admin_status = late;
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"load", "n", "/n"}, {"reload", "n"}, {"unload", "n"}}) {
    std::vector<std::string> arguments = command;
    EXPECT_THAT(Run(arguments).err, HasSubstr(" within 600 s (see --timeout): late")) << command[0];
    arguments.insert(arguments.end(), {"--timeout", "1800"});
    EXPECT_THAT(Run(arguments).err, HasSubstr(" within 1800 s (see --timeout): late")) << command[0];
  }
}

TEST_F(CtlTest, ACollectionThatFailedIsNotCalledHeld) {
  v1::CollectionInfo* failed = server_.info.add_collections();
  failed->set_name("damaged");
  failed->set_state(v1::COLLECTION_STATE_FAILED);
  failed->set_error("DATA_LOSS: shard-0: checksum");
  EXPECT_EQ(Run({"rerank", "--query", Path("q.npy"), "--all"}).code, 0) << "one is ready: no choice is needed";
  EXPECT_EQ(request_.collection(), "passages");
  EXPECT_THAT(Run({"rerank", "--query", Path("q.npy"), "--all", "--collection", "x"}).err,
              HasSubstr("no collection 'x'; the server holds passages, damaged (failed)"));
  const Outcome run = Run({"collections"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, ContainsRegex("damaged +failed"));
  EXPECT_EQ(run.err, "damaged: DATA_LOSS: shard-0: checksum\n");
  EXPECT_EQ(json::parse(Run({"collections", "--json"}).out)[1]["state"], "failed");
}

TEST_F(CtlTest, OfSeveralCollectionsOneIsToBeNamed) {
  v1::CollectionInfo* other = server_.info.add_collections();
  *other = server_.info.collections(0);
  other->set_name("pages");
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_EQ(run.code, kExitFailed) << "it takes the server to tell";
  EXPECT_EQ(run.err, "maxsimctl: INVALID_ARGUMENT: --collection is needed: the server holds passages, pages\n");
}

TEST_F(CtlTest, ErrorsAreOneLineThatNamesTheCause) {
  WriteFile("comments", "# nothing else\n\n");
  WriteFile("two-words", "my token\n");
  struct Case {
    std::vector<std::string> arguments;
    const char* expected;
  };
  for (const Case& c :
       std::vector<Case>{{{"rerank", "--query", "/no/such.npy", "--all"}, "/no/such.npy"},
                         {{"rerank", "--query", Path("q.npy"), "--ids-file", "/no/ids"}, "/no/ids"},
                         {{"rerank", "--query", Path("q.npy"), "--ids-file", "/"}, "cannot read '/': Is a directory"},
                         {{"info", "--token-file", "/"}, "--token-file: cannot read '/': Is a directory"},
                         {{"rerank", "--query", Path("q.npy"), "--ids", " , "}, "no candidate id"},
                         {{"rerank", "--query", Path("q.npy"), "--all", "--query-index", "5"}, "--query-index is 5"},
                         {{"rerank", "--query", Path("q.npy"), "--all", "--collection", "x"},
                          "no collection 'x'; the server holds passages"},
                         {{"info", "--token-file", "/no/token"}, "/no/token"},
                         {{"info", "--tls", "--tls-ca", "/no/ca"},
                          "NOT_FOUND: --tls-ca: cannot read '/no/ca': No such file or directory"},
                         {{"info", "--tls", "--tls-cert", "/", "--tls-key", "/no/key"},
                          "--tls-cert: cannot read '/': Is a directory"},
                         {{"info", "--tls", "--tls-cert", Path("comments"), "--tls-key", "/no/key"},
                          "--tls-key: cannot read '/no/key': No such file or directory"},
                         {{"info", "--token-file", Path("comments")}, "' holds no token"},
                         {{"info", "--token-file", Path("two-words")}, "two-words' holds a space"},
                         {{"explain", "--query", Path("q.npy"), "--queries-jsonl", "/no/texts"}, "/no/texts"}}) {
    const Outcome run = Run(c.arguments);
    EXPECT_EQ(run.code, 1) << c.expected;
    EXPECT_THAT(run.err, AllOf(StartsWith("maxsimctl: "), HasSubstr(c.expected)));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST_F(CtlTest, TheServersMessageIsShown) {
  server_.on_rerank = [](auto&, auto&, auto&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        "queries[0].tokens.dim is 8; the collection has 96\n\033[2J");
  };
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.err, "maxsimctl: INVALID_ARGUMENT: queries[0].tokens.dim is 8; the collection has 96  [2J\n");
}

TEST_F(CtlTest, AServerThatIsNotThereIsNamedWithAHint) {
  const Outcome run = Run({"--server", "127.0.0.1:1", "--timeout", "2", "info"});
  EXPECT_EQ(run.code, kExitUsage) << "--server twice";
  std::ostringstream out, err;
  EXPECT_EQ(RunMaxsimctl({"--server", "127.0.0.1:1", "info"}, {.out = out, .err = err}), kExitFailed);
  EXPECT_EQ(
      err.str(),
      "maxsimctl: UNAVAILABLE: cannot reach maxsimd at 127.0.0.1:1 (start one with 'maxsimd --collection NAME=PATH', "
      "or name another with --server): the connection was refused\n");
}

TEST_F(CtlTest, TheHintFitsTheKindOfFailure) {
  const auto error = [](std::vector<std::string> arguments) {
    std::ostringstream out, err;
    RunMaxsimctl(arguments, {.out = out, .err = err});
    return err.str();
  };
  // TLS is asked of a plain port, on a machine that may lack root certificates and has nothing to check a certificate
  // by.
  constexpr char kNoCertificate[] = "no root certificates could be read";
  EXPECT_THAT(
      error({"--server", server_.target(), "--tls", "--timeout", "2", "info"}),
      AllOf(AnyOf(HasSubstr("does the port speak TLS?"), HasSubstr(kNoCertificate)), Not(HasSubstr("start one"))));
  std::ofstream(Path("none.pem")) << "none\n";
  EXPECT_THAT(error({"--server", server_.target(), "--tls", "--tls-ca", Path("none.pem"), "--timeout", "2", "info"}),
              AllOf(HasSubstr(kNoCertificate), Not(HasSubstr("start one"))));
  // This port closes every connection at once, as a TLS port does to what is no handshake.
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 16), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const auto serve = [&](const std::string& words) {
    const std::string target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    std::atomic<bool> done{false};
    std::thread thread([&] {
      while (!done) {
        pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, 20) <= 0) continue;
        const int connection = accept(listener, nullptr, nullptr);
        char request[4096];
        EXPECT_GT(read(connection, request, sizeof(request)), 0);
        EXPECT_EQ(write(connection, words.data(), words.size()), static_cast<ssize_t>(words.size()));
        close(connection);
      }
    });
    std::string text = error({"--server", target, "--timeout", "2", "info"});
    done = true;
    thread.join();
    return text;
  };
  EXPECT_THAT(serve(""), HasSubstr("(does it want --tls?): it closed the connection\n"));
  EXPECT_THAT(serve("HTTP/1.1 400 Bad Request\r\n\r\n"),
              HasSubstr("(is this its HTTP port? The gRPC port is wanted): it answers in HTTP/1\n"));
  // Nothing accepts the connection.
  const std::string silent = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(error({"--server", silent, "--timeout", "0.25", "info"}),
            "maxsimctl: DEADLINE_EXCEEDED: no answer from " + silent + " within 0.25 s (see --timeout)\n");
  close(listener);
}

TEST(ServerTargetTest, APortIsAddedAndUrlsAreRefused) {
  EXPECT_EQ(*command_line::ServerTarget("gpu-1"), "gpu-1:7070");
  EXPECT_EQ(*command_line::ServerTarget("gpu-1:9"), "gpu-1:9");
  EXPECT_EQ(*command_line::ServerTarget("[::1]"), "[::1]:7070");
  EXPECT_EQ(*command_line::ServerTarget("[::1]:9"), "[::1]:9");
  EXPECT_EQ(*command_line::ServerTarget("dns:///maxsimd:7070"), "dns:///maxsimd:7070");
  EXPECT_EQ(*command_line::ServerTarget("unix:/run/maxsimd"), "unix:/run/maxsimd");
  for (const char* wrong : {"http://gpu-1:7070", "grpc://gpu-1", "", "gpu-1:", ":7070", "gpu-1:7070/"}) {
    EXPECT_EQ(command_line::ServerTarget(wrong).status().message(), std::string("\"") + wrong + "\" is not HOST:PORT");
  }
  EXPECT_EQ(*command_line::ServerTarget("gpu-1:65535"), "gpu-1:65535");
  for (const char* port : {"0", "65536", "72606", "-1", "7o70", "99999999999"}) {
    EXPECT_EQ(command_line::ServerTarget(std::string("gpu-1:") + port).status().message(),
              std::string("\"gpu-1:") + port + "\" has port " + port + ", and 1 to 65535 are accepted");
  }
}

TEST_F(CtlTest, AServerThatRefusesIsNotCalledUnreachable) {
  server_.admin_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
  const Outcome run = Run({"unload", "passages"});
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.err, "maxsimctl: UNAVAILABLE: draining\n");
}

TEST_F(CtlTest, AServerWithoutAdminIsSaidToBeOne) {
  server_.admin_status = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  const Outcome run = Run({"reload", "passages"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(StartsWith("maxsimctl: UNIMPLEMENTED: the server at "), HasSubstr("admin.enabled")));
}

TEST_F(CtlTest, WrongCommandLinesExitWithTwo) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"nonsense"},
           {"rerank"},
           {"rerank", "--query", "q.npy"},
           {"rerank", "--query", "q.npy", "--all", "--ids", "a"},
           {"rerank", "--query", "q.npy", "--all", "--top-k", "0"},
           {"rerank", "--query", "q.npy", "--all", "--top-k", "x"},
           {"rerank", "--query", "q.npy", "--text", "t", "--all"},
           {"rerank", "--text", "", "--all"},
           {"rerank", "--text", "t", "--all", "--query-index", "1"},
           {"rerank", "--text", "t", "--all", "--weights", "w.npy"},
           {"info", "--color", "pink"},
           {"info", "--timeout", "nan"},
           {"info", "--tls-ca", "f"},
           {"info", "--tls", "--tls-cert", "f"},
           {"evaluate", "--queries", "q", "--queries-jsonl", "t", "--qrels", "r", "--k", "20", "--depth", "10"}}) {
    const Outcome run = Run(arguments);
    EXPECT_EQ(run.code, kExitUsage) << ::testing::PrintToString(arguments);
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_EQ(run.out, "");
  }
}

TEST_F(CtlTest, AnUnknownCommandAndAUrlAreNamed) {
  EXPECT_EQ(Run({"frob", "--json"}).err,
            "maxsimctl: no subcommand \"frob\"; there are rerank, explain, info, collections, load, reload, unload, "
            "create, upsert, delete, get, compact, snapshot, verify, evaluate, compare-runs (see maxsimctl --help)\n");
  EXPECT_THAT(Run({}).err, HasSubstr("subcommand is required"));
  EXPECT_EQ(Run({"rerank", "--frob", "x"}).err,
            "maxsimctl: there is no option --frob (see maxsimctl --help and maxsimctl rerank --help)\n");
  EXPECT_EQ(Run({"--frob"}).err, "maxsimctl: there is no option --frob (see maxsimctl --help)\n");
  std::ostringstream out, err;
  EXPECT_EQ(RunMaxsimctl({"--server", "http://gpu-1:7070", "info"}, {.out = out, .err = err}), kExitUsage);
  EXPECT_THAT(err.str(),
              HasSubstr("maxsimctl: --server: \"http://gpu-1:7070\" is not HOST:PORT (see maxsimctl --help"));
}

TEST_F(CtlTest, HelpGoesToStandardOutput) {
  for (const char* command : {"rerank", "explain", "info", "collections", "load", "reload", "unload", "create",
                              "upsert", "delete", "get", "compact", "snapshot", "verify", "evaluate", "compare-runs"}) {
    const Outcome run = Run({command, "--help"});
    EXPECT_EQ(run.code, 0) << command;
    EXPECT_THAT(run.out, HasSubstr(command));
    EXPECT_EQ(run.err, "");
  }
  const Outcome run = Run({"--help"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("Exit codes: 0 done; 1 failed"), HasSubstr("Examples:"), HasSubstr("evaluate")));
  EXPECT_THAT(Run({"--version"}).out, MatchesRegex("maxsimctl [0-9.]+ \\(.*\\)\n"));
}

TEST_F(CtlTest, InfoAndCollectionsAsTableAndJson) {
  Outcome run = Run({"info"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("maxsimd 1.2.3"), HasSubstr("174,339"), HasSubstr("max_top_k")));
  EXPECT_EQ(json::parse(Run({"--json", "info"}).out)["collections"][0]["num_documents"], 1398);
  run = Run({"collections"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("passages"), HasSubstr("ready"), HasSubstr("f16"), HasSubstr("1,398")));
  EXPECT_EQ(json::parse(Run({"collections", "--json"}).out)[0]["storage"], "f16");
  server_.info.clear_collections();
  EXPECT_EQ(Run({"collections"}).out, "no collections\n");
}

TEST_F(CtlTest, LoadReloadUnload) {
  EXPECT_THAT(Run({"load", "new", "/data/new", "--residency", "disk"}).out, StartsWith("loaded new: "));
  EXPECT_EQ(json::parse(Run({"load", "new", "/data/new", "--json"}).out)["path"], "/data/new");
  EXPECT_THAT(Run({"reload", "new"}).out, StartsWith("reloaded new: "));
  EXPECT_EQ(Run({"unload", "new"}).out, "unloaded new\n");
}

TEST_F(CtlTest, ALoadFromAnotherFolderNamesTheKeyToSet) {
  server_.admin_status =
      client::ToGrpcStatus(client::FieldError(absl::StatusCode::kPermissionDenied, client::kReasonOutsideAllowedRoots,
                                              "path", "/data/new is not under store.allowed_roots (/srv)"));
  const Outcome run = Run({"load", "new", "/data/new"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("is not under store.allowed_roots (/srv); add a folder that holds it to "
                                 "store.allowed_roots in the configuration of the server"));
  server_.admin_status = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "the bearer token may search");
  EXPECT_THAT(Run({"load", "new", "/data/new"}).err, Not(HasSubstr("store.allowed_roots")));
}

TEST_F(CtlTest, ExplainColoursOnlyWhereItShould) {
  WriteFile("texts.jsonl", R"({"id": "q1", "text": "wings", "tokens": ["[CLS]", "wing"]})");
  const std::vector<std::string> arguments = {"explain",           "--query", Path("q.npy"), "--queries-jsonl",
                                              Path("texts.jsonl"), "--id",    "doc-b"};
  const Outcome plain = Run(arguments);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out,
            "query     q1  wings\n"
            "document  doc-b  On wings [2J\n"
            "score     1.500000, the sum over 2 query tokens of their similarities\n"
            "\n"
            "#  query token  similarity                        at  document token\n"
            "0  [CLS]            0.7500  ####################   2  ##s\n"
            "1  wing             0.7500  ####################   0  on\n");
  EXPECT_EQ(request_.missing_policy(), v1::MISSING_POLICY_FAIL);
  EXPECT_TRUE(request_.return_alignments());
  EXPECT_EQ(Run(arguments, /*terminal=*/true, /*no_color=*/"1").out, plain.out);
  EXPECT_THAT(Run(arguments, /*terminal=*/true).out, HasSubstr("\033[48;5;"));
  std::vector<std::string> always = arguments;
  always.insert(always.end(), {"--color", "always"});
  EXPECT_THAT(Run(always, false, "1").out, HasSubstr("\033[48;5;"));
  always.back() = "never";
  EXPECT_EQ(Run(always, true).out, plain.out);
}

TEST_F(CtlTest, ExplainWithoutAnIdTakesTheBestDocument) {
  EXPECT_EQ(Run({"explain", "--query", Path("q.npy")}).code, 0);
  EXPECT_TRUE(request_.candidates().has_whole_collection());
  EXPECT_EQ(request_.top_k(), 1);
}

TEST_F(CtlTest, ExplainSendsAText) {
  server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    request_ = request;
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->add_query_tokens("wing");
    response.mutable_results(0)->add_query_tokens("##s");
    return status;
  };
  const Outcome run = Run({"explain", "--text", "on wings", "--id", "doc-b"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.queries(0).text(), "on wings");
  EXPECT_THAT(run.out, HasSubstr("query     on wings\n"));
  EXPECT_THAT(run.out, HasSubstr("1  ##s ")) << "the pieces are those that the server names";
  for (const char* option : {"--weights", "--queries-jsonl", "--query-lengths"}) {
    EXPECT_EQ(Run({"explain", "--text", "on wings", option, Path("q.npy")}).code, kExitUsage) << option;
  }
  EXPECT_EQ(Run({"explain", "--id", "doc-b"}).code, kExitUsage) << "neither vectors nor a text";
}

TEST_F(CtlTest, AnAnswerWithRaggedArraysIsRefused) {
  for (int fault = 0; fault < 5; ++fault) {
    server_.on_rerank = [fault](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
      grpc::Status status = Answer(request, response);
      v1::QueryResult& result = *response.mutable_results(0);
      if (fault == 0) result.mutable_string_ids()->mutable_ids()->RemoveLast();
      if (fault == 1) result.add_positions(3);
      if (fault == 2) result.mutable_alignments(0)->add_similarities(1);
      if (fault == 3) result.mutable_payloads()->Add("{}");
      if (fault == 4) response.clear_results();
      return status;
    };
    const Outcome run = Run({"explain", "--query", Path("q.npy"), "--id", "doc-b"});
    EXPECT_EQ(run.code, 1) << fault;
    EXPECT_THAT(run.err, HasSubstr("the server's answer is wrong")) << fault;
  }
}

TEST_F(CtlTest, EvaluateMatchesHandComputation) {
  WriteFile("texts.jsonl", R"({"id": "q1"})");
  WriteFile("qrels.tsv", "q1\tdoc-a\t3\nq1\tdoc-c\t1\n");
  const Outcome run = Run(
      {"evaluate", "--queries", Path("q.npy"), "--queries-jsonl", Path("texts.jsonl"), "--qrels", Path("qrels.tsv")});
  EXPECT_EQ(run.code, 0) << run.err;
  // With doc-a at rank 2 the value is 3 / log2(3) over 3 + 1 / log2(3).
  EXPECT_EQ(run.out,
            "measure     server\n"
            "nDCG@10     0.5213\n"
            "MRR@100     0.5000\n"
            "recall@10   0.5000\n"
            "recall@100  0.5000\n");
  WriteFile("qrels.tsv", "q9\tdoc-a\t3\n");
  EXPECT_EQ(Run({"evaluate", "--queries", Path("q.npy"), "--queries-jsonl", Path("texts.jsonl"), "--qrels",
                 Path("qrels.tsv")})
                .code,
            1)
      << "no query is judged";
}

TEST_F(CtlTest, EvaluateSaysWhichJudgementsAreOfNoUse) {
  WriteFile("texts.jsonl", R"({"id": "q1"})");
  WriteFile("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\tdoc-a\t3\nq1\tgone\t1\nq2\tgone-too\t1\n");
  const std::vector<std::string> arguments = {"evaluate",          "--queries", Path("q.npy"),    "--queries-jsonl",
                                              Path("texts.jsonl"), "--qrels",   Path("qrels.tsv")};
  const Outcome run = Run(arguments);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: 1 of 2 judged documents are not in the collection passages\n"));
  EXPECT_EQ(request_.missing_policy(), v1::MISSING_POLICY_REPORT);
  // Where ids are integers, a text is not one of them.
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_INT64);
  EXPECT_THAT(Run(arguments).err, HasSubstr("warning: 2 of 2 judged documents"));
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_STRING);
  WriteFile("qrels.tsv", "q1\tdoc-a\t3\n");
  EXPECT_THAT(Run(arguments).err, Not(HasSubstr("judged documents")));
}

TEST_F(CtlTest, VerifyNeedsTheFilesThatTheServerServes) {
  const Outcome run = Run({"verify", "--queries", Path("q.npy"), "--path", "/no/such/collection"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("--path"), HasSubstr("/no/such/collection")));
}

}  // namespace
}  // namespace maxsim::ctl
