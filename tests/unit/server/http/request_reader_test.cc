// Tests the framing of requests, without sockets. The same bytes must give the same requests, however they are split
// into reads.
#include "server/http/transport/request_reader.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

// Gives the bytes to a reader in pieces of these sizes. Further pieces have the last size. Returns one line per
// request, and a last line with the error if the reader refuses a request.
std::vector<std::string> ReadAll(std::string_view bytes, const std::vector<size_t>& pieces, uint64_t max_body = 1000) {
  RequestReader reader("x-client");
  reader.Begin();
  std::vector<std::string> seen;
  size_t piece = 0;
  RequestReader::Progress progress = reader.Advance();
  while (true) {
    if (progress == RequestReader::Progress::kMore) {
      if (bytes.empty()) return seen;
      const auto room = reader.Prepare();
      const size_t size = std::min({room.size(), bytes.size(), pieces[std::min(piece++, pieces.size() - 1)]});
      std::memcpy(room.data(), bytes.data(), size);
      bytes.remove_prefix(size);
      reader.Commit(size);
      progress = reader.Advance();
    } else if (progress == RequestReader::Progress::kHeader) {
      progress = reader.AcceptBody(max_body);
    } else if (progress == RequestReader::Progress::kComplete) {
      const Request& request = reader.request();
      seen.push_back(absl::StrCat(request.method, " ", request.path, " ", reader.TakeBody(),
                                  reader.wants_continue() ? " continue" : "", reader.keep_alive() ? "" : " close"));
      reader.Begin();
      progress = reader.Advance();
    } else {
      seen.push_back(absl::StrCat(reader.refusal().status, " ", std::string(reader.refusal().why.message())));
      return seen;
    }
  }
}

std::vector<std::string> ReadAll(std::string_view bytes) { return ReadAll(bytes, {bytes.size()}); }

std::string Get(const std::string& headers, const std::string& target = "/a") {
  return "GET " + target + " HTTP/1.1\r\n" + headers + "\r\n";
}

// RFC 9112, section 3.2: an HTTP/1.1 request without Host gets a 400, and so does any request with several Hosts or an
// invalid one.
TEST(RequestReaderTest, ARequestHasOneHost) {
  for (const char* host :
       {"x", "example.org", "example.org:8080", "127.0.0.1:7071", "[::1]", "[::1]:80", "", "a_b", "%41.org", "x:"}) {
    EXPECT_THAT(ReadAll(Get(absl::StrCat("Host: ", host, "\r\n"))), ElementsAre("GET /a ")) << host;
  }
  EXPECT_THAT(ReadAll(Get("")), ElementsAre("400 Host: is missing"));
  EXPECT_THAT(ReadAll(Get("Host: x\r\nHost: x\r\n")), ElementsAre("400 Host: appears twice"));
  EXPECT_THAT(ReadAll(Get("Host: x\r\nA: b\r\nhost: y\r\n")), ElementsAre("400 Host: appears twice"));
  for (const char* host : {"a b", "a/b", "a@b", "x:y", "x:123456", "[::1", "[]", "[::1]x", "[x]", "%4", "%zz", "a?b",
                           "http://x", "\x80"}) {
    EXPECT_THAT(ReadAll(Get(absl::StrCat("Host: ", host, "\r\n"))), ElementsAre("400 Host: is not a host and a port"))
        << host;
  }
  EXPECT_THAT(ReadAll("GET /a HTTP/1.0\r\n\r\n"), ElementsAre("GET /a  close")) << "older than the field";
  EXPECT_THAT(ReadAll("GET /a HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n"), ElementsAre("400 Host: appears twice"));
}

