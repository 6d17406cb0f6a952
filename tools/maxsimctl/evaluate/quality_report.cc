#include "tools/maxsimctl/evaluate/quality_report.h"

#include <cstddef>

#include "base/text.h"
#include "kernels/limits.h"
#include "tools/command_line/terminal.h"

namespace maxsim::ctl {
namespace {

using command_line::Align;
using command_line::Fixed;
using command_line::Table;

Json MeasuresJson(const Quality& quality, const std::vector<Measure>& measures) {
  Json object = Json::object();
  for (const Measure& measure : measures) object[measure.name] = quality.*measure.value;
  return object;
}

Json ColumnsJson(const std::vector<QualityColumn>& columns, const std::vector<Quality>& qualities,
                 const std::vector<Measure>& measures, bool has_difference) {
  Json object = Json::object();
  for (size_t column = 0; column < columns.size(); ++column) {
    object[columns[column].key] = MeasuresJson(qualities[column], measures);
  }
  if (!has_difference) return object;
  Json differences = Json::object();
  for (const Measure& measure : measures) {
    differences[measure.name] = qualities[1].*measure.value - qualities[0].*measure.value;
  }
  object["difference"] = std::move(differences);
  return object;
}

std::vector<Table::Column> TableColumns(const QualityReport& report, std::vector<Table::Column> columns) {
  for (const QualityColumn& column : report.columns) columns.push_back({column.name, Align::kRight});
  if (report.has_difference) columns.push_back({"difference", Align::kRight});
  return columns;
}

std::vector<std::string> TableRow(const std::vector<Quality>& qualities, const Measure& measure, bool has_difference,
                                  std::vector<std::string> row) {
  for (const Quality& quality : qualities) row.push_back(Fixed(quality.*measure.value, 4));
  if (has_difference) row.push_back(SignedText(qualities[1].*measure.value - qualities[0].*measure.value));
  return row;
}

std::vector<Quality> Means(const std::vector<QualityColumn>& columns) {
  std::vector<Quality> means;
  means.reserve(columns.size());
  for (const QualityColumn& column : columns) means.push_back(column.Mean());
  return means;
}

std::vector<Quality> OfQuery(const std::vector<QualityColumn>& columns, size_t query) {
  std::vector<Quality> qualities;
  qualities.reserve(columns.size());
  for (const QualityColumn& column : columns) qualities.push_back(column.of_queries[query]);
  return qualities;
}

}  // namespace

void AddCutOffs(CLI::App& command, CutOffs& cut_offs, const std::string& depth_help) {
  command.add_option("--k", cut_offs.k, "Cut-off of nDCG and recall")
      ->check(CLI::Range(1, kMaxTopK))
      ->capture_default_str()
      ->type_name("K");
  command.add_option("--depth", cut_offs.depth, depth_help)
      ->check(CLI::Range(1, kMaxTopK))
      ->capture_default_str()
      ->type_name("K");
}

void CheckCutOffs(const CutOffs& cut_offs) {
  if (cut_offs.k <= cut_offs.depth) return;
  throw CLI::ValidationError("--k", Cat(cut_offs.k, " is more than --depth, ", cut_offs.depth));
}

std::vector<Measure> Measures(const CutOffs& cut_offs) {
  std::vector<Measure> measures = {{Cat("nDCG@", cut_offs.k), &Quality::ndcg},
                                   {Cat("MRR@", cut_offs.depth), &Quality::reciprocal_rank},
                                   {Cat("recall@", cut_offs.k), &Quality::recall}};
  if (cut_offs.depth != cut_offs.k) measures.push_back({Cat("recall@", cut_offs.depth), &Quality::recall_deep});
  return measures;
}

Quality QualityOf(const std::vector<std::string>& ranking, const evaluation::Grades& grades, const CutOffs& cut_offs) {
  Quality quality;
  quality.Add(ranking, grades, cut_offs.k, cut_offs.depth);
  return quality;
}

Quality QualityColumn::Mean() const {
  Quality sum;
  for (const Quality& quality : of_queries) sum.Add(quality);
  return sum.Mean();
}

Json QualityReport::MeansJson() const {
  return ColumnsJson(columns, Means(columns), Measures(cut_offs), has_difference);
}

Json QualityReport::QueriesJson() const {
  const std::vector<Measure> measures = Measures(cut_offs);
  Json array = Json::array();
  for (size_t query = 0; query < queries.size(); ++query) {
    Json entry = {{"query", queries[query]}};
    entry.update(ColumnsJson(columns, OfQuery(columns, query), measures, has_difference));
    array.push_back(std::move(entry));
  }
  return array;
}

void QualityReport::PrintMeans(const Context& context) const {
  const std::vector<Quality> means = Means(columns);
  Table table(TableColumns(*this, {{"measure"}}));
  for (const Measure& measure : Measures(cut_offs)) {
    table.AddRow(TableRow(means, measure, has_difference, {measure.name}));
  }
  table.Print(context.out());
}

void QualityReport::PrintQueries(const Context& context) const {
  const std::vector<Measure> measures = Measures(cut_offs);
  Table table(TableColumns(*this, {{"query"}, {"measure"}}));
  for (size_t query = 0; query < queries.size(); ++query) {
    const std::vector<Quality> qualities = OfQuery(columns, query);
    for (const Measure& measure : measures) {
      table.AddRow(
          TableRow(qualities, measure, has_difference, {command_line::WithoutControls(queries[query]), measure.name}));
    }
  }
  table.Print(context.out());
}

std::string SignedText(double difference) {
  const std::string text = Fixed(difference, 4);
  if (text == "-0.0000") return "+0.0000";
  return text.front() == '-' ? text : "+" + text;
}

}  // namespace maxsim::ctl
