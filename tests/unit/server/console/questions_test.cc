// Tests the reading of recorded questions.
#include "server/console/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"
#include "tests/support/collection/corpus.h"

namespace maxsim::console {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json Question() {
  return {{"id", "q1"},
          {"text", "Why?"},
          {"tokens", {"why", "?"}},
          {"query", {{"dtype", "f16"}, {"shape", {2, 4}}, {"data", "AAAA"}}}};
}

TEST(QuestionsTest, KeepWhatTheConsoleNeeds) {
  json without_tokens = Question();
  without_tokens.erase("tokens");
  const auto text = QuestionsJson(Question().dump() + "\n\n" + without_tokens.dump() + "\r\n");
  ASSERT_TRUE(text.ok()) << text.status();
  const json questions = json::parse(*text)["questions"];
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_EQ(questions[0]["text"], "Why?");
  EXPECT_EQ(questions[0]["tokens"], json({"why", "?"}));
  EXPECT_EQ(questions[0]["query"], Question()["query"]);
  EXPECT_FALSE(questions[0].contains("id"));
  EXPECT_FALSE(questions[1].contains("tokens"));
  EXPECT_EQ(*QuestionsJson(""), R"({"questions":[]})");
}

TEST(QuestionsTest, ErrorsNameTheLineAndTheMember) {
  const auto expect = [](const json& wrong, const std::string& message) {
    const auto text = QuestionsJson(Question().dump() + "\n" + wrong.dump());
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr("line 2: " + message));
  };
  expect(json::array(), "is not a JSON object");
  const auto repeated = QuestionsJson(R"({"text": "a", "query": {"dtype": "f16", "dtype": "f32"}})");
  EXPECT_EQ(repeated.status().message(), "line 1: key \"query.dtype\" appears twice in one object");
  for (const char* member : {"text", "query"}) {
    json wrong = Question();
    wrong.erase(member);
    expect(wrong, std::string(member) + ": is not");
  }
  for (const char* member : {"dtype", "data"}) {
    json wrong = Question();
    wrong["query"][member] = 7;
    expect(wrong, std::string("query.") + member + ": is not a text");
  }
  for (const json& shape : {json(2), json({2}), json({2, -4}), json({0, 4}), json({2, "4"}), json()}) {
    json wrong = Question();
    wrong["query"]["shape"] = shape;
    expect(wrong, "query.shape: is not [tokens, dim]");
  }
  json wrong = Question();
  wrong["tokens"] = {"why"};
  expect(wrong, "tokens: has 1 texts, but query.shape[0] is 2");
  wrong["tokens"] = {"why", 2};
  expect(wrong, "tokens: is not a list of texts");
  EXPECT_THAT(std::string(QuestionsJson("{").status().message()), HasSubstr("line 1: malformed JSON"));
}

TEST(QuestionsTest, ErrorsOfAFileNameItsPath) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(ReadQuestions(folder / "none").status().code(), absl::StatusCode::kNotFound);
  test::WriteFile(folder / "wrong.jsonl", "[]\n");
  EXPECT_THAT(std::string(ReadQuestions(folder / "wrong.jsonl").status().message()),
              testing::AllOf(HasSubstr("wrong.jsonl, line 1"), HasSubstr("is not a JSON object")));
  test::WriteFile(folder / "right.jsonl", Question().dump());
  EXPECT_TRUE(ReadQuestions(folder / "right.jsonl").ok());
}

}  // namespace
}  // namespace maxsim::console
