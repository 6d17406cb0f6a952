#include "kernels/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>

#include "kernels/cpu/row_block.h"
#include "kernels/validate.h"

namespace maxsim::cpu {
namespace {

// Query tokens of one stack: beyond this the panels leave the second-level cache and sharing a document's rows gains
// nothing.
constexpr size_t kMaxStackLanes = 1024;

// Steps of packed queries at a time: 16 MiB, 128 queries of 256 tokens. A call with more runs in several waves.
constexpr size_t kMaxWaveSteps = size_t{1} << 22;

// Multiply-adds of one item of work: about 50 us of one core, much more than claiming it costs, and little enough that
// threads end together.
constexpr double kItemWork = 2e6;

// Below this a call is done before another thread has woken up.
constexpr double kMinParallelWork = 1e6;

// What merging one selected result is worth in multiply-adds: some nanoseconds.
constexpr double kMergeWork = 50;

// Whether what was made of the documents' memory is to be believed.
absl::Status CheckSource(const DocumentsView& view) {
  return view.source == nullptr ? absl::OkStatus() : view.source->Check();
}

absl::Status OutOfMemory() { return absl::ResourceExhaustedError("no host memory for the call's workspace"); }

absl::StatusOr<const DocumentsView*> ViewOf(const Documents& documents) {
  const auto* cpu_documents = dynamic_cast<const CpuDocuments*>(&documents);
  if (cpu_documents == nullptr) return absl::InvalidArgumentError("documents were made by another backend");
  return &cpu_documents->view();
}

const void* RowPointer(const DocumentsView& view, int64_t token) {
  return static_cast<const char*>(view.tokens) + static_cast<size_t>(token) * view.dim * SizeOf(view.type);
}

double MeanTokens(const DocumentsView& view) {
  return static_cast<double>(view.num_tokens()) / static_cast<double>(std::max<int64_t>(view.num_documents, 1));
}

}  // namespace

uint32_t* StepBuffer::Reserve(size_t num_steps) {
  if (num_steps > capacity_) {
    memory_.reset();
    capacity_ = 0;  // also when there is no memory for more
    memory_.reset(static_cast<uint32_t*>(::operator new (num_steps * sizeof(uint32_t), std::align_val_t{64})));
    capacity_ = num_steps;
  }
  return memory_.get();
}

CpuExecutor::CpuExecutor(const Isa& isa, ThreadPool& pool) : isa_(isa), pool_(pool), slots_(pool.parallelism()) {}

CpuExecutor::Shape CpuExecutor::ShapeOf(const DocumentsView& view) const {
  const StepForm form = FormFor(isa_, view.type);
  const size_t num_steps = NumSteps(form, view.dim);
  return {view, form, num_steps, RowsPerBlock(isa_, num_steps)};
}

absl::Status CpuExecutor::ForEachItem(size_t num_items, double multiply_adds,
                                      absl::FunctionRef<void(Slot& slot, size_t item)> work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> out_of_memory{false};
  const auto run = [&](int slot) {
    try {
      for (size_t item = next.fetch_add(1, std::memory_order_relaxed); item < num_items;
           item = next.fetch_add(1, std::memory_order_relaxed)) {
        work(slots_[slot], item);
      }
    } catch (const std::bad_alloc&) {
      // On a worker it would end the process; on the caller's thread it would leave the pool with a dangling job.
      out_of_memory.store(true, std::memory_order_relaxed);
      next.store(num_items, std::memory_order_relaxed);
    }
  };
  if (num_items < 2 || multiply_adds < kMinParallelWork) {
    run(0);
  } else {
    pool_.Run(run);
  }
  return out_of_memory.load(std::memory_order_relaxed) ? OutOfMemory() : absl::OkStatus();
}

absl::Status CpuExecutor::TopK(const Documents& documents, absl::Span<const Query> queries,
                               absl::Span<std::vector<Scored>> results, CallTimings* timings) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<const DocumentsView*> view = ViewOf(documents);
  if (!view.ok()) return view.status();
  absl::Status status = ValidateTopKCall(queries, results.size(), documents.num_documents());
  if (!status.ok()) return status;
  try {
    status = ScoreAndSelect(**view, queries, results);
  } catch (const std::bad_alloc&) {
    status = OutOfMemory();
  }
  if (!status.ok()) return status;
  if (timings != nullptr) {
    *timings = {};
    timings->kernel_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return absl::OkStatus();
}

absl::Status CpuExecutor::ScoreAndSelect(const DocumentsView& view, absl::Span<const Query> queries,
                                         absl::Span<std::vector<Scored>> results) {
  const Shape shape = ShapeOf(view);
  for (Slot& slot : slots_) slot.used = false;

  std::vector<QueryStack> stacks =
      StackQueries(queries, shape.view.num_documents, isa_, shape.num_steps, kMaxStackLanes);
  for (size_t begin = 0; begin < stacks.size();) {
    size_t end = begin;
    size_t wave_steps = 0;
    while (end < stacks.size() && (end == begin || wave_steps + stacks[end].layout.size() <= kMaxWaveSteps)) {
      stacks[end].panel_offset = wave_steps;
      wave_steps += stacks[end].layout.size();
      ++end;
    }
    panels_.Reserve(wave_steps);
    absl::Status status = ScoreWave(shape, queries, absl::MakeSpan(stacks).subspan(begin, end - begin));
    if (!status.ok()) return status;
    begin = end;
  }
  absl::Status status = MergeSelections(results);
  return status.ok() ? CheckSource(view) : status;
}

absl::Status CpuExecutor::MergeSelections(absl::Span<std::vector<Scored>> results) {
  std::vector<Slot*> used;
  size_t num_kept = 0;
  for (Slot& slot : slots_) {
    if (!slot.used) continue;
    used.push_back(&slot);
    for (size_t query = 0; query < results.size(); ++query) num_kept += slot.selectors[query].kept().size();
  }
  return ForEachItem(results.size(), static_cast<double>(num_kept) * kMergeWork, [&](Slot&, size_t query) {
    results[query].clear();
    if (used.empty()) return;
    TopKSelector& merged = used.front()->selectors[query];
    for (size_t idx = 1; idx < used.size(); ++idx) {
      TopKSelector& selector = used[idx]->selectors[query];
      for (const Scored& scored : selector.kept()) merged.Push(scored);
      selector.Clear();
    }
    merged.Finish(&results[query]);
    merged.Clear();
  });
}

absl::Status CpuExecutor::ScoreWave(const Shape& shape, absl::Span<const Query> queries,
                                    absl::Span<QueryStack> stacks) {
  uint32_t* const panels = panels_.Reserve(0);
  std::vector<size_t> first_item(stacks.size() + 1, 0);  // items of stack s: first_item[s] .. first_item[s + 1]
  std::vector<size_t> item_candidates(stacks.size());
  double multiply_adds = 0;
  for (size_t idx = 0; idx < stacks.size(); ++idx) {
    const QueryStack& stack = stacks[idx];
    PackStack(stack, queries, shape.form, shape.view.type, shape.view.dim, &packing_row_, panels + stack.panel_offset);
    const double candidate_work =
        MeanTokens(shape.view) * static_cast<double>(stack.layout.num_lanes()) * shape.view.dim;
    item_candidates[idx] = static_cast<size_t>(std::clamp(kItemWork / std::max(candidate_work, 1.0), 1.0, 4096.0));
    first_item[idx + 1] = first_item[idx] + (stack.num_candidates + item_candidates[idx] - 1) / item_candidates[idx];
    multiply_adds += candidate_work * static_cast<double>(stack.num_candidates);
  }
  return ForEachItem(first_item.back(), multiply_adds, [&](Slot& slot, size_t item) {
    if (!slot.used) {
      if (slot.selectors.size() < queries.size()) slot.selectors.resize(queries.size());
      for (size_t query = 0; query < queries.size(); ++query) slot.selectors[query].Reset(queries[query].top_k);
      slot.used = true;
    }
    const size_t idx = std::upper_bound(first_item.begin(), first_item.end(), item) - first_item.begin() - 1;
    const size_t begin = (item - first_item[idx]) * item_candidates[idx];
    const size_t end = std::min(begin + item_candidates[idx], stacks[idx].num_candidates);
    ScoreCandidates(shape, queries, stacks[idx], begin, end, slot);
  });
}

void CpuExecutor::ScoreCandidates(const Shape& shape, absl::Span<const Query> queries, const QueryStack& stack,
                                  size_t begin, size_t end, Slot& slot) {
  const DocumentsView& view = shape.view;
  const QueryPanels panels = {panels_.Reserve(0) + stack.panel_offset, stack.layout.num_vectors};
  const Kernels& kernels = KernelsFor(isa_, shape.form);
  uint32_t* const scratch = slot.rows.Reserve(shape.rows_per_block * shape.num_steps);
  float* const partial = slot.partial.ReserveFloats(isa_.PartialSize(shape.rows_per_block));
  float* const maxima = slot.maxima.ReserveFloats(stack.layout.num_lanes());

  for (size_t position = begin; position < end; ++position) {
    const size_t ordinal = stack.ordinals == nullptr ? position : stack.ordinals[position];
    const int64_t end_token = view.offsets[ordinal + 1];
    std::fill_n(maxima, stack.layout.num_lanes(), -std::numeric_limits<float>::infinity());
    for (int64_t token = view.offsets[ordinal]; token < end_token; token += shape.rows_per_block) {
      const size_t count = std::min<size_t>(shape.rows_per_block, end_token - token);
      const RowBlock block =
          MakeRowBlock(isa_, shape.form, view.type, RowPointer(view, token), count, view.dim, scratch);
      kernels.update_maxima(block, panels, partial, maxima);
    }
    for (size_t member = 0; member < stack.query_indices.size(); ++member) {
      const size_t query = stack.query_indices[member];
      const float score = SumMaxima(maxima + stack.first_lanes[member], queries[query].weights,
                                    static_cast<size_t>(queries[query].num_tokens));
      // NaN comes only out of memory that changed, for which the call will fail; until then it would break the order
      // that selection relies on.
      slot.selectors[query].Push(
          {std::isnan(score) ? -std::numeric_limits<float>::infinity() : score, static_cast<uint32_t>(position)});
    }
  }
}

absl::Status CpuExecutor::Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                                absl::Span<TokenMatch> matches) {
  absl::StatusOr<const DocumentsView*> view = ViewOf(documents);
  if (!view.ok()) return view.status();
  absl::Status status = ValidateAlignCall(query, ordinals, matches.size(), documents.num_documents());
  if (!status.ok()) return status;
  try {
    return AlignAll(**view, query, ordinals, matches);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

absl::Status CpuExecutor::AlignAll(const DocumentsView& view, const Query& query, absl::Span<const uint32_t> ordinals,
                                   absl::Span<TokenMatch> matches) {
  const Shape shape = ShapeOf(view);
  const std::vector<QueryStack> stacks =
      StackQueries({&query, 1}, shape.view.num_documents, isa_, shape.num_steps, kMaxStackLanes);
  const QueryStack& stack = stacks.front();
  PackStack(stack, {&query, 1}, shape.form, shape.view.type, shape.view.dim, &packing_row_,
            panels_.Reserve(stack.layout.size()));
  const double multiply_adds = MeanTokens(shape.view) * static_cast<double>(ordinals.size()) *
                               static_cast<double>(stack.layout.num_lanes()) * shape.view.dim;
  absl::Status status = ForEachItem(ordinals.size(), multiply_adds, [&](Slot& slot, size_t item) {
    AlignDocument(shape, stack, ordinals[item], slot, matches.data() + item * stack.num_tokens);
  });
  return status.ok() ? CheckSource(view) : status;
}

void CpuExecutor::AlignDocument(const Shape& shape, const QueryStack& stack, uint32_t ordinal, Slot& slot,
                                TokenMatch* matches) {
  const DocumentsView& view = shape.view;
  const size_t num_lanes = stack.layout.num_lanes();
  const QueryPanels panels = {panels_.Reserve(0), stack.layout.num_vectors};
  uint32_t* const scratch = slot.rows.Reserve(shape.rows_per_block * shape.num_steps);
  float* const similarities = slot.partial.ReserveFloats(shape.rows_per_block * num_lanes);

  std::fill_n(matches, stack.num_tokens, TokenMatch{0, -std::numeric_limits<float>::infinity()});
  const int64_t first_token = view.offsets[ordinal];
  const int64_t end_token = view.offsets[ordinal + 1];
  for (int64_t token = first_token; token < end_token; token += shape.rows_per_block) {
    const size_t count = std::min<size_t>(shape.rows_per_block, end_token - token);
    const RowBlock block = MakeRowBlock(isa_, shape.form, view.type, RowPointer(view, token), count, view.dim, scratch);
    KernelsFor(isa_, shape.form).similarities(block, panels, similarities);
    for (size_t row = 0; row < count; ++row) {
      const auto document_token = static_cast<int32_t>(token - first_token + static_cast<int64_t>(row));
      const float* const row_similarities = similarities + row * num_lanes;
      for (size_t idx = 0; idx < stack.num_tokens; ++idx) {
        // Strictly greater: of equal tokens the first one stays. + 0: as in SumMaxima.
        if (row_similarities[idx] > matches[idx].similarity) {
          matches[idx] = {document_token, row_similarities[idx] + 0.0f};
        }
      }
    }
  }
}

absl::StatusOr<const Documents*> CpuExecutor::Stage(const DocumentsView& documents) {
  if (absl::Status status = ValidateDocuments(documents); !status.ok()) return status;
  staged_ = std::make_unique<CpuDocuments>(documents, nullptr);
  return staged_.get();
}

}  // namespace maxsim::cpu
