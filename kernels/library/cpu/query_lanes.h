// Queries that are packed side by side, so that a document is read once for all of them. Like QueryStack
// (kernels/cpu/query_stack.h), but with the masks, weights and scales of the library's calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/pack.h"
#include "kernels/cpu/loops/step_buffer.h"
#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// The lanes of one query.
struct LaneQuery {
  int64_t query = 0;
  size_t first_lane = 0;
  size_t num_lanes = 0;  // tokens that count
};

// The packed tokens of consecutive queries. Each token that counts (is not masked) has a lane.
class QueryLanes {
 public:
  // Packs queries `begin` .. `end` - 1 for kernels that take `feed`.
  void Pack(const Problem& problem, const cpu::Isa& isa, const cpu::Feed& feed, int64_t begin, int64_t end);

  const std::vector<LaneQuery>& queries() const { return queries_; }
  // Returns the number of lanes, including those that pad the last vector.
  size_t num_lanes() const { return layout_.num_lanes(); }
  cpu::QueryPanels panels() { return {panels_.Reserve(0), layout_.num_vectors}; }

  // These arrays are indexed by lane, and have one element for each token that counts.
  const std::vector<int32_t>& tokens() const { return tokens_; }            // indices inside the queries
  const std::vector<int32_t>& corrections() const { return corrections_; }  // I8: added to the similarities
  // Returns the products of weights and scales, or null if all are 1.
  const float* factors() const { return factors_.empty() ? nullptr : factors_.data(); }

 private:
  cpu::PanelLayout layout_;
  cpu::StepBuffer panels_;
  std::vector<LaneQuery> queries_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> corrections_;
  std::vector<float> factors_;
  // Scratch memory of Pack, kept from call to call.
  std::vector<int64_t> rows_;
  std::vector<int32_t> counting_;
  std::vector<uint32_t> steps_;
};

}  // namespace maxsim::library
