// Tests bodies of /v1/rerank that are built to take much time or memory.
#include <time.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/http/rerank/rerank_body.h"
#include "server/http/text/base64.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::http {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kMega = 1'000'000;

std::string Repeat(std::string_view piece, size_t bytes) {
  std::string text;
  text.reserve(bytes + piece.size());
  while (text.size() < bytes) text += piece;
  return text;
}

// Returns a list of `element`, of about `bytes`.
std::string List(std::string_view element, size_t bytes) {
  return "[" + Repeat(absl::StrCat(std::string(element), ","), bytes) + std::string(element) + "]";
}

absl::StatusOr<RerankBody> ParseCostly(const std::string& body, const service::RequestLimits& limits = {},
                                       const StopCheck& stop = nullptr) {
  return ParseRerankBody(body, kRerankPaths[0], limits, stop);
}

std::string WithDocuments(const std::string& documents) { return "{\"documents\":" + documents + "}"; }
std::string WithQuery(const std::string& query) { return "{\"query\":" + query + "}"; }

std::string Members(size_t bytes) {
  std::string text = "{";
  for (int i = 0; text.size() < bytes; ++i) absl::StrAppend(&text, i == 0 ? "" : ",", "\"k", i, "\":{}");
  return text + "}";
}

struct Shape {
  const char* name;
  std::string (*make)(size_t bytes);
};
// Some shapes would make a parser that builds a tree look at the elements of a container again and again. The others
// have long tokens of each kind.
constexpr Shape kShapes[] = {
    {"members of {}", [](size_t n) { return Members(n); }},
    {"a list of {}", [](size_t n) { return List("{}", n); }},
    {"a list of []", [](size_t n) { return List("[]", n); }},
    {"a list of members", [](size_t n) { return "[" + Members(n) + "]"; }},
    {"documents of {}", [](size_t n) { return WithDocuments(List("{}", n)); }},
    {"documents of []", [](size_t n) { return WithDocuments(List("[]", n)); }},
    {"documents in a list of {}", [](size_t n) { return WithDocuments("[" + List("{}", n) + "]"); }},
    {"a query of {}", [](size_t n) { return WithQuery(List("{}", n)); }},
    {"a query of members", [](size_t n) { return WithQuery(Members(n)); }},
    {"a row of {}", [](size_t n) { return WithQuery("[" + List("{}", n) + "]"); }},
    {"a model of {}", [](size_t n) { return "{\"model\":" + List("{}", n) + "}"; }},
    {"a model of members", [](size_t n) { return "{\"model\":" + Members(n) + "}"; }},
    {"a shape of {}", [](size_t n) { return WithQuery("{\"shape\":" + List("{}", n) + "}"); }},
    {"a shape of numbers", [](size_t n) { return WithQuery("{\"shape\":" + List("1", n) + "}"); }},
    {"texts as documents", [](size_t n) { return WithDocuments(List("\"a\"", n)); }},
    {"numbers as documents", [](size_t n) { return WithDocuments(List("1", n)); }},
    {"numbers as weights", [](size_t n) { return "{\"query_weights\":" + List("1", n) + "}"; }},
    {"rows of one", [](size_t n) { return WithQuery(List("[1]", n)); }},
    {"a row of zeros", [](size_t n) { return WithQuery("[" + List("0", n) + "]"); }},
    {"a long text", [](size_t n) { return "{\"model\":\"" + std::string(n, 'a') + "\"}"; }},
    {"a long name", [](size_t n) { return "{\"" + std::string(n, 'a') + "\":1}"; }},
    {"long escapes", [](size_t n) { return "{\"model\":\"" + Repeat("\\ud83d\\ude00", n) + "\"}"; }},
    {"a long integer", [](size_t n) { return "{\"top_n\":" + std::string(n, '9') + "}"; }},
    {"a long fraction", [](size_t n) { return "{\"top_n\":0." + std::string(n, '7') + "}"; }},
    {"a long exponent", [](size_t n) { return "{\"top_n\":1e" + std::string(n, '0') + "}"; }},
    {"white space", [](size_t n) { return std::string(n, ' ') + "{}"; }},
    {"deep lists", [](size_t n) { return std::string(n, '['); }},
    {"deep objects", [](size_t n) { return Repeat("{\"query\":", n); }},
    {"texts in objects", [](size_t n) { return WithDocuments(List("{\"text\":\"a\"}", n)); }},
    {"tokens in objects", [](size_t n) { return WithDocuments(List("{\"tokens\":[[1]]}", n)); }},
    {"a document of members", [](size_t n) { return WithDocuments("[" + Members(n) + "]"); }},
    {"a member to pass over", [](size_t n) { return "{\"user\":" + List("{}", n) + "}"; }},
    {"deep documents", [](size_t n) { return "{\"documents\":" + std::string(n, '['); }},
};

