// Stacks: queries with the same candidates, packed side by side so that each document is read once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/pack.h"
#include "kernels/maxsim.h"

namespace maxsim::cpu {

struct QueryStack {
  std::vector<size_t> query_indices;   // into the call's queries
  std::vector<size_t> first_lanes;     // [query_indices.size()]: each query's first lane
  const uint32_t* ordinals = nullptr;  // null if every document is a candidate
  size_t num_candidates = 0;
  PanelLayout layout;
  size_t panel_offset = 0;  // where this stack's panels begin in the executor's buffer, in steps

  size_t num_tokens = 0;  // lanes in use

  // Only for I8 documents, one element per lane (query token): the number to add to an integer similarity (see
  // StepForm::kUnsignedI8Quads), the token's scale, and this scale times the token's weight.
  std::vector<int32_t> corrections;
  std::vector<float> scales;
  std::vector<float> factors;
};

// Buffers for PackStack, which its caller keeps between calls to avoid allocations.
struct PackScratch {
  std::vector<uint32_t> steps;
  std::vector<int8_t> columns;
};

// Groups queries with the same candidates into stacks of at most `max_lanes` query tokens (or one query). The stacks
// are in the order of their first queries.
std::vector<QueryStack> StackQueries(absl::Span<const Query> queries, int64_t num_documents, const Isa& isa,
                                     size_t num_steps, size_t max_lanes);

// Packs the queries of a stack into `panels`, which has stack.layout.size() steps, for kernels that take `form`. For I8
// documents, rotates and quantises the queries first, and sets the stack's corrections, scales and factors.
void PackStack(absl::Span<const Query> queries, StepForm form, const DocumentsView& documents, PackScratch* scratch,
               QueryStack* stack, uint32_t* panels);

}  // namespace maxsim::cpu
