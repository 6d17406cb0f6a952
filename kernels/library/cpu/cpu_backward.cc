#include "kernels/library/cpu/cpu_backward.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/library/cpu/host_tokens.h"
#include "kernels/library/cpu/parallel.h"

namespace maxsim::library {
namespace {

// Multiply-adds per work item, which take one core about 50 us.
constexpr double kBackwardItemWork = 2e5;

// A token of a query and the token of a document that it matched.
struct Match {
  int64_t pair = 0;
  int64_t query_row = 0;
  int64_t document_row = 0;
};

class BackwardPass {
 public:
  BackwardPass(const Problem& problem, const maxsim_gradients& gradients, const RowDecoder* decoder)
      : problem_(problem),
        gradients_(gradients),
        decoder_(decoder),
        queries_(problem.queries),
        documents_(problem.documents),
        dim_(static_cast<size_t>(problem.dim())) {}

  Status Run() {
    if (Status status = CheckArgmax(); !status.ok()) return status;
    if (gradients_.query_gradients != nullptr || gradients_.weight_gradients != nullptr) {
      if (Status status = QueryGradients(); !status.ok()) return status;
    }
    return gradients_.document_gradients == nullptr ? Status{} : DocumentGradients();
  }

 private:
  // Scratch memory of one thread.
  struct Slot {
    std::vector<float> row;     // a row of the inputs, widened
    std::vector<float> sum;     // the gradient's row
    std::vector<float> factor;  // the query's row, widened
  };

  float Weight(int64_t query_row) const {
    return problem_.call.weights == nullptr ? 1.0f : problem_.call.weights[query_row];
  }

  // Returns the argmax of a pair: max_tokens entries, one per query token.
  const int32_t* Argmax(int64_t pair) const { return gradients_.argmax + pair * problem_.queries.max_tokens; }

  // Returns an error if an entry of the argmax points outside of its document: rows are read where the entries point.
  Status CheckArgmax() const {
    for (int64_t pair = 0; pair < problem_.num_pairs; ++pair) {
      const int64_t length = documents_.Length(DocumentOf(problem_, pair));
      const int64_t num_tokens = queries_.Length(pair / problem_.list_length);
      for (int64_t token = 0; token < num_tokens; ++token) {
        const int32_t match = Argmax(pair)[token];
        if (match < -1 || match >= length) {
          return InvalidArgument("argmax of pair " + std::to_string(pair) + ", query token " + std::to_string(token) +
                                 " is " + std::to_string(match) + "; its document has " + std::to_string(length) +
                                 " tokens");
        }
      }
    }
    return {};
  }

  // Calls visit(match) for every match of a pair, in the order of the query's tokens.
  template <typename Visit>
  void ForEachMatch(int64_t pair, Visit visit) const {
    const int64_t query = pair / problem_.list_length;
    const int64_t query_begin = queries_.Begin(query);
    const int64_t document_begin = documents_.Begin(DocumentOf(problem_, pair));
    const int64_t num_tokens = queries_.Length(query);
    for (int64_t token = 0; token < num_tokens; ++token) {
      const int32_t match = Argmax(pair)[token];
      if (match >= 0) visit(Match{pair, query_begin + token, document_begin + match});
    }
  }

  void Widen(const char* row, std::vector<float>* target) const {
    ConvertElements(problem_.type(), row, ScalarType::kF32, target->data(), dim_);
  }
  void ReadDocumentRow(int64_t row, std::vector<float>* target) const {
    if (decoder_ != nullptr) {
      decoder_->Decode(row, target->data());
    } else {
      Widen(documents_.Row(row), target);
    }
  }
  void Narrow(const std::vector<float>& row, void* gradients, int64_t row_idx) const {
    ConvertElements(ScalarType::kF32, row.data(), problem_.type(),
                    static_cast<char*>(gradients) + row_idx * static_cast<int64_t>(queries_.RowBytes()), dim_);
  }

  // Adds the row, times the factor, to the target.
  static void AddScaled(const std::vector<float>& row, float factor, std::vector<float>* target) {
    const float* const __restrict from = row.data();
    float* const __restrict to = target->data();
    for (size_t column = 0; column < row.size(); ++column) to[column] += factor * from[column];
  }

  // Calls work(slot, idx) for every idx below `count`, on several threads. A thread gets ranges of consecutive indices.
  Status ForEachRow(int64_t count, double work_per_row, absl::FunctionRef<void(Slot& slot, int64_t idx)> work) {
    const auto wanted = static_cast<int64_t>(kBackwardItemWork / std::max(work_per_row, 1.0));
    const int64_t item_rows = std::max<int64_t>(wanted, 1);
    const int64_t num_items = (count + item_rows - 1) / item_rows;
    const int num_threads = num_items < 2 ? 1 : NumThreads(problem_.call.num_threads);
    std::vector<Slot> slots(num_threads);
    for (Slot& slot : slots) {
      slot.row.resize(dim_);
      slot.sum.resize(dim_);
      slot.factor.resize(dim_);
    }
    return ForEachItem(num_threads, num_items, [&](int slot, int64_t item) {
      const int64_t end = std::min(count, (item + 1) * item_rows);
      for (int64_t idx = item * item_rows; idx < end; ++idx) work(slots[slot], idx);
    });
  }

