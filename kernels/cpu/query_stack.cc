#include "kernels/cpu/query_stack.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/quantize.h"

namespace maxsim::cpu {
namespace {

bool SameCandidates(const Query& query, const QueryStack& stack) {
  if (query.ordinals == nullptr || stack.ordinals == nullptr) return query.ordinals == stack.ordinals;
  return static_cast<size_t>(query.num_candidates) == stack.num_candidates &&
         std::equal(query.ordinals, query.ordinals + query.num_candidates, stack.ordinals);
}

// Rotates and quantises a query's tokens into `columns` [num_tokens, dim], and appends the tokens' scales, factors and
// corrections to the stack.
void Quantise(const Query& query, const DocumentsView& documents, StepForm form, std::vector<int8_t>* columns,
              QueryStack* stack) {
  const auto num_tokens = static_cast<size_t>(query.num_tokens);
  const auto dim = static_cast<size_t>(documents.dim);
  // Copies the rows, because they may be unaligned for floats.
  std::vector<float> rows(num_tokens * dim);
  std::memcpy(rows.data(), query.tokens, rows.size() * sizeof(float));
  columns->resize(rows.size());
  std::vector<float> scales(num_tokens);
  QuantizeQuery(documents.rotation_seed, documents.dim, rows.data(), columns->data(), absl::MakeSpan(scales));
  for (size_t token = 0; token < num_tokens; ++token) {
    const int8_t* const row = columns->data() + token * dim;
    const int32_t sum = std::accumulate(row, row + dim, int32_t{0});
    stack->corrections.push_back(form == StepForm::kUnsignedI8Quads ? -128 * sum : 0);
    stack->scales.push_back(scales[token]);
    stack->factors.push_back(query.weights == nullptr ? scales[token] : query.weights[token] * scales[token]);
  }
}

}  // namespace

std::vector<QueryStack> StackQueries(absl::Span<const Query> queries, int64_t num_documents, const Isa& isa,
                                     size_t num_steps, size_t max_lanes) {
  std::vector<QueryStack> stacks;
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    const Query& query = queries[idx];
    const auto num_tokens = static_cast<size_t>(query.num_tokens);
    auto stack = std::find_if(stacks.begin(), stacks.end(), [&](const QueryStack& candidate) {
      return candidate.num_tokens + num_tokens <= max_lanes && SameCandidates(query, candidate);
    });
    if (stack == stacks.end()) {
      stack = stacks.emplace(stacks.end());
      stack->ordinals = query.ordinals;
      stack->num_candidates = static_cast<size_t>(query.ordinals == nullptr ? num_documents : query.num_candidates);
    }
    stack->query_indices.push_back(idx);
    stack->first_lanes.push_back(stack->num_tokens);
    stack->num_tokens += num_tokens;
  }
  for (QueryStack& stack : stacks) {
    stack.layout = {.lanes = isa.lanes,
                    .panel_vectors = isa.panel_vectors,
                    .num_vectors = (stack.num_tokens + isa.lanes - 1) / isa.lanes,
                    .num_steps = num_steps};
  }
  return stacks;
}

void PackStack(absl::Span<const Query> queries, StepForm form, const DocumentsView& documents, PackScratch* scratch,
               QueryStack* stack, uint32_t* panels) {
  const auto dim = static_cast<size_t>(documents.dim);
  const bool quantised = documents.type == ScalarType::kI8;
  const ScalarType row_type = quantised ? ScalarType::kI8 : QueryType(documents.type);
  const size_t row_bytes = dim * SizeOf(row_type);
  std::vector<uint32_t>& steps = scratch->steps;
  steps.resize(stack->layout.num_steps);
  for (size_t member = 0; member < stack->query_indices.size(); ++member) {
    const Query& query = queries[stack->query_indices[member]];
    const char* rows = static_cast<const char*>(query.tokens);
    if (quantised) {
      Quantise(query, documents, form, &scratch->columns, stack);
      rows = reinterpret_cast<const char*>(scratch->columns.data());
    }
    for (int32_t token = 0; token < query.num_tokens; ++token) {
      RowsToSteps(QueryForm(form), row_type, rows, 1, dim, steps.size(), steps.data());
      PackQueryToken(stack->layout, stack->first_lanes[member] + token, steps, panels);
      rows += row_bytes;
    }
  }
  // Zeroes lanes without a token. Their maxima are never read, but random values could make the arithmetic slow or
  // trap.
  steps.assign(stack->layout.num_steps, 0);
  for (size_t lane = stack->num_tokens; lane < stack->layout.num_lanes(); ++lane) {
    PackQueryToken(stack->layout, lane, steps, panels);
  }
}

}  // namespace maxsim::cpu
