// Tests maxsimctl compare-runs, which needs no server.
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_evaluate_fixture.h"
#include "tests/service/tools/run_ctl.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CompareRunsTest : public CtlEvaluateTest {
 protected:
  Outcome Compare(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"compare-runs", Path("a.run"), Path("b.run"), "--qrels", Path("qrels")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunCtl(arguments);
  }
};

TEST_F(CompareRunsTest, TwoRunsWithTheirTests) {
  WriteFile("qrels", "q1 0 x 1\nq2 0 x 1\nq3 0 x 1\nq4 0 x 1\nq5 0 y 0\n");
  // x is at ranks 2, 2, 1, 1 in A, and 1, 1, 1, 2 in B.
  const auto run = [](const std::vector<int>& ranks) {
    std::string text;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const std::string query = "q" + std::to_string(i + 1);
      text.append(query).append(" Q0 x 1 ").append(std::to_string(10 - ranks[i])).append(" t\n");
      text.append(query).append(" Q0 other 1 8.5 t\n");
    }
    return text;
  };
  WriteFile("a.run", run({2, 2, 1, 1, 1}));
  WriteFile("b.run", run({1, 1, 1, 2, 1}));
  const Outcome table = Compare({"--k", "1", "--depth", "2"});
  EXPECT_EQ(table.code, 0) << table.err;
  // The differences of MRR are 0.5, 0.5, 0 and -0.5, with the sum 0.5. With any other signs the sum is at least 0.5
  // away from 0, so the p-value of the randomisation test is 1. The t-test's p-value is scipy.stats.ttest_rel's (SciPy
  // 1.17.1), 0.6376180914006019. The differences of nDCG are twice as large, which changes neither p-value.
  EXPECT_EQ(table.out,
            "measure        A       B  difference  p (randomisation)  p (t-test)  wins  ties  losses\n"
            "nDCG@1    0.5000  0.7500     +0.2500             1.0000      0.6376     2     1       1\n"
            "MRR@2     0.7500  0.8750     +0.1250             1.0000      0.6376     2     1       1\n"
            "recall@1  0.5000  0.7500     +0.2500             1.0000      0.6376     2     1       1\n"
            "recall@2  1.0000  1.0000     +0.0000             1.0000           -     0     4       0\n");
  EXPECT_EQ(table.err, "A is " + Path("a.run") + ", B " + Path("b.run") +
                           ": 4 queries with a relevant document; wins are B's\nleft out: 1 queries without a relevant "
                           "document in " +
                           Path("qrels") + "\n");
  EXPECT_EQ(server_.num_reranks, 0);

  const json report = json::parse(Compare({"--k", "1", "--depth", "2", "--json", "--per-query"}).out);
  EXPECT_EQ(report["queries"], 4);
  EXPECT_EQ(report["a"]["MRR@2"], 0.75);
  EXPECT_EQ(report["difference"]["MRR@2"], 0.125);
  EXPECT_EQ(report["tests"]["MRR@2"]["wins"], 2);
  EXPECT_EQ(report["tests"]["MRR@2"]["p_randomisation"], 1.0);
  EXPECT_EQ(report["tests"]["MRR@2"]["exact"], true);
  EXPECT_NEAR(report["tests"]["MRR@2"]["p_t"].get<double>(), 0.6376180914006019, 1e-9);
  EXPECT_TRUE(report["tests"]["recall@2"]["p_t"].is_null());
  EXPECT_EQ(report["per_query"][3]["query"], "q4");
  EXPECT_EQ(report["per_query"][3]["difference"]["MRR@2"], -0.5);
  EXPECT_THAT(Compare({"--per-query", "--k", "1", "--depth", "2"}).out,
              StartsWith("query  measure        A       B  difference\nq1     nDCG@1    0.0000  1.0000     +1.0000\n"));
}

TEST_F(CompareRunsTest, AQueryThatOneRunLacksCountsNothingThere) {
  WriteFile("qrels", "q1 0 x 1\nq2 0 x 1\nq3 0 x 1\n");
  WriteFile("a.run", "q1 Q0 x 1 1 t\n");
  WriteFile("b.run", "q1 Q0 x 1 1 t\nq2 Q0 x 1 1 t\n");
  const Outcome run = Compare({"--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  const json report = json::parse(run.out);
  EXPECT_EQ(report["queries"], 2) << "q3 is in neither";
  EXPECT_EQ(report["a"]["nDCG@10"], 0.5);
  EXPECT_EQ(report["b"]["nDCG@10"], 1.0);
  EXPECT_EQ(report["only_in_b"], 1);
  EXPECT_EQ(report["only_in_a"], 0);
  EXPECT_THAT(run.err, HasSubstr("warning: 1 query is not in " + Path("a.run") + ", where each counts 0: q2\n"));
}

TEST_F(CompareRunsTest, WrongFilesAndFlagsAreRefused) {
  WriteFile("a.run", "q1 Q0 x 1 1 t\n");
  WriteFile("b.run", "q1 Q0 x 1\n");
  EXPECT_THAT(Compare({}).err, HasSubstr(Path("b.run") + ":1: 4 fields"));
  WriteFile("b.run", "q1 Q0 x 1 1 t\n");
  WriteFile("qrels", "q2 0 x 1\n");
  const Outcome run = Compare({});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("no query of"), Not(HasSubstr("warning"))));
  EXPECT_EQ(Compare({"--k", "20", "--depth", "10"}).code, kExitUsage);
  EXPECT_EQ(RunCtl({"compare-runs", Path("a.run"), "--qrels", Path("qrels")}).code, kExitUsage);
}

}  // namespace
}  // namespace maxsim::ctl
