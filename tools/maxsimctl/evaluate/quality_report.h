// The quality measures of rankings, as maxsimctl prints them: one column for each system that was evaluated (such as a
// first stage alone, or with reranking), with its means and the values of each query.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "collection/evaluation/ranking.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

using evaluation::Quality;

// The cut-offs of the measures, 1 <= k <= depth.
struct CutOffs {
  int k = 10;       // of nDCG and recall
  int depth = 100;  // of the reciprocal rank and a second recall
};

// Adds --k and --depth to a command.
void AddCutOffs(CLI::App& command, CutOffs& cut_offs, const std::string& depth_help);

// Throws CLI::ValidationError for k > depth. For a command's callback.
void CheckCutOffs(const CutOffs& cut_offs);

struct Measure {
  std::string name;  // "nDCG@10"
  double Quality::*value;
};

std::vector<Measure> Measures(const CutOffs& cut_offs);

// Returns the measures of one ranking.
Quality QualityOf(const std::vector<std::string>& ranking, const evaluation::Grades& grades, const CutOffs& cut_offs);

// The measures of one system for each query.
struct QualityColumn {
  std::string key;   // in JSON
  std::string name;  // in tables
  std::vector<Quality> of_queries = {};

  Quality Mean() const;
};

struct QualityReport {
  CutOffs cut_offs;
  std::vector<std::string> queries = {};  // ids
  std::vector<QualityColumn> columns = {};
  bool has_difference = false;  // show the difference of the second column from the first

  Json MeansJson() const;
  // Returns an object for each query: its id and, for each evaluated system (a column of the report), the measures of
  // that system's ranking.
  Json QueriesJson() const;

  void PrintMeans(const Context& context) const;
  // Prints a row for each query and measure.
  void PrintQueries(const Context& context) const;
};

// Returns a difference with its sign and four decimals: "+0.0120", and "+0.0000" if it rounds to 0.
std::string SignedText(double difference);

}  // namespace maxsim::ctl