// Returns the CPU seconds that this thread takes to refuse the body. Takes the shortest of three attempts, so that
// other load on the machine does not matter.
double SecondsToRefuse(const std::string& body) {
  const auto seconds = [] {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  double least = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double begin = seconds();
    const auto request = ParseCostly(body);
    least = std::min(least, seconds() - begin);
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LT(request.status().message().size(), 600u) << request.status();
  }
  return least;
}

// A body eight times as long may take about eight times as long, but not 64 times. For comparison: nlohmann's parser
// with a callback, optimised, takes 28 s for a tree of one megabyte of the first shape.
TEST(RerankBodyCostTest, EveryShapeIsReadInLinearTime) {
  constexpr double kNoise = 0.002;  // in seconds
  constexpr size_t kLong = test::kSanitized ? kMega / 4 : 2 * kMega;
  for (const Shape& shape : kShapes) {
    const double one = SecondsToRefuse(shape.make(kLong / 8));
    EXPECT_LT(SecondsToRefuse(shape.make(kLong)), 24 * (one + kNoise)) << shape.name << ", " << kLong << " bytes";
  }
}

std::string RefusalOf(const std::string& body, const service::RequestLimits& limits = {}) {
  const auto request = ParseCostly(body, limits);
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << body;
  return std::string(request.status().message());
}

TEST(RerankBodyCostTest, DepthIsBoundedWhereverItIs) {
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const char* member : {"model", "query", "query_weights", "documents", "top_n", "return_documents"}) {
    EXPECT_EQ(RefusalOf(absl::StrCat("{\"", member, "\":", deep, "}")), "the body is nested deeper than 72 levels")
        << member;
  }
  for (const char* member : {"dtype", "shape", "data"}) {
    EXPECT_EQ(RefusalOf(absl::StrCat("{\"query\":{\"", member, "\":", deep, "}}")),
              "the body is nested deeper than 72 levels")
        << member;
  }
}

TEST(RerankBodyCostTest, ElementsAreBoundedByTheLimitsOfARequest) {
  const service::RequestLimits limits = {.max_query_tokens = 3, .max_candidates_per_query = 3};
  EXPECT_EQ(RefusalOf(WithDocuments(R"(["a","b","c","d"])"), limits),
            "documents: has more than 3 ids (limits.max_candidates_per_query)");
  EXPECT_EQ(RefusalOf(WithDocuments("[1,2,3,4]"), limits),
            "documents: has more than 3 ids (limits.max_candidates_per_query)");
  EXPECT_EQ(RefusalOf(WithQuery("[[1],[1],[1],[1]]"), limits), "query: has more than 3 rows (limits.max_query_tokens)");
  EXPECT_EQ(RefusalOf(WithQuery("[" + List("1", 2 * 4096) + "]"), limits),
            "query[0]: has more than 4096 numbers, the largest dimension");
  EXPECT_EQ(RefusalOf("{\"query_weights\":[1,1,1,1]}", limits),
            "query_weights: has more than 3 numbers (limits.max_query_tokens)");
  EXPECT_TRUE(ParseCostly(R"({"model":"c","documents":["a","b","c"],"query_weights":[1,2,3],
                                     "query":[[1],[2],[3]]})",
                          limits)
                  .ok());
}

TEST(RerankBodyCostTest, ContainersInTheWrongPlaceAreShown) {
  EXPECT_EQ(RefusalOf(R"({"model": {"a": [1]}})"), R"(model: is {"a": [1]}, not a text)");
  EXPECT_EQ(RefusalOf(R"({"request_id": []})"), "request_id: is [], not a text");
  EXPECT_THAT(RefusalOf(R"({"top_n": [3]})"), StartsWith("top_n: is [3]; must be a whole number from 0"));
  EXPECT_THAT(RefusalOf(R"({"documents": ["a", ["b"]]})"), StartsWith(R"(documents[1]: is ["b"]; documents must be)"));
  EXPECT_THAT(RefusalOf(R"({"documents": {"a": 1}})"), StartsWith("documents: must be a list of documents"));
  EXPECT_EQ(RefusalOf(R"({"query": [[1, {"x": 2}]]})"), R"(query[0][1]: is {"x": 2}, not a number)");
  EXPECT_EQ(RefusalOf(R"({"query": [[1, 2], {"x": 2}]})"), "query[1]: must be a row of 2 numbers as the first is");
  EXPECT_EQ(RefusalOf(R"({"query": [[1, 2], 3]})"), "query[1]: must be a row of 2 numbers as the first is");
  EXPECT_EQ(RefusalOf(R"({"query": [[1, 2], [1, 2, 3]]})"), "query[1]: must be a row of 2 numbers as the first is");
  EXPECT_THAT(RefusalOf(R"({"query": [[]]})"), StartsWith("query: must be a list of rows"));
  EXPECT_THAT(RefusalOf(R"({"query": [3]})"), StartsWith("query: must be a list of rows"));
  EXPECT_THAT(RefusalOf(R"({"query": {"shape": [1, [2], {"a": "b"}]}})"),
              StartsWith(R"(query.shape: is [1, [2], {"a": "b"}]; must be [tokens, dim])"));
  EXPECT_THAT(RefusalOf(R"({"query": {"dtype": ["f32"]}})"), StartsWith(R"(query.dtype: is ["f32"]; must be f32)"));
  EXPECT_EQ(RefusalOf(R"({"query": {"data": {}}})"), "query.data: is not base64");
  EXPECT_EQ(RefusalOf(R"({"query": {"shape": [1, 1]}})"), "query.dtype: is missing");
  EXPECT_EQ(RefusalOf("{}"), "query: is missing");
  EXPECT_EQ(RefusalOf("[{\"model\": [[]]}, 3]"), "the body is not a JSON object");
  EXPECT_EQ(RefusalOf("3"), "the body is not a JSON object");
  EXPECT_THAT(RefusalOf(R"({"model": ["a")" + std::string(300, ' ') + "]}"), HasSubstr(", not a text"));
}

