#include "kernels/cpu/codes/code_scanner.h"

#include <algorithm>
#include <limits>
#include <new>

#include "kernels/codes/query_codes.h"
#include "kernels/cpu/codes/expand.h"
#include "kernels/cpu/loops/kernel_use.h"
#include "kernels/cpu/loops/row_block.h"

namespace maxsim {
namespace {

// Maximum number of query tokens that are multiplied with the same expanded rows. The packed form of more tokens would
// not fit the L2 cache.
constexpr size_t kMaxStackLanes = 1024;

// Integer multiply-adds per work item. An item takes one core about 100 us.
constexpr double kItemWork = 8e6;

bool MayBeSelected(const ScanQuery& query, size_t document) {
  return query.mask == nullptr || (query.mask[document / 64] >> (document % 64) & 1) != 0;
}

// Returns a document's estimate or upper bound, whichever query.order selects by. `maxima` has max_j I_ij for each
// query token i (kernels/codes/query_codes.h).
float ScoreOfMaxima(const CodesView& codes, const ScanQuery& query, size_t document, const int64_t* maxima) {
  const QueryCodes& query_codes = *query.codes;
  const bool bounds = query.order == ScanOrder::kUpperBound;
  int64_t sum = 0;
  for (int32_t token = 0; token < query_codes.num_tokens; ++token) {
    const int64_t term = query_codes.multipliers[token] * maxima[token];
    sum += bounds ? std::max<int64_t>(term, 0) : term;
  }
  const float scale = codes.scales[document];
  return bounds ? UpperBound(query_codes, sum, scale, codes.bounds[BoundIndex(query_codes.planes)][document])
                : Estimate(query_codes, sum, scale);
}

}  // namespace

absl::Status CodeScanner::Scan(const CodesView& codes, absl::Span<const ScanQuery> queries,
                               absl::Span<std::vector<Scored>> results) {
  const CodeAvailability available{
      .shape = codes.shape,
      .planes = codes.planes,
      .num_documents = codes.num_documents,
      .has_bounds = {codes.bounds[0] != nullptr, codes.bounds[1] != nullptr, codes.bounds[2] != nullptr}};
  if (absl::Status s = ValidateScan(available, queries, results.size()); !s.ok()) return s;
  try {
    for (Slot& slot : slots_) slot.used = false;
    for (Stack& stack : StackQueries(codes, queries)) {
      PackStack(queries, &stack);
      if (absl::Status s = ScanStack(codes, queries, stack); !s.ok()) return s;
    }
    for (size_t query = 0; query < queries.size(); ++query) {
      TopKSelector merged;
      merged.Reset(queries[query].num_results);
      for (Slot& slot : slots_) {
        if (!slot.used) continue;
        for (const Scored& scored : slot.selectors[query].kept()) merged.Push(scored);
        slot.selectors[query].Clear();
      }
      merged.Finish(&results[query]);
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no host memory for the scan's workspace");
  }
}

std::vector<CodeScanner::Stack> CodeScanner::StackQueries(const CodesView& codes,
                                                          absl::Span<const ScanQuery> queries) const {
  std::vector<Stack> stacks;
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    const ScanQuery& query = queries[idx];
    const auto num_tokens = static_cast<size_t>(query.codes->num_tokens);
    auto stack = std::find_if(stacks.begin(), stacks.end(), [&](const Stack& candidate) {
      const bool same =
          query.ordinals == candidate.ordinals &&
          (query.ordinals == nullptr || candidate.num_candidates == static_cast<size_t>(query.num_candidates));
      return same && candidate.planes == query.codes->planes && candidate.num_tokens + num_tokens <= kMaxStackLanes;
    });
    if (stack == stacks.end()) {
      stack = stacks.emplace(stacks.end());
      stack->planes = query.codes->planes;
      stack->ordinals = query.ordinals;
      stack->num_candidates =
          static_cast<size_t>(query.ordinals == nullptr ? codes.num_documents : query.num_candidates);
    }
    stack->query_indices.push_back(idx);
    stack->first_lanes.push_back(stack->num_tokens);
    stack->num_tokens += num_tokens;
  }
  const auto num_columns = static_cast<size_t>(CodeColumns(codes.shape.dim));
  for (Stack& stack : stacks) {
    stack.layout = {.lanes = isa_.lanes,
                    .panel_vectors = isa_.panel_vectors,
                    .num_vectors = (stack.num_tokens + isa_.lanes - 1) / isa_.lanes,
                    .num_steps = cpu::NumSteps(isa_.i8.feed, num_columns)};
  }
  return stacks;
}

void CodeScanner::PackStack(absl::Span<const ScanQuery> queries, Stack* stack) {
  const cpu::StepForm form = isa_.i8.feed.form;
  uint32_t* const panels = panels_.Reserve(stack->layout.size());
  std::vector<uint32_t> steps(stack->layout.num_steps);
  stack->panels = panels;
  stack->offsets.assign(stack->layout.num_lanes(), 0);
  for (size_t member = 0; member < stack->query_indices.size(); ++member) {
    const QueryCodes& query = *queries[stack->query_indices[member]].codes;
    for (int32_t token = 0; token < query.num_tokens; ++token) {
      const size_t lane = stack->first_lanes[member] + static_cast<size_t>(token);
      cpu::CodeQuerySteps(form, query, token, absl::MakeSpan(steps));
      cpu::PackQueryToken(stack->layout, lane, steps, panels);
      stack->offsets[lane] = cpu::ProductOffset(form, query, token);
    }
  }
  std::fill(steps.begin(), steps.end(), 0);
  for (size_t lane = stack->num_tokens; lane < stack->layout.num_lanes(); ++lane) {
    cpu::PackQueryToken(stack->layout, lane, steps, panels);
  }
}

absl::Status CodeScanner::ScanStack(const CodesView& codes, absl::Span<const ScanQuery> queries, const Stack& stack) {
  const double mean_tokens =
      static_cast<double>(codes.num_tokens()) / static_cast<double>(std::max<int64_t>(codes.num_documents, 1));
  const double candidate_work =
      std::max(1.0, mean_tokens * static_cast<double>(stack.layout.num_lanes()) * CodeColumns(codes.shape.dim));
  const auto item_candidates = static_cast<size_t>(std::clamp(kItemWork / candidate_work, 1.0, 4096.0));
  return ForEachItem((stack.num_candidates + item_candidates - 1) / item_candidates, [&](Slot& slot, size_t item) {
    if (!slot.used) {
      slot.selectors.resize(std::max(slot.selectors.size(), queries.size()));
      for (size_t query = 0; query < queries.size(); ++query) slot.selectors[query].Reset(queries[query].num_results);
      slot.used = true;
    }
    const size_t begin = item * item_candidates;
    ScanCandidates(codes, queries, stack, begin, std::min(begin + item_candidates, stack.num_candidates), slot);
  });
}

void CodeScanner::ScanCandidates(const CodesView& codes, absl::Span<const ScanQuery> queries, const Stack& stack,
                                 size_t begin, size_t end, Slot& slot) const {
  const cpu::KernelUse<int32_t> use(isa_.i8);
  const auto document_at = [&](size_t position) {
    return stack.ordinals == nullptr ? position : stack.ordinals[position];
  };
  for (size_t position = begin; position < end; ++position) {
    const size_t document = document_at(position);
    const bool wanted = std::any_of(stack.query_indices.begin(), stack.query_indices.end(),
                                    [&](size_t query) { return MayBeSelected(queries[query], document); });
    if (!wanted) continue;
    const size_t next = position + 1 < end ? document_at(position + 1) : document;
    FindMaxima(codes, stack, static_cast<int64_t>(document), static_cast<int64_t>(next), slot);
    for (size_t member = 0; member < stack.query_indices.size(); ++member) {
      const size_t query = stack.query_indices[member];
      if (!MayBeSelected(queries[query], document)) continue;
      const int64_t* const maxima = slot.scaled_maxima.data() + stack.first_lanes[member];
      slot.selectors[query].Push(
          {ScoreOfMaxima(codes, queries[query], document, maxima), static_cast<uint32_t>(position)});
    }
  }
}

void CodeScanner::FindMaxima(const CodesView& codes, const Stack& stack, int64_t document, int64_t next_document,
                             Slot& slot) const {
  const cpu::Feed& feed = isa_.i8.feed;
  const size_t num_lanes = stack.layout.num_lanes();
  const size_t num_steps = stack.layout.num_steps;
  const size_t max_rows = cpu::RowsPerBlock(feed, num_steps);
  const size_t row_bytes = PlaneRowBytes(codes.shape.dim);
  uint32_t* const rows = slot.rows.Reserve(max_rows * num_steps);
  auto* const columns = reinterpret_cast<int8_t*>(
      slot.columns.Reserve(max_rows * static_cast<size_t>(CodeColumns(codes.shape.dim)) / sizeof(uint32_t)));
  // The kernel's scratch memory. For codes with factors, the kernel instead writes the products of all rows and lanes.
  auto* const products = slot.products.ReserveAs<int32_t>(
      std::max(isa_.PartialSize(max_rows), codes.shape.factors ? max_rows * num_lanes : 0));
  auto* const maxima = slot.maxima.ReserveAs<int32_t>(num_lanes);
  const cpu::QueryPanels panels = {stack.panels, stack.layout.num_vectors};
  const int64_t scale = cpu::ProductScale(feed.form, stack.planes);
  std::fill_n(maxima, num_lanes, std::numeric_limits<int32_t>::lowest());
  slot.scaled_maxima.assign(num_lanes, std::numeric_limits<int64_t>::lowest());

  const int64_t end = codes.offsets[document + 1];
  for (int64_t token = codes.offsets[document]; token < end;) {
    const auto count = static_cast<size_t>(std::min<int64_t>(end - token, static_cast<int64_t>(max_rows)));
    cpu::ExpandCodes(feed.form, stack.planes, codes, token, count, num_steps, columns, rows);
    // The last row is repeated to fill a tile.
    for (size_t row = count; row % feed.row_multiple != 0; ++row) {
      std::copy_n(rows + (count - 1) * num_steps, num_steps, rows + row * num_steps);
    }
    const int64_t first = token;
    token += static_cast<int64_t>(count);
    const int64_t next = token < end ? token : codes.offsets[next_document];
    const int64_t next_end = token < end ? end : codes.offsets[next_document + 1];
    cpu::RowBlock block = {.rows = rows, .num_rows = count, .num_steps = num_steps};
    block.next = reinterpret_cast<const char*>(codes.plane0) + static_cast<size_t>(next) * row_bytes;
    block.next_bytes =
        static_cast<size_t>(std::min<int64_t>(next_end - next, static_cast<int64_t>(max_rows))) * row_bytes;
    if (!codes.shape.factors) {
      isa_.i8.update_maxima(block, panels, products, maxima);
      continue;
    }
    isa_.i8.similarities(block, panels, products);
    for (size_t row = 0; row < count; ++row) {
      const int64_t factor = codes.factors[first + static_cast<int64_t>(row)];
      const int32_t* const row_products = products + row * num_lanes;
      for (size_t lane = 0; lane < num_lanes; ++lane) {
        const int64_t product = (scale * row_products[lane] + stack.offsets[lane]) * factor;
        slot.scaled_maxima[lane] = std::max(slot.scaled_maxima[lane], product);
      }
    }
  }
  if (codes.shape.factors) return;
  for (size_t lane = 0; lane < num_lanes; ++lane) {
    slot.scaled_maxima[lane] = scale * maxima[lane] + stack.offsets[lane];
  }
}

absl::Status CodeScanner::ForEachItem(size_t num_items, absl::FunctionRef<void(Slot& slot, size_t item)> work) {
  SharedItems items(num_items);
  const auto run = [&](int slot) { items.ForEach([&](size_t item) { work(slots_[slot], item); }); };
  if (num_items < 2) {
    run(0);
  } else {
    pool_.Run(run);
  }
  return items.out_of_memory() ? absl::ResourceExhaustedError("no host memory for the scan's workspace")
                               : absl::OkStatus();
}

}  // namespace maxsim