TEST(RequestReaderTest, ATargetIsAPathOrAnAddressWithOne) {
  for (const auto& [target, path] : std::vector<std::pair<std::string, std::string>>{{"/a?b=c", "/a"},
                                                                                     {"http://x/a?b", "/a"},
                                                                                     {"HTTPS://x:80/a", "/a"},
                                                                                     {"http://x", "/"},
                                                                                     {"http://x?q", "/"},
                                                                                     {"*", "*"},
                                                                                     {"//a", "//a"}}) {
    EXPECT_THAT(ReadAll(Get("Host: x\r\n", target)), ElementsAre("GET " + path + " ")) << target;
  }
  for (const char* target : {"a", "?a", "ftp://x/a", "http:///a", "http://a b/", "http://a@b/", "http:/a"}) {
    EXPECT_THAT(ReadAll(Get("Host: x\r\n", target)).at(0), StartsWith("400 ")) << target;
  }
}

// An HTTP/1.0 client does not know the status 100 and would take it for the answer (RFC 9110, 10.1.1).
TEST(RequestReaderTest, OnlyHttp11IsToldToContinue) {
  const std::string rest = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nb";
  EXPECT_THAT(ReadAll("POST /a HTTP/1.1\r\n" + rest), ElementsAre("POST /a b continue"));
  EXPECT_THAT(ReadAll("POST /a HTTP/1.0\r\n" + rest), ElementsAre("POST /a b close"));
  EXPECT_THAT(ReadAll("POST /a HTTP/1.1\r\nHost: x\r\nExpect: else\r\nContent-Length: 1\r\n\r\nb"),
              ElementsAre("POST /a b"));
}

TEST(RequestReaderTest, AllLinesOfAFieldCount) {
  RequestReader reader("");
  reader.Begin();
  const std::string text = Get("Host: x\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n");
  const auto room = reader.Prepare();
  std::memcpy(room.data(), text.data(), text.size());
  reader.Commit(text.size());
  ASSERT_EQ(reader.Advance(), RequestReader::Progress::kHeader);
  EXPECT_EQ(reader.request().content_encoding, "identity, gzip");
  EXPECT_THAT(ReadAll(Get("Host: x\r\nAuthorization: a\r\nAuthorization: b\r\n")),
              ElementsAre("400 Authorization: appears twice"));
}

// Returns "traceparent|tracestate" as read from a request with these header lines.
std::string TraceOf(const std::string& headers, bool reads_trace_headers) {
  RequestReader reader("", reads_trace_headers);
  reader.Begin();
  const std::string text = Get("Host: x\r\n" + headers);
  const auto room = reader.Prepare();
  std::memcpy(room.data(), text.data(), text.size());
  reader.Commit(text.size());
  EXPECT_EQ(reader.Advance(), RequestReader::Progress::kHeader);
  return reader.request().traceparent + "|" + reader.request().tracestate;
}

TEST(RequestReaderTest, TheHeadersOfATraceAreReadWhereTheyAreAskedFor) {
  const std::string headers = "Traceparent: 00-1\r\ntracestate: a=1\r\nTraceState: b=2\r\n";
  EXPECT_EQ(TraceOf(headers, true), "00-1|a=1, b=2");
  EXPECT_EQ(TraceOf(headers, false), "|");
  EXPECT_EQ(TraceOf("", true), "|");
  EXPECT_EQ(TraceOf("tracestate: a=1\r\n", true), "|") << "without a parent it says nothing";
  EXPECT_EQ(TraceOf("traceparent: 00-1\r\ntraceparent: 00-1\r\n", true), "|") << "nobody knows which one is meant";
}

