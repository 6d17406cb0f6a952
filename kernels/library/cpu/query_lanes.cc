#include "kernels/library/cpu/query_lanes.h"

#include <numeric>

#include "kernels/library/cpu/host_tokens.h"

namespace maxsim::library {

void QueryLanes::Pack(const Problem& problem, const cpu::Isa& isa, const cpu::Feed& feed, int64_t begin, int64_t end) {
  const HostTokens queries(problem.queries);
  const bool integers = problem.type() == ScalarType::kI8;
  const auto dim = static_cast<size_t>(problem.dim());
  queries_.clear();
  tokens_.clear();
  rows_.clear();
  corrections_.clear();
  factors_.clear();
  for (int64_t query = begin; query < end; ++query) {
    queries.CountingTokens(query, &counting_);
    queries_.push_back({.query = query, .first_lane = tokens_.size(), .num_lanes = counting_.size()});
    for (const int32_t token : counting_) {
      const int64_t row = queries.Begin(query) + token;
      tokens_.push_back(token);
      rows_.push_back(row);
      const float weight = problem.call.weights == nullptr ? 1.0f : problem.call.weights[row];
      if (integers) {
        factors_.push_back(problem.call.weights == nullptr ? queries.Scale(query, row)
                                                           : weight * queries.Scale(query, row));
        const auto* const columns = reinterpret_cast<const int8_t*>(queries.Row(row));
        const int32_t sum = std::accumulate(columns, columns + dim, int32_t{0});
        corrections_.push_back(feed.form == cpu::StepForm::kUnsignedI8Quads ? -128 * sum : 0);
      } else if (problem.call.weights != nullptr) {
        factors_.push_back(weight);
      }
    }
  }
  layout_ = {.lanes = isa.lanes,
             .panel_vectors = isa.panel_vectors,
             .num_vectors = (tokens_.size() + isa.lanes - 1) / isa.lanes,
             .num_steps = cpu::NumSteps(feed, dim)};
  uint32_t* const panels = panels_.Reserve(layout_.size());
  steps_.resize(layout_.num_steps);
  for (size_t lane = 0; lane < tokens_.size(); ++lane) {
    cpu::RowsToSteps(cpu::QueryForm(feed.form), problem.type(), queries.Row(rows_[lane]), 1, dim, steps_.size(),
                     steps_.data());
    cpu::PackQueryToken(layout_, lane, steps_, panels);
  }
  // Zeroes lanes without a token, because random values could slow the arithmetic down.
  steps_.assign(layout_.num_steps, 0);
  for (size_t lane = tokens_.size(); lane < layout_.num_lanes(); ++lane) {
    cpu::PackQueryToken(layout_, lane, steps_, panels);
  }
}

}  // namespace maxsim::library