  // One thread computes each query row's gradient, from the document rows that the token matched.
  Status QueryGradients() {
    // Rows that belong to no query (-1) get a gradient of zero.
    std::vector<int64_t> query_of_row(static_cast<size_t>(problem_.queries.num_rows), -1);
    for (int64_t query = 0; query < problem_.queries.num_sequences; ++query) {
      std::fill_n(query_of_row.begin() + queries_.Begin(query), queries_.Length(query), query);
    }
    const double work = static_cast<double>(problem_.list_length + 1) * static_cast<double>(dim_);
    return ForEachRow(problem_.queries.num_rows, work, [&](Slot& slot, int64_t row) {
      std::fill(slot.sum.begin(), slot.sum.end(), 0.0f);
      float weight_sum = 0;
      const int64_t query = query_of_row[row];
      if (query >= 0) weight_sum = GatherQueryRow(slot, query, row);
      if (gradients_.query_gradients != nullptr) Narrow(slot.sum, gradients_.query_gradients, row);
      if (gradients_.weight_gradients != nullptr) gradients_.weight_gradients[row] = weight_sum;
    });
  }

  // Writes the gradient of a query row to slot.sum. Returns the gradient of the row's weight.
  float GatherQueryRow(Slot& slot, int64_t query, int64_t row) const {
    const int64_t token = row - queries_.Begin(query);
    if (gradients_.weight_gradients != nullptr) Widen(queries_.Row(row), &slot.factor);
    float weight_sum = 0;
    bool any_match = false;
    for (int64_t pair = query * problem_.list_length; pair < (query + 1) * problem_.list_length; ++pair) {
      const int32_t match = Argmax(pair)[token];
      const float gradient = gradients_.score_gradients[pair];
      if (match < 0 || gradient == 0) continue;
      any_match = true;
      ReadDocumentRow(documents_.Begin(DocumentOf(problem_, pair)) + match, &slot.row);
      AddScaled(slot.row, gradient, &slot.sum);
      if (gradients_.weight_gradients != nullptr) {
        float similarity = 0;
        for (size_t column = 0; column < dim_; ++column) similarity += slot.factor[column] * slot.row[column];
        weight_sum += gradient * similarity;
      }
    }
    if (!any_match) return weight_sum;  // the weight of a token that does not count may be NaN
    const float weight = Weight(row);
    for (float& value : slot.sum) value *= weight;
    return weight_sum;
  }

  // One thread computes each document row's gradient. Matches are first grouped by document row, in the order of pairs
  // and query tokens, so that a row's matches are added in a fixed order.
  Status DocumentGradients() {
    const auto num_rows = static_cast<size_t>(problem_.documents.num_rows);
    std::vector<int64_t> first_match(num_rows + 1, 0);  // row r has matches first_match[r] .. first_match[r + 1] - 1
    for (int64_t pair = 0; pair < problem_.num_pairs; ++pair) {
      if (gradients_.score_gradients[pair] == 0) continue;
      ForEachMatch(pair, [&](const Match& match) { ++first_match[match.document_row + 1]; });
    }
    for (size_t row = 0; row < num_rows; ++row) first_match[row + 1] += first_match[row];
    struct Source {
      int64_t pair;
      int64_t query_row;
    };
    std::vector<Source> sources(static_cast<size_t>(first_match[num_rows]));
    std::vector<int64_t> next(first_match.begin(), first_match.end() - 1);
    for (int64_t pair = 0; pair < problem_.num_pairs; ++pair) {
      if (gradients_.score_gradients[pair] == 0) continue;
      ForEachMatch(pair, [&](const Match& match) {
        sources[next[match.document_row]++] = {match.pair, match.query_row};
      });
    }
    const double matches_per_row =
        static_cast<double>(sources.size()) / static_cast<double>(std::max<size_t>(num_rows, 1));
    const double work = (matches_per_row + 1) * static_cast<double>(dim_);
    return ForEachRow(problem_.documents.num_rows, work, [&](Slot& slot, int64_t row) {
      std::fill(slot.sum.begin(), slot.sum.end(), 0.0f);
      for (int64_t idx = first_match[row]; idx < first_match[row + 1]; ++idx) {
        Widen(queries_.Row(sources[idx].query_row), &slot.row);
        AddScaled(slot.row, gradients_.score_gradients[sources[idx].pair] * Weight(sources[idx].query_row), &slot.sum);
      }
      Narrow(slot.sum, gradients_.document_gradients, row);
    });
  }

  const Problem& problem_;
  const maxsim_gradients& gradients_;
  const RowDecoder* const decoder_;  // null where documents are vectors
  const HostTokens queries_;
  const HostTokens documents_;
  const size_t dim_;
};

}  // namespace

Status CpuBackward(const Problem& problem, const maxsim_gradients& gradients, const RowDecoder* decoder) {
  return BackwardPass(problem, gradients, decoder).Run();
}

}  // namespace maxsim::library
