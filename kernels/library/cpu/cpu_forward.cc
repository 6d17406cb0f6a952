#include "kernels/library/cpu/cpu_forward.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/loops/kernel_use.h"
#include "kernels/cpu/loops/pack.h"
#include "kernels/cpu/loops/row_block.h"
#include "kernels/cpu/loops/step_buffer.h"
#include "kernels/cpu/loops/sum_maxima.h"
#include "kernels/library/cpu/host_tokens.h"
#include "kernels/library/cpu/parallel.h"
#include "kernels/library/cpu/query_lanes.h"

namespace maxsim::library {
namespace {

// Maximum number of query tokens that are packed together, as in kernels/cpu. More tokens would not fit the L2 cache.
constexpr int64_t kMaxLanes = 1024;

// Multiply-adds per work item. An item takes one core about 100 us, much longer than claiming it.
constexpr double kForwardItemWork = 4e6;

// A call with fewer multiply-adds runs on one thread, because it ends before another thread would wake up.
constexpr double kMinParallelForwardWork = 1e6;

// Returns a value that is below every similarity.
template <typename Similarity>
constexpr Similarity kBelowAll = std::numeric_limits<Similarity>::lowest();
template <>
constexpr float kBelowAll<float> = -std::numeric_limits<float>::infinity();

// Sets best[lane] and best_index[lane] for each lane (query token) whose similarity with row `index` is higher than
// best[lane]. The first of equal rows stays.
template <typename Similarity>
void RaiseBest(const Similarity* __restrict similarities, size_t num_lanes, int32_t index, Similarity* __restrict best,
               int32_t* __restrict best_index) {
  for (size_t lane = 0; lane < num_lanes; ++lane) {
    const bool higher = similarities[lane] > best[lane];
    best[lane] = higher ? similarities[lane] : best[lane];
    best_index[lane] = higher ? index : best_index[lane];
  }
}

class ForwardPass {
 public:
  ForwardPass(const Problem& problem, const cpu::Isa& isa, float* scores, int32_t* argmax, const RowDecoder* decoder)
      : problem_(problem),
        isa_(isa),
        decoder_(decoder),
        feed_(problem.type() == ScalarType::kI8 ? isa.i8.feed : cpu::FloatKernels(isa, problem.type()).feed),
        documents_(problem.documents),
        num_steps_(cpu::NumSteps(feed_, static_cast<size_t>(problem.dim()))),
        rows_per_block_(cpu::RowsPerBlock(feed_, num_steps_)),
        in_place_(cpu::StaysInPlace(feed_, problem.type(), static_cast<size_t>(problem.dim()))),
        scores_(scores),
        argmax_(argmax) {}

  Status Run() {
    CutIntoItems();
    const int num_threads = work_ < kMinParallelForwardWork ? 1 : NumThreads(problem_.call.num_threads);
    slots_.resize(num_threads);
    return ForEachItem(num_threads, first_item_.back(), [&](int slot, int64_t item) {
      if (problem_.type() == ScalarType::kI8) {
        ScoreItem<int32_t>(isa_.i8, slots_[slot], item);
      } else {
        ScoreItem<float>(cpu::FloatKernels(isa_, problem_.type()), slots_[slot], item);
      }
    });
  }

 private:
  // Consecutive queries that are packed together, and the number of documents that one work item scores with them.
  struct Stack {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t documents_an_item = 1;
  };

  // Scratch memory of one thread.
  struct Slot {
    int64_t stack = -1;  // the stack whose queries are packed
    QueryLanes lanes;
    cpu::StepBuffer rows;
    cpu::StepBuffer partial;  // sums that a kernel keeps between column blocks
    cpu::StepBuffer similarities;
    cpu::StepBuffer maxima;
    cpu::StepBuffer scaled;         // similarities and maxima times the scales of document tokens
    std::vector<int32_t> indices;   // [lanes] of the maxima, among the document's tokens that count
    std::vector<float> terms;       // [lanes] maxima as floats
    std::vector<int32_t> counting;  // tokens of the document that count
    std::vector<char> gathered;     // rows of tokens that count, if they are decoded or not contiguous
  };

