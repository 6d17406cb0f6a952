#include "collection/evaluation/run_file.h"

#include <cmath>
#include <limits>

#include "collection/evaluation/ranking.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::evaluation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A run with blank lines and tabs, with lines of different queries mixed, with equal scores, with scores that differ
// only as doubles, and with ranks that contradict the scores.
constexpr char kRun[] =
    "q1 Q0 d3 1 9.5 bm25\r\n"
    "q1\tQ0 d1 2 12.25 bm25\n"
    "q2 Q0 x 1 3 bm25\n"
    "q1 Q0 d10 3 9.5 bm25\n"
    "q1 Q0 d2 4 9.5 bm25\n"
    "\n"
    "q2 Q0 y 2 16777217 bm25\n"
    "q2 Q0 z 3 16777216 bm25\n"
    "  q1  Q0  d4  5  -1e-3  bm25  \n"
    "q2 Q0 w 9 +4e0 bm25\n"
    "q3 Q0 d1 1 0 bm25";

std::string Error(const std::string& text) { return std::string(ParseRun(text, "f.run").status().message()); }

TEST(ParseRunTest, DocumentsStandInTheOrderOfTrecEval) {
  const auto run = ParseRun(kRun, "f.run");
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->size(), 3);
  EXPECT_THAT(RankedIds(run->at("q1")), ElementsAre("d1", "d3", "d2", "d10", "d4")) << "equal scores: id descending";
  EXPECT_THAT(RankedIds(run->at("q2")), ElementsAre("z", "y", "w", "x")) << "y and z are equal as 32-bit floats";
  EXPECT_EQ(run->at("q1")[0].score, 12.25f);
  EXPECT_EQ(run->at("q1")[4].score, -1e-3f);
  EXPECT_EQ(ParseRun("q Q0 d 1 3.4028235e+38 t", "f.run")->at("q")[0].score, std::numeric_limits<float>::max());
  EXPECT_EQ(ParseRun("q Q0 d 1 1e-60 t", "f.run")->at("q")[0].score, 0);
  EXPECT_THAT(*ParseRun("", "f.run"), IsEmpty());
  EXPECT_THAT(*ParseRun("\n \v\n", "f.run"), IsEmpty());
}

// The expected values are from pytrec_eval-terrier 0.5.11 (trec_eval's own code), for the run and the judgements
// above.
TEST(ParseRunTest, MeasuresOfARunAreThoseOfTrecEval) {
  const auto run = ParseRun(kRun, "f.run");
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<std::string> q1 = RankedIds(run->at("q1")), q2 = RankedIds(run->at("q2"));
  const Grades grades1 = {{"d1", 1}, {"d2", 3}, {"d3", 0}, {"d4", 2}, {"d5", 1}};
  const Grades grades2 = {{"y", 2}, {"x", 1}, {"z", -1}};
  EXPECT_NEAR(NdcgAt(q1, grades1, 3), 0.5250049893849101, 1e-12);
  EXPECT_NEAR(NdcgAt(q1, grades1, 10), 0.6304637220334277, 1e-12);
  EXPECT_NEAR(NdcgAt(q2, grades2, 3), 0.4796249331362629, 1e-12);
  EXPECT_NEAR(NdcgAt(q2, grades2, 10), 0.6433224083306327, 1e-12);
  EXPECT_EQ(RecallAt(q1, grades1, 3), 0.5);
  EXPECT_EQ(RecallAt(q1, grades1, 10), 0.75);
  EXPECT_EQ(RecallAt(q2, grades2, 3), 0.5);
  EXPECT_EQ(RecallAt(q2, grades2, 10), 1.0);
  EXPECT_EQ(ReciprocalRankAt(q1, grades1, 100), 1.0);
  EXPECT_EQ(ReciprocalRankAt(q2, grades2, 100), 0.5);
}