TEST(RequestReaderTest, LinesOfAHeaderDoNotGoOnInTheNext) {
  const std::string expected = "400 a header's line begins with white space";
  EXPECT_THAT(ReadAll(Get("Host: x\r\nA: b\r\n c\r\n")), ElementsAre(expected));
  EXPECT_THAT(ReadAll(Get("Host:\r\n\tx\r\n")), ElementsAre(expected));
  EXPECT_THAT(ReadAll("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
              ElementsAre(expected));
  EXPECT_THAT(ReadAll(Get(" Host: x\r\n")).at(0), StartsWith("400 "));
  EXPECT_THAT(ReadAll("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n b"), ElementsAre("POST /a  b"))
      << "a body may begin so";
}

TEST(RequestReaderTest, WhatNoHeaderMayHoldIsRefused) {
  for (const std::string& headers :
       {std::string("Host: x\r\nA\0: b\r\n", 15), std::string("Host: x\0\r\n", 10),
        std::string("Host: x\r\nA: \x7f\r\n"), std::string("Host: x\r\nA: \x01\r\n"), std::string("Host: x\r\n: b\r\n"),
        std::string("Host: x\r\nA b: c\r\n"), std::string("Host: x\r\nA: b\rc: d\r\n"),
        std::string("Host: x\r\nContent-Length:\r\n")}) {
    EXPECT_THAT(ReadAll(Get(headers)).at(0), StartsWith("400 ")) << headers;
  }
  EXPECT_THAT(ReadAll(std::string("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 28)).at(0), StartsWith("400 "));
  EXPECT_THAT(ReadAll(Get("Host: x\r\nA: " + std::string(kMaxHeaderBytes, 'a') + "\r\n")).at(0), StartsWith("431 "));
}

TEST(RequestReaderTest, BodiesAreBoundedAsTheyCome) {
  const std::string chunked = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string two = "2\r\nab\r\n";
  EXPECT_THAT(ReadAll(chunked + two + two + "0\r\n\r\n", {1}, 4), ElementsAre("POST /a abab"));
  EXPECT_THAT(ReadAll(chunked + two + two + "0\r\n\r\n", {1}, 3),
              ElementsAre("413 the body is larger than the limit 3"));
  EXPECT_THAT(ReadAll(chunked + "fffffffffffffffff\r\n").at(0), StartsWith("4"));
  EXPECT_THAT(ReadAll(chunked + "-1\r\n").at(0), StartsWith("400 "));
  EXPECT_THAT(ReadAll(chunked + "1;" + std::string(100'000, 'x')).at(0), StartsWith("4")) << "an extension without end";
  EXPECT_THAT(ReadAll("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde", {1}, 4),
              ElementsAre("413 the body has 5 bytes, more than the limit 4"));
}

TEST(RequestReaderTest, AQuoteThatStaysOpenInAnExtensionCountsItsChunkOnce) {
  const std::string open = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n138;e=\"f\r\n";
  for (const size_t piece : {size_t{test::kSanitized ? 9 : 1}, size_t{100'000}}) {
    EXPECT_THAT(ReadAll(open + std::string(500, 'x'), {piece}, 1000), IsEmpty());
    EXPECT_THAT(ReadAll(open + "\"\r\n", {piece}, 1000).at(0), StartsWith("400 "));
    EXPECT_THAT(ReadAll(open + std::string(100'000, 'x'), {piece}, 1000).at(0), StartsWith("4"));
  }
}

TEST(RequestReaderTest, RequestsDoNotDependOnHowTheirBytesArrive) {
  const std::string stream =
      "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n\r\n\r\nx" + Get("Host: x\r\nX-Client: c\r\n") +
      "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;e=\"f\"\r\nabc\r\n10\r\n0123456789abcdef\r\n"
      "0\r\nTrailer: t\r\n\r\n" +
      Get("Host: [::1]:80\r\nExpect: 100-continue\r\n") + "GET /c HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n";
  const std::vector<std::string> whole = ReadAll(stream);
  EXPECT_THAT(whole, ElementsAre("POST /a \r\n\r\nx", "GET /a ", "POST /b abc0123456789abcdef", "GET /a  continue",
                                 "400 Host: appears twice"));
  EXPECT_EQ(ReadAll(stream, {1}), whole);
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::vector<size_t> pieces(64);
    for (size_t& piece : pieces) piece = 1 + random() % (seed % 2 == 0 ? 5 : 60);
    EXPECT_EQ(ReadAll(stream, pieces), whole) << "seed " << seed;
  }
}

}  // namespace
}  // namespace maxsim::http
