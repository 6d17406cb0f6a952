#include "tools/maxsimctl/read/explain_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Explanation Example() {
  Explanation e;
  e.query_label = "q1  wing flow";
  e.document_label = "184  on aeroelastic wings";
  e.score = 1.25f;
  e.matches = {3, 1, 3};
  e.similarities = {0.5f, 1.0f, -0.25f};
  e.query_tokens = {"[CLS]", "wing", "flow"};
  e.document_tokens = {"on", "aero", "##elastic", "wings"};
  return e;
}

TEST(ExplainTest, PlainTableInTheQuerysOrder) {
  EXPECT_EQ(RenderExplanation(Example(), {}),
            "query     q1  wing flow\n"
            "document  184  on aeroelastic wings\n"
            "score     1.250000, the sum over 3 query tokens of their similarities\n"
            "\n"
            "#  query token  similarity                        at  document token\n"
            "0  [CLS]            0.5000  ##########             3  wings\n"
            "1  wing             1.0000  ####################   1  aero\n"
            "2  flow            -0.2500                         3  wings\n");
}

TEST(ExplainTest, ByContributionWithWeights) {
  Explanation e = Example();
  e.weights = {4.0f, 1.0f, 1.0f};
  EXPECT_EQ(RenderExplanation(e, {.by_contribution = true}),
            "query     q1  wing flow\n"
            "document  184  on aeroelastic wings\n"
            "score     1.250000, the sum over 3 query tokens of weight x similarity\n"
            "\n"
            "#  query token  similarity                        weight  contribution  at  document token\n"
            "0  [CLS]            0.5000  ##########             4.000        2.0000   3  wings\n"
            "1  wing             1.0000  ####################   1.000        1.0000   1  aero\n"
            "2  flow            -0.2500                         1.000       -0.2500   3  wings\n");
}

TEST(ExplainTest, PositionsWhereThereAreNoWordPieces) {
  Explanation e = Example();
  e.query_label.clear();
  e.query_tokens.clear();
  e.document_tokens.clear();
  for (const bool color : {false, true}) {
    const std::string text = RenderExplanation(e, {.color = color});
    EXPECT_THAT(text, Not(HasSubstr("query     ")));
    EXPECT_THAT(text, HasSubstr("#3"));
    EXPECT_THAT(text, Not(HasSubstr("The document, by")));
  }
}

TEST(ExplainTest, TheHeatMapColoursWhatWonAndJoinsWordPieces) {
  Explanation e = Example();
  e.matches = {3, 1, 1};
  e.similarities = {0.5f, 1.0f, 0.5f};
  const std::string text = RenderExplanation(e, {.color = true});
  const std::string map = text.substr(text.find("won of the score:\n\n") + 19);
  // The word piece "aero" contributed 1.5 to the score, the most. "wings" contributed 0.5, a third of that: colour step
  // 4 of 11. A piece that contributed nothing has no colour.
  EXPECT_EQ(map, "on \033[48;5;227;38;5;16maero\033[0melastic \033[48;5;126;38;5;231mwings\033[0m\n");
}

TEST(ExplainTest, TheHeatMapWraps) {
  Explanation e = Example();
  e.matches = {0, 0, 0};
  e.document_tokens = {"aaaa", "bbbb", "##cc", "dddd"};
  const std::string text = RenderExplanation(e, {.color = true, .columns = 11});
  EXPECT_THAT(text, HasSubstr(" bbbbcc\ndddd\n"));
}

TEST(ExplainTest, ControlSequencesInTextsStayText) {
  Explanation e = Example();
  e.query_tokens[0] = "\033[31m";
  e.document_label = "\033]0;x\007";
  EXPECT_THAT(RenderExplanation(e, {}), Not(HasSubstr("\033")));
}

TEST(ExplainTest, MatchesBeyondTheWordPiecesAreShownAsPositions) {
  Explanation e = Example();
  e.matches = {3, 1, 4000000000u};
  for (const bool color : {false, true}) EXPECT_THAT(RenderExplanation(e, {.color = color}), HasSubstr("#4000000000"));
}

}  // namespace
}  // namespace maxsim::ctl