  // The rows of a document that count (are not masked): rows first + tokens[i] or, if `tokens` is null, `count`
  // contiguous rows from `first` on.
  struct CountingRows {
    int64_t first = 0;
    size_t count = 0;
    const int32_t* tokens = nullptr;
    int32_t offset = 0;  // contiguous rows: index of row `first` in the document

    int32_t Index(int32_t position) const { return tokens == nullptr ? offset + position : tokens[position]; }
  };

  size_t max_rows() const { return rows_per_block_ + (in_place_ ? feed_.row_multiple : 0); }
  bool indexed() const { return argmax_ != nullptr || problem_.scales_document_tokens(); }

  void CutIntoItems() {
    const HostTokens queries(problem_.queries);
    const bool shared = problem_.call.pairing == MAXSIM_ALL;
    const double mean_tokens = problem_.documents.layout == MAXSIM_SCATTERED
                                   ? static_cast<double>(problem_.documents.max_tokens)
                                   : static_cast<double>(problem_.documents.num_rows) /
                                         static_cast<double>(std::max<int64_t>(problem_.documents.num_sequences, 1));
    first_item_.push_back(0);
    for (int64_t query = 0; query < problem_.queries.num_sequences && problem_.list_length > 0;) {
      Stack stack = {.begin = query, .end = query + 1};
      int64_t num_lanes = queries.Length(query);
      while (shared && stack.end < problem_.queries.num_sequences &&
             num_lanes + queries.Length(stack.end) <= kMaxLanes) {
        num_lanes += queries.Length(stack.end++);
      }
      const double document_work = mean_tokens * static_cast<double>(num_lanes) * problem_.dim();
      const auto wanted = static_cast<int64_t>(kForwardItemWork / std::max(document_work, 1.0));
      stack.documents_an_item = std::clamp<int64_t>(wanted, 1, problem_.list_length);
      work_ += document_work * static_cast<double>(problem_.list_length);
      stacks_.push_back(stack);
      first_item_.push_back(first_item_.back() +
                            (problem_.list_length + stack.documents_an_item - 1) / stack.documents_an_item);
      query = stack.end;
    }
  }

  template <typename Similarity>
  void ScoreItem(const cpu::Kernels<Similarity>& kernels, Slot& slot, int64_t item) {
    const int64_t idx = std::upper_bound(first_item_.begin(), first_item_.end(), item) - first_item_.begin() - 1;
    const Stack& stack = stacks_[idx];
    if (slot.stack != idx) {
      slot.lanes.Pack(problem_, isa_, feed_, stack.begin, stack.end);
      slot.stack = idx;
    }
    const int64_t begin = (item - first_item_[idx]) * stack.documents_an_item;
    const int64_t end = std::min(begin + stack.documents_an_item, problem_.list_length);
    const cpu::KernelUse<Similarity> use(kernels);
    for (int64_t position = begin; position < end; ++position) {
      ScoreDocument<Similarity>(kernels, slot, stack.begin * problem_.list_length + position);
    }
  }

  CountingRows CountingRowsOf(int64_t document, Slot& slot) const {
    const int64_t begin = documents_.Begin(document);
    if (problem_.documents.mask == nullptr) {
      return {.first = begin, .count = static_cast<size_t>(documents_.Length(document))};
    }
    documents_.CountingTokens(document, &slot.counting);
    if (slot.counting.empty()) return {};
    const int32_t first = slot.counting.front();
    CountingRows rows = {.first = begin + first, .count = slot.counting.size(), .offset = first};
    if (slot.counting.back() - first + 1 == static_cast<int32_t>(rows.count)) return rows;
    rows.first = begin;
    rows.tokens = slot.counting.data();
    return rows;
  }