// At its deadline, or when the server closes, a handler must stop reading. It must stop between tokens and also within
// a long token.
TEST(RerankBodyCostTest, ReadingEndsWhenItIsToldTo) {
  for (const Shape& shape : kShapes) {
    if (std::string_view(shape.name).substr(0, 4) == "deep") continue;
    int calls = 0;
    const auto request = ParseCostly(shape.make(kMega / 5), {}, [&calls] {
      return ++calls < 2 ? absl::OkStatus() : absl::DeadlineExceededError("late");
    });
    // Some bodies are refused before the predicate is called a second time.
    if (calls == 2) {
      EXPECT_EQ(request.status(), absl::DeadlineExceededError("late")) << shape.name;
    }
    EXPECT_LE(calls, 2) << shape.name;
  }
  const std::string text = WithQuery("{\"data\":\"" + std::string(3 * kMega, 'A') + "\"}");
  for (const int last : {1, 2, 40, 48}) {  // 46 calls while the text is read, 3 while its base64 is decoded
    int calls = 0;
    const auto request = ParseCostly(
        text, {}, [&calls, last] { return ++calls < last ? absl::OkStatus() : absl::UnavailableError("closing"); });
    EXPECT_EQ(request.status(), absl::UnavailableError("closing"));
    EXPECT_EQ(calls, last);
  }
}

TEST(RerankBodyCostTest, AnswersEndWhenTheyAreToldTo) {
  v1::RerankResponse response;
  v1::QueryResult& result = *response.add_results();
  for (int i = 0; i < 50'000; ++i) result.mutable_missing_string_ids()->add_ids(absl::StrCat("document ", i));
  int calls = 0;
  const auto text = FormatRerankResponse({.model = "c"}, response, [&calls] {
    return ++calls < 10 ? absl::OkStatus() : absl::DeadlineExceededError("late");
  });
  EXPECT_EQ(text.status(), absl::DeadlineExceededError("late"));
  EXPECT_EQ(calls, 10);
  EXPECT_TRUE(FormatRerankResponse({.model = "c"}, response, [] { return absl::OkStatus(); }).ok());
}

TEST(Base64Test, PiecesAreReadAsTheWholeIs) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::string bytes;
  for (size_t i = 0; i < kPiece; ++i) bytes += static_cast<char>(i * 7 + i / 251);
  std::vector<std::string> texts;
  for (const size_t size : {kPiece / 4 * 3 - 1, kPiece / 4 * 3, kPiece / 4 * 3 + 1}) {
    const std::string text = absl::Base64Escape(bytes.substr(0, size));
    texts.push_back(text);
    texts.push_back(text.substr(0, text.find('=')));  // without padding
    for (const size_t at : {size_t{1}, kPiece - 3, kPiece}) {
      if (at > text.size()) continue;
      texts.push_back(text.substr(0, at) + " \n\t\r" + text.substr(at));
      texts.push_back(text.substr(0, at) + "!" + text.substr(at));
      texts.push_back(text.substr(0, at) + "=" + text.substr(at));
    }
    texts.push_back(text + std::string(kPiece, ' '));
    texts.push_back(text + std::string(kPiece, ' ') + "=");
    texts.push_back(text + "AAAA");
  }
  for (const std::string& text : texts) {
    std::string whole;
    std::string pieces;
    const bool is_base64 = absl::Base64Unescape(text, &whole);
    const auto decoded = DecodeBase64(text, nullptr, &pieces);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, is_base64) << text.size() << " bytes";
    EXPECT_TRUE(!is_base64 || pieces == whole) << text.size() << " bytes";
  }
}

}  // namespace
}  // namespace maxsim::http
