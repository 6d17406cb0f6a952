#include "tools/maxsimctl/evaluate/quality_report.h"

#include "gtest/gtest.h"
#include "tools/maxsimctl/evaluate/evaluation_inputs.h"

namespace maxsim::ctl {
namespace {

TEST(QualityReportTest, MeasuresAreNamedAfterTheirCutOffs) {
  const auto names = [](const CutOffs& cut_offs) {
    std::string text;
    for (const Measure& measure : Measures(cut_offs)) text += measure.name + " ";
    return text;
  };
  EXPECT_EQ(names({10, 100}), "nDCG@10 MRR@100 recall@10 recall@100 ");
  EXPECT_EQ(names({20, 20}), "nDCG@20 MRR@20 recall@20 ") << "one recall is enough";
}

TEST(QualityReportTest, MeansAndDifferencesAreOfTheColumns) {
  QualityReport report{.cut_offs = {1, 2}, .queries = {"q1", "q2"}, .has_difference = true};
  const evaluation::Grades grades = {{"a", 1}};
  report.columns = {{"a", "A", {QualityOf({"a"}, grades, {1, 2}), QualityOf({"x", "a"}, grades, {1, 2})}},
                    {"b", "B", {QualityOf({"x", "y", "a"}, grades, {1, 2}), QualityOf({"a"}, grades, {1, 2})}}};
  EXPECT_EQ(report.columns[0].Mean().num_queries, 2);
  const Json means = report.MeansJson();
  EXPECT_EQ(means["a"]["MRR@2"], 0.75);
  EXPECT_EQ(means["b"]["MRR@2"], 0.5) << "rank 3 lies beyond the depth";
  EXPECT_EQ(means["difference"]["MRR@2"], -0.25);
  EXPECT_EQ(means["difference"]["nDCG@1"], 0.0);
  const Json queries = report.QueriesJson();
  ASSERT_EQ(queries.size(), 2);
  EXPECT_EQ(queries[1]["query"], "q2");
  EXPECT_EQ(queries[1]["difference"]["recall@1"], 1.0);
  report.has_difference = false;
  EXPECT_FALSE(report.MeansJson().contains("difference"));
}

TEST(QualityReportTest, DifferencesHaveASign) {
  EXPECT_EQ(SignedText(0.01204), "+0.0120");
  EXPECT_EQ(SignedText(-0.5), "-0.5000");
  EXPECT_EQ(SignedText(0), "+0.0000");
  EXPECT_EQ(SignedText(-1e-6), "+0.0000");
}

TEST(EvaluationInputsTest, TenIdsAreShownAndNoControls) {
  EXPECT_EQ(SomeIds({"a", "b\033[2J"}), "a, b [2J");
  const std::vector<std::string> eleven(11, "x");
  EXPECT_EQ(SomeIds({eleven.begin() + 1, eleven.end()}), "x, x, x, x, x, x, x, x, x, x");
  EXPECT_EQ(SomeIds(eleven), "x, x, x, x, x, x, x, x, x, x, ...");
}

}  // namespace
}  // namespace maxsim::ctl