TEST(ParseRunTest, ErrorsNameTheFileTheLineAndTheValue) {
  constexpr char kGood[] = "q Q0 d 1 2 t\n\n";
  const std::string good = kGood;
  EXPECT_EQ(Error(good + "q Q0 e 1 2"),
            "f.run:3: 5 fields in \"q Q0 e 1 2\"; a run has 6: query Q0 document rank score tag");
  EXPECT_EQ(Error(good + "q Q0 e 1 2 t u"),
            "f.run:3: 7 fields in \"q Q0 e 1 2 t u\"; a run has 6: query Q0 document rank score tag");
  for (const char* rank : {"x", "1.5", "9223372036854775808"}) {
    EXPECT_EQ(Error(good + "q Q0 e " + rank + " 2 t"),
              "f.run:3: the rank \"" + std::string(rank) + "\" is not an integer");
  }
  for (const char* score : {"x", "nan", "inf", "-inf", "3.4028236e38", "-1e39", "1e400", "+-1", "1,5", "0x1p3"}) {
    EXPECT_EQ(Error(good + "q Q0 e 1 " + score + " t"),
              "f.run:3: the score \"" + std::string(score) + "\" is not a finite 32-bit number");
  }
  EXPECT_EQ(Error(good + "q2 Q0 d 1 2 t\nq Q0 e 7 7 t\nq Q0 d 9 9 t\n"),
            "f.run:5: query \"q\" has document \"d\" for the second time; the first is line 1");
}

TEST(FormatRankingTest, WritesWhatIsReadBackInTheSameOrder) {
  const float most = std::numeric_limits<float>::max();
  // Three equal scores, not in the order of ids, and one that is the next smaller float.
  const std::vector<RunDocument> ranking = {
      {"a", most},  {"b", 0.1f}, {"d", 0.1f}, {"c", 0.1f}, {"e", std::nextafter(0.1f, 0.0f)},
      {"f", -0.0f}, {"g", 0.0f}, {"h", -3}};
  const auto lines = FormatRanking("q-1", ranking, "tag");
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(lines->substr(0, lines->find("q-1 Q0 d")), "q-1 Q0 a 1 3.4028235e+38 tag\nq-1 Q0 b 2 0.1 tag\n");
  const auto run = ParseRun(*lines, "f.run");
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<RunDocument>& read = run->at("q-1");
  EXPECT_EQ(RankedIds(read), RankedIds(ranking));
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_NEAR(read[i].score, ranking[i].score, 3e-7 * std::abs(ranking[i].score) + 1e-40) << i;
    EXPECT_TRUE(i == 0 || read[i].score < read[i - 1].score) << i;
  }
  EXPECT_EQ(*FormatRanking("q", {}, "tag"), "");
}

TEST(FormatRankingTest, WhatNoReaderSplitsRightIsRefused) {
  const auto error = [](const std::string& query, const std::string& id, float score, const std::string& tag) {
    return std::string(FormatRanking(query, {RunDocument{id, score}}, tag).status().message());
  };
  EXPECT_EQ(error("q", "two words", 1, "t"),
            "document id \"two words\" holds white space or a zero byte; a field of a run cannot");
  for (const char* blank : {" ", "\t", "\n", "\r", "\v", "\f"}) {
    EXPECT_NE(error("q", std::string("a") + blank + "b", 1, "t"), "") << static_cast<int>(*blank);
  }
  EXPECT_NE(error("q", std::string("a\0b", 3), 1, "t"), "");
  EXPECT_EQ(error("q", "", 1, "t"), "document id is empty; a run needs it");
  EXPECT_THAT(error("q q", "d", 1, "t"), ::testing::StartsWith("query id \"q q\""));
  EXPECT_THAT(error("q", "d", 1, "t t"), ::testing::StartsWith("tag \"t t\""));
  EXPECT_EQ(error("q", "d", std::nanf(""), "t"), "the score of document \"d\" is not finite");
  EXPECT_EQ(error("q", "d\u00a0e", 1, "t"), "") << "readers split at ASCII white space only";
}

}  // namespace
}  // namespace maxsim::evaluation
