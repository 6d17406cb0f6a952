// Tests maxsimctl's messages about errors, unreachable servers, and wrong command lines.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_fixture.h"
#include "tests/support/fake_server.h"
#include "tools/command_line/server_target.h"
#include "tools/maxsimctl/context/context.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

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
  // Uses TLS with a port that does not speak TLS. On a machine without root certificates, the error is about the
  // missing certificates instead.
  constexpr char kNoCertificate[] = "no root certificates could be read";
  EXPECT_THAT(
      error({"--server", server_.target(), "--tls", "--timeout", "2", "info"}),
      AllOf(AnyOf(HasSubstr("does the port speak TLS?"), HasSubstr(kNoCertificate)), Not(HasSubstr("start one"))));
  std::ofstream(Path("none.pem")) << "none\n";
  EXPECT_THAT(error({"--server", server_.target(), "--tls", "--tls-ca", Path("none.pem"), "--timeout", "2", "info"}),
              AllOf(HasSubstr(kNoCertificate), Not(HasSubstr("start one"))));
  // This port closes every connection immediately, as a TLS port does if the first bytes are no handshake.
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
  EXPECT_THAT(serve(""), HasSubstr("(does it need --tls?): it closed the connection\n"));
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
              std::string("\"gpu-1:") + port + "\" has port " + port + "; must be 1 to 65535");
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
  EXPECT_EQ(
      Run({"frob", "--json"}).err,
      "maxsimctl: no subcommand \"frob\"; there are rerank, explain, info, collections, load, reload, unload, "
      "create, upsert, delete, get, scroll, count, facets, compact, snapshot, bootstrap, cluster, verify, evaluate, "
      "compare-runs (see "
      "maxsimctl --help)\n");
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
  for (const char* command :
       {"rerank", "explain", "info", "collections", "load", "reload", "unload", "create", "upsert", "delete", "get",
        "compact", "snapshot", "bootstrap", "cluster", "verify", "evaluate", "compare-runs"}) {
    const Outcome run = Run({command, "--help"});
    EXPECT_EQ(run.code, 0) << command;
    EXPECT_THAT(run.out, HasSubstr(command));
    EXPECT_EQ(run.err, "");
  }
  const Outcome run = Run({"--help"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("Exit codes: 0 done; 1 failed"), HasSubstr("Examples:"), HasSubstr("evaluate")));
  EXPECT_THAT(Run({"--version"}).out, MatchesRegex("maxsimctl [0-9.]+ \\(.*\\)\n"));
}

}  // namespace
}  // namespace maxsim::ctl