  // Makes a row block of `count` of the rows that count, from index `position` on.
  cpu::RowBlock MakeBlock(const CountingRows& rows, size_t position, size_t count, Slot& slot) const {
    uint32_t* const scratch = slot.rows.Reserve(max_rows() * num_steps_);
    const size_t row_bytes = documents_.RowBytes();
    if (decoder_ != nullptr) {
      slot.gathered.resize(max_rows() * row_bytes);
      DecodeRows(rows, position, count, reinterpret_cast<float*>(slot.gathered.data()));
      return cpu::MakeRowBlock(feed_, problem_.type(), slot.gathered.data(), count, static_cast<size_t>(problem_.dim()),
                               scratch);
    }
    const char* source = documents_.Row(rows.first + static_cast<int64_t>(position));
    if (rows.tokens != nullptr) {
      slot.gathered.resize(max_rows() * row_bytes);
      for (size_t row = 0; row < count; ++row) {
        std::memcpy(slot.gathered.data() + row * row_bytes, documents_.Row(rows.first + rows.tokens[position + row]),
                    row_bytes);
      }
      source = slot.gathered.data();
    }
    cpu::RowBlock block =
        cpu::MakeRowBlock(feed_, problem_.type(), source, count, static_cast<size_t>(problem_.dim()), scratch);
    if (rows.tokens == nullptr) {
      // The rows to prefetch: the next block usually follows in memory.
      const int64_t next = rows.first + static_cast<int64_t>(position + count);
      block.next = documents_.Row(next);
      block.next_bytes = std::min(max_rows(), static_cast<size_t>(problem_.documents.num_rows - next)) * row_bytes;
    }
    return block;
  }

  void DecodeRows(const CountingRows& rows, size_t position, size_t count, float* vectors) const {
    for (size_t row = position; row < position + count; ++row) {
      const int64_t offset = rows.tokens == nullptr ? static_cast<int64_t>(row) : rows.tokens[row];
      decoder_->Decode(rows.first + offset, vectors);
      vectors += problem_.dim();
    }
  }

  // Scores a document against all queries that are packed in the slot. `first_pair` is the index of its pair with the
  // first of these queries.
  template <typename Similarity>
  void ScoreDocument(const cpu::Kernels<Similarity>& kernels, Slot& slot, int64_t first_pair) {
    const int64_t document = DocumentOf(problem_, first_pair);
    const CountingRows rows = CountingRowsOf(document, slot);
    const size_t num_lanes = slot.lanes.num_lanes();
    auto* const maxima = slot.maxima.ReserveAs<Similarity>(num_lanes);
    std::fill_n(maxima, num_lanes, kBelowAll<Similarity>);
    slot.terms.assign(num_lanes, kBelowAll<float>);
    slot.indices.assign(num_lanes, -1);
    if (num_lanes > 0) {
      for (size_t position = 0; position < rows.count;) {
        const size_t count = cpu::BlockRows(feed_, in_place_, rows_per_block_, rows.count - position);
        const cpu::RowBlock block = MakeBlock(rows, position, count, slot);
        if (indexed()) {
          RaiseIndexed<Similarity>(kernels, block, document, rows, static_cast<int32_t>(position), slot, maxima);
        } else {
          auto* const partial = slot.partial.ReserveAs<Similarity>(isa_.PartialSize(max_rows()));
          kernels.update_maxima(block, slot.lanes.panels(), partial, maxima);
        }
        position += count;
      }
    }
    WriteResults<Similarity>(slot, first_pair, document, rows, maxima);
  }

