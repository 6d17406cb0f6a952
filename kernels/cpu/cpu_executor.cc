#include "kernels/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>

#include "kernels/cpu/loops/kernel_use.h"
#include "kernels/cpu/loops/row_block.h"
#include "kernels/cpu/loops/sum_maxima.h"
#include "kernels/validate.h"

namespace maxsim::cpu {
namespace {

// Maximum number of query tokens in one stack. The packed form of more tokens would not fit the L2 cache, and then
// sharing a document's rows would gain nothing.
constexpr size_t kMaxStackLanes = 1024;

// Maximum number of packed query steps (32-bit words) at a time: 16 MiB, for example 128 queries of 256 FP32 tokens of
// 128 columns. A call with more steps is packed and scored in several waves.
constexpr size_t kMaxWaveSteps = size_t{1} << 22;

// Multiply-adds per work item. An item takes one core about 50 us: much longer than claiming it, but short enough that
// all threads finish at about the same time.
constexpr double kItemWork = 2e6;

// Integer multiply-adds are about this many times as fast as floating-point ones.
constexpr double kIntegerSpeed = 4;

// A call with fewer multiply-adds runs on one thread, because it ends before another thread would wake up.
constexpr double kMinParallelWork = 1e6;

// Merging one result of a thread's selection takes about as long as this many multiply-adds: some nanoseconds.
constexpr double kMergeWork = 50;

// Returns an error if the documents' mapped file has changed. Then results computed from it must be discarded.
absl::Status CheckSource(const DocumentsView& view) {
  return view.source == nullptr ? absl::OkStatus() : view.source->Check();
}

absl::Status OutOfMemory() { return absl::ResourceExhaustedError("no host memory for the call's workspace"); }

absl::StatusOr<const CpuDocuments*> CpuDocumentsOf(const Documents& documents) {
  const auto* cpu_documents = dynamic_cast<const CpuDocuments*>(&documents);
  if (cpu_documents == nullptr) return absl::InvalidArgumentError("documents were made by another backend");
  return cpu_documents;
}

const char* RowPointer(const DocumentsView& view, int64_t token) {
  return static_cast<const char*>(view.tokens) + token * RowBytes(view.type, view.dim);
}

double MeanTokens(const DocumentsView& view) {
  return static_cast<double>(view.num_tokens()) / static_cast<double>(std::max<int64_t>(view.num_documents, 1));
}

// Returns the mean work of scoring one candidate, in floating-point multiply-adds.
double CandidateWork(const DocumentsView& view, size_t num_lanes) {
  return MeanTokens(view) * static_cast<double>(num_lanes) * view.dim /
         (view.type == ScalarType::kI8 ? kIntegerSpeed : 1);
}

// Returns a value that is below every similarity.
template <typename Similarity>
constexpr Similarity kLowest = std::numeric_limits<Similarity>::lowest();
template <>
constexpr float kLowest<float> = -std::numeric_limits<float>::infinity();

// Returns a document's score for a query from the maxima of the query's lanes (tokens). `terms` is scratch of
// query.num_tokens elements.
float ScoreOf(const QueryStack& /*stack*/, size_t first_lane, const Query& query, float /*scale*/, const float* maxima,
              float* /*terms*/) {
  return SumMaxima(maxima + first_lane, query.weights, static_cast<size_t>(query.num_tokens));
}

float ScoreOf(const QueryStack& stack, size_t first_lane, const Query& query, float scale, const int32_t* maxima,
              float* terms) {
  const auto num_tokens = static_cast<size_t>(query.num_tokens);
  for (size_t idx = 0; idx < num_tokens; ++idx) {
    const size_t lane = first_lane + idx;
    terms[idx] = static_cast<float>(maxima[lane] + stack.corrections[lane]);
  }
  return SumMaxima(terms, stack.factors.data() + first_lane, num_tokens, scale);
}

// Returns a similarity as Align reports it. Adding 0 turns -0 into +0, as in SumMaxima.
float SimilarityOf(const QueryStack&, size_t, float /*scale*/, float similarity) { return similarity + 0.0f; }

float SimilarityOf(const QueryStack& stack, size_t lane, float scale, int32_t similarity) {
  return static_cast<float>(similarity + stack.corrections[lane]) * stack.scales[lane] * scale + 0.0f;
}

}  // namespace

CpuExecutor::CpuExecutor(const Isa& isa, ThreadPool& pool) : isa_(isa), pool_(pool), slots_(pool.parallelism()) {}

template <>
const Kernels<float>& CpuExecutor::KernelsFor<float>(ScalarType type) const {
  return FloatKernels(isa_, type);
}

template <>
const Kernels<int32_t>& CpuExecutor::KernelsFor<int32_t>(ScalarType) const {
  return isa_.i8;
}

CpuExecutor::Shape CpuExecutor::ShapeOf(const CpuDocuments& documents) const {
  const DocumentsView& view = documents.view();
  const ScalarType row_type = documents.decoder() == nullptr ? view.type : ScalarType::kF32;
  const Feed& feed = row_type == ScalarType::kI8 ? isa_.i8.feed : FloatKernels(isa_, row_type).feed;
  const auto dim = static_cast<size_t>(view.dim);
  const size_t num_steps = NumSteps(feed, dim);
  return {.view = view,
          .decoder = documents.decoder(),
          .row_type = row_type,
          .feed = feed,
          .num_steps = num_steps,
          .rows_per_block = RowsPerBlock(feed, num_steps),
          .in_place = documents.decoder() == nullptr && StaysInPlace(feed, row_type, dim)};
}

RowBlock CpuExecutor::MakeBlock(const Shape& shape, int64_t token, size_t count, Slot& slot) {
  const DocumentsView& view = shape.view;
  const auto dim = static_cast<size_t>(view.dim);
  uint32_t* const scratch = slot.rows.Reserve(shape.max_rows() * shape.num_steps);
  if (shape.decoder == nullptr) {
    return MakeRowBlock(shape.feed, shape.row_type, RowPointer(view, token), count, dim, scratch);
  }
  auto* const decoded = slot.decoded.ReserveAs<float>(shape.max_rows() * dim);
  for (size_t row = 0; row < count; ++row) {
    shape.decoder->DecodeRow(RowPointer(view, token + static_cast<int64_t>(row)), decoded + row * dim);
  }
  return MakeRowBlock(shape.feed, shape.row_type, decoded, count, dim, scratch);
}

absl::Status CpuExecutor::ForEachItem(size_t num_items, double multiply_adds,
                                      absl::FunctionRef<void(Slot& slot, size_t item)> work) {
  SharedItems items(num_items);
  const auto run = [&](int slot) { items.ForEach([&](size_t item) { work(slots_[slot], item); }); };
  if (num_items < 2 || multiply_adds < kMinParallelWork) {
    run(0);
  } else {
    pool_.Run(run);
  }
  return items.out_of_memory() ? OutOfMemory() : absl::OkStatus();
}

absl::Status CpuExecutor::TopK(const Documents& documents, absl::Span<const Query> queries,
                               absl::Span<std::vector<Scored>> results, CallTimings* timings) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<const CpuDocuments*> cpu_documents = CpuDocumentsOf(documents);
  if (!cpu_documents.ok()) return cpu_documents.status();
  absl::Status status = ValidateTopKCall(queries, results.size(), documents.num_documents());
  if (!status.ok()) return status;
  try {
    status = ScoreAndSelect(**cpu_documents, queries, results);
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

absl::Status CpuExecutor::ScoreAndSelect(const CpuDocuments& documents, absl::Span<const Query> queries,
                                         absl::Span<std::vector<Scored>> results) {
  const Shape shape = ShapeOf(documents);
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
  return status.ok() ? CheckSource(shape.view) : status;
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
  std::vector<size_t> first_item(stacks.size() + 1, 0);  // stack s has items first_item[s] .. first_item[s + 1] - 1
  std::vector<size_t> item_candidates(stacks.size());
  double multiply_adds = 0;
  for (size_t idx = 0; idx < stacks.size(); ++idx) {
    QueryStack& stack = stacks[idx];
    PackStack(queries, shape.feed.form, shape.view, &packing_, &stack, panels + stack.panel_offset);
    const double candidate_work = CandidateWork(shape.view, stack.layout.num_lanes());
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
    if (shape.view.type == ScalarType::kI8) {
      ScoreCandidates<int32_t>(shape, queries, stacks[idx], begin, end, slot);
    } else {
      ScoreCandidates<float>(shape, queries, stacks[idx], begin, end, slot);
    }
  });
}

template <typename Similarity>
void CpuExecutor::ScoreCandidates(const Shape& shape, absl::Span<const Query> queries, const QueryStack& stack,
                                  size_t begin, size_t end, Slot& slot) {
  const DocumentsView& view = shape.view;
  const size_t num_lanes = stack.layout.num_lanes();
  const QueryPanels panels = {panels_.Reserve(0) + stack.panel_offset, stack.layout.num_vectors};
  const Kernels<Similarity>& kernels = KernelsFor<Similarity>(shape.row_type);
  auto* const partial = slot.partial.ReserveAs<Similarity>(isa_.PartialSize(shape.max_rows()));
  auto* const maxima = slot.maxima.ReserveAs<Similarity>(num_lanes);
  float* const terms = slot.terms.ReserveAs<float>(num_lanes);
  const auto ordinal_at = [&](size_t position) {
    return stack.ordinals == nullptr ? position : stack.ordinals[position];
  };
  const KernelUse<Similarity> use(kernels);

  for (size_t position = begin; position < end; ++position) {
    const size_t ordinal = ordinal_at(position);
    const int64_t end_token = view.offsets[ordinal + 1];
    std::fill_n(maxima, num_lanes, kLowest<Similarity>);
    for (int64_t token = view.offsets[ordinal]; token < end_token;) {
      const size_t count = BlockRows(shape.feed, shape.in_place, shape.rows_per_block, end_token - token);
      RowBlock block = MakeBlock(shape, token, count, slot);
      token += static_cast<int64_t>(count);
      // The kernel prefetches the next block: the next one of this document or, after its last block, the first one of
      // the next candidate.
      int64_t next_token = token;
      int64_t next_end = end_token;
      if (token == end_token && position + 1 < end) {
        next_token = view.offsets[ordinal_at(position + 1)];
        next_end = view.offsets[ordinal_at(position + 1) + 1];
      }
      const int64_t next_rows = std::min(next_end - next_token, static_cast<int64_t>(shape.max_rows()));
      block.next = RowPointer(view, next_token);
      block.next_bytes = static_cast<size_t>(next_rows * RowBytes(view.type, view.dim));
      kernels.update_maxima(block, panels, partial, maxima);
    }
    const float scale = view.type == ScalarType::kI8 ? view.scales[ordinal] : 1.0f;
    for (size_t member = 0; member < stack.query_indices.size(); ++member) {
      const size_t query = stack.query_indices[member];
      const float score = ScoreOf(stack, stack.first_lanes[member], queries[query], scale, maxima, terms);
      // A score is NaN only if the documents' file has changed; then CheckSource makes the call fail. Until then a NaN
      // would break the selection, which needs ordered scores.
      slot.selectors[query].Push(
          {std::isnan(score) ? -std::numeric_limits<float>::infinity() : score, static_cast<uint32_t>(position)});
    }
  }
}

absl::Status CpuExecutor::Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                                absl::Span<TokenMatch> matches) {
  absl::StatusOr<const CpuDocuments*> cpu_documents = CpuDocumentsOf(documents);
  if (!cpu_documents.ok()) return cpu_documents.status();
  absl::Status status = ValidateAlignCall(query, ordinals, matches.size(), documents.num_documents());
  if (!status.ok()) return status;
  try {
    return AlignAll(**cpu_documents, query, ordinals, matches);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

absl::Status CpuExecutor::AlignAll(const CpuDocuments& documents, const Query& query,
                                   absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches) {
  const Shape shape = ShapeOf(documents);
  const DocumentsView& view = shape.view;
  std::vector<QueryStack> stacks =
      StackQueries({&query, 1}, shape.view.num_documents, isa_, shape.num_steps, kMaxStackLanes);
  QueryStack& stack = stacks.front();
  PackStack({&query, 1}, shape.feed.form, view, &packing_, &stack, panels_.Reserve(stack.layout.size()));
  const double multiply_adds = CandidateWork(view, stack.layout.num_lanes()) * static_cast<double>(ordinals.size());
  absl::Status status = ForEachItem(ordinals.size(), multiply_adds, [&](Slot& slot, size_t item) {
    TokenMatch* const document_matches = matches.data() + item * stack.num_tokens;
    if (view.type == ScalarType::kI8) {
      AlignDocument<int32_t>(shape, stack, ordinals[item], slot, document_matches);
    } else {
      AlignDocument<float>(shape, stack, ordinals[item], slot, document_matches);
    }
  });
  return status.ok() ? CheckSource(view) : status;
}

template <typename Similarity>
void CpuExecutor::AlignDocument(const Shape& shape, const QueryStack& stack, uint32_t ordinal, Slot& slot,
                                TokenMatch* matches) {
  const DocumentsView& view = shape.view;
  const size_t num_lanes = stack.layout.num_lanes();
  const QueryPanels panels = {panels_.Reserve(0), stack.layout.num_vectors};
  const Kernels<Similarity>& kernels = KernelsFor<Similarity>(shape.row_type);
  auto* const similarities = slot.partial.ReserveAs<Similarity>(shape.max_rows() * num_lanes);
  auto* const best = slot.maxima.ReserveAs<Similarity>(stack.num_tokens);
  const KernelUse<Similarity> use(kernels);

  std::fill_n(best, stack.num_tokens, kLowest<Similarity>);
  for (size_t idx = 0; idx < stack.num_tokens; ++idx) matches[idx].document_token = 0;
  const int64_t first_token = view.offsets[ordinal];
  const int64_t end_token = view.offsets[ordinal + 1];
  for (int64_t token = first_token; token < end_token;) {
    const size_t count = BlockRows(shape.feed, shape.in_place, shape.rows_per_block, end_token - token);
    const RowBlock block = MakeBlock(shape, token, count, slot);
    kernels.similarities(block, panels, similarities);
    for (size_t row = 0; row < count; ++row) {
      const auto document_token = static_cast<int32_t>(token - first_token + static_cast<int64_t>(row));
      const Similarity* const row_similarities = similarities + row * num_lanes;
      for (size_t idx = 0; idx < stack.num_tokens; ++idx) {
        // The comparison is strict, so that the first of equal tokens stays.
        if (row_similarities[idx] > best[idx]) {
          best[idx] = row_similarities[idx];
          matches[idx].document_token = document_token;
        }
      }
    }
    token += static_cast<int64_t>(count);
  }
  const float scale = view.type == ScalarType::kI8 ? view.scales[ordinal] : 1.0f;
  for (size_t idx = 0; idx < stack.num_tokens; ++idx) {
    matches[idx].similarity = SimilarityOf(stack, idx, scale, best[idx]);
  }
}

absl::StatusOr<const Documents*> CpuExecutor::Stage(const DocumentsView& documents) {
  if (absl::Status status = ValidateStaged(documents); !status.ok()) return status;
  staged_ = std::make_unique<CpuDocuments>(documents, nullptr);
  return staged_.get();
}

}  // namespace maxsim::cpu