  // Updates the maxima with the similarities of a row block, and slot.indices with the rows of the maxima. If each
  // document token has its own scale, updates slot.terms instead of `maxima`.
  template <typename Similarity>
  void RaiseIndexed(const cpu::Kernels<Similarity>& kernels, const cpu::RowBlock& block, int64_t document,
                    const CountingRows& rows, int32_t position, Slot& slot, Similarity* maxima) {
    const size_t num_lanes = slot.lanes.num_lanes();
    auto* const similarities = slot.similarities.ReserveAs<Similarity>(max_rows() * num_lanes);
    kernels.similarities(block, slot.lanes.panels(), similarities);
    if (!problem_.scales_document_tokens()) {
      for (size_t row = 0; row < block.num_rows; ++row) {
        RaiseBest(similarities + row * num_lanes, num_lanes, position + static_cast<int32_t>(row), maxima,
                  slot.indices.data());
      }
      return;
    }
    const size_t num_tokens = slot.lanes.tokens().size();
    const std::vector<int32_t>& corrections = slot.lanes.corrections();
    float* const scaled = slot.scaled.ReserveAs<float>(num_lanes);
    for (size_t row = 0; row < block.num_rows; ++row) {
      const int32_t token = rows.Index(position + static_cast<int32_t>(row));
      const float scale = documents_.Scale(document, documents_.Begin(document) + token);
      const Similarity* const of_row = similarities + row * num_lanes;
      for (size_t lane = 0; lane < num_tokens; ++lane) {
        if constexpr (std::numeric_limits<Similarity>::is_integer) {
          scaled[lane] = static_cast<float>(of_row[lane] + corrections[lane]) * scale;
        } else {
          scaled[lane] = of_row[lane] * scale;
        }
      }
      RaiseBest(scaled, num_tokens, position + static_cast<int32_t>(row), slot.terms.data(), slot.indices.data());
    }
  }

  template <typename Similarity>
  void WriteResults(Slot& slot, int64_t first_pair, int64_t document, const CountingRows& rows,
                    const Similarity* maxima) {
    const std::vector<int32_t>& tokens = slot.lanes.tokens();
    if (rows.count > 0 && !problem_.scales_document_tokens()) {
      for (size_t lane = 0; lane < tokens.size(); ++lane) {
        if constexpr (sizeof(Similarity) == sizeof(float) && !std::numeric_limits<Similarity>::is_integer) {
          slot.terms[lane] = maxima[lane];
        } else {
          slot.terms[lane] = static_cast<float>(maxima[lane] + slot.lanes.corrections()[lane]);
        }
      }
    }
    const bool integers = problem_.type() == ScalarType::kI8;
    const float scale = integers && !problem_.scales_document_tokens() ? documents_.Scale(document, /*row=*/0) : 1.0f;
    const float* const factors = slot.lanes.factors();
    int64_t pair = first_pair;
    for (const LaneQuery& member : slot.lanes.queries()) {
      if (member.num_lanes == 0) {
        scores_[pair] = 0;
      } else if (rows.count == 0) {
        scores_[pair] = problem_.call.empty_score;
      } else {
        scores_[pair] =
            cpu::SumMaxima(slot.terms.data() + member.first_lane,
                           factors == nullptr ? nullptr : factors + member.first_lane, member.num_lanes, scale);
      }
      if (argmax_ != nullptr) WriteArgmax(slot, member, rows, pair);
      pair += problem_.list_length;
    }
  }

  void WriteArgmax(const Slot& slot, const LaneQuery& member, const CountingRows& rows, int64_t pair) const {
    int32_t* const target = argmax_ + pair * problem_.queries.max_tokens;
    std::fill_n(target, problem_.queries.max_tokens, -1);
    for (size_t lane = member.first_lane; lane < member.first_lane + member.num_lanes; ++lane) {
      const int32_t position = slot.indices[lane];
      if (position >= 0) target[slot.lanes.tokens()[lane]] = rows.Index(position);
    }
  }

  const Problem& problem_;
  const cpu::Isa& isa_;
  const RowDecoder* const decoder_;  // null where documents are vectors
  const cpu::Feed& feed_;
  const HostTokens documents_;
  const size_t num_steps_;
  const size_t rows_per_block_;
  const bool in_place_;
  float* const scores_;
  int32_t* const argmax_;
  std::vector<Stack> stacks_;
  std::vector<int64_t> first_item_;  // stack s has items first_item_[s] .. first_item_[s + 1] - 1
  double work_ = 0;                  // multiply-adds
  std::vector<Slot> slots_;
};

}  // namespace

Status CpuForward(const Problem& problem, const cpu::Isa& isa, float* scores, int32_t* argmax,
                  const RowDecoder* decoder) {
  return ForwardPass(problem, isa, scores, argmax, decoder).Run();
}

}  // namespace maxsim::library
