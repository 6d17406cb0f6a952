// Calls over documents that are not in the device's memory: they come over in batches, each of which is scored while
// the next is on its way. Scores of all batches gather in one array, and selection follows as ever.
#include <algorithm>
#include <vector>

#include "kernels/cuda/call/cuda_executor.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {
namespace {

// An end of the scope waits for what copies from the documents, unless all of it was waited for.
class FinishDocuments {
 public:
  explicit FinishDocuments(DocumentTransfer& stream) : stream_(stream) {}
  ~FinishDocuments() {
    if (!finished_) stream_.Finish();
  }
  FinishDocuments(const FinishDocuments&) = delete;
  FinishDocuments& operator=(const FinishDocuments&) = delete;
  void Finished() { finished_ = true; }

 private:
  DocumentTransfer& stream_;
  bool finished_ = false;
};

}  // namespace

CudaExecutor::ScorePass CudaExecutor::ScorePass::Over(const DocumentBatch& batch, int64_t first, int64_t count) {
  return {.memory = batch.memory,
          .offsets = batch.offsets,
          .scales = batch.scales,
          .first = first,
          .count = count,
          .mean_tokens = batch.num_tokens / std::max<int64_t>(batch.num_documents, 1)};
}

absl::Status CudaExecutor::TopKOfHostDocuments(const HostDocuments& documents, absl::Span<const Query> queries,
                                               absl::Span<std::vector<Scored>> results) {
  for (size_t done = 0; done < queries.size();) {
    // Scans and lists each by themselves.
    const bool lists = queries[done].ordinals != nullptr;
    size_t end = done + 1;
    while (end < queries.size() && (queries[end].ordinals != nullptr) == lists) ++end;
    const absl::Span<const Query> rest = queries.subspan(done, end - done);
    size_t count = QueriesOfSlice(rest, documents.type(), documents.dim(), documents.num_documents(), capacity_);
    if (lists) {
      MAXSIM_ASSIGN_OR_RETURN(count, RunLists(documents, rest.subspan(0, count), results.subspan(done, count)));
    } else {
      MAXSIM_RETURN_IF_ERROR(RunScan(documents, rest.subspan(0, count), results.subspan(done, count)));
    }
    done += count;
  }
  return documents.Check();
}

absl::Status CudaExecutor::RunScan(const HostDocuments& documents, absl::Span<const Query> queries,
                                   absl::Span<std::vector<Scored>> results) {
  const BatchCapacity capacity = documents_in_->CapacityFor(documents);
  MAXSIM_RETURN_IF_ERROR(PlanSlice(documents, queries, documents_in_->HasMaps(documents), /*join=*/false));
  if (!input_.empty()) {
    FinishDocuments documents_started(*documents_in_);
    FinishOnError started(stream_.get());
    MAXSIM_RETURN_IF_ERROR(CopyInput(nullptr));
    int64_t end = 0;
    for (int64_t begin = 0; begin < documents.num_documents(); begin = end) {
      end = EndOfBatch(documents.offsets(), begin, documents.num_documents(), capacity);
      DocumentBatch batch;
      MAXSIM_ASSIGN_OR_RETURN(batch, documents_in_->LoadRange(documents, begin, end, stream_.get()));
      if (begin == 0) MAXSIM_RETURN_IF_ERROR(QuantizeQueries(*batch.memory));
      // Candidates are named by their numbers in the whole.
      batch.offsets -= begin;
      if (batch.scales != nullptr) batch.scales -= begin;
      MAXSIM_RETURN_IF_ERROR(LaunchScores(ScorePass::Over(batch, begin, end - begin)));
      MAXSIM_RETURN_IF_ERROR(documents_in_->Release(stream_.get()));
    }
    MAXSIM_RETURN_IF_ERROR(SelectAndCopyResults());
    started.Finished();
    documents_started.Finished();
    MAXSIM_RETURN_IF_ERROR(AddTimings(documents_in_->last_loaded()));
  }
  GiveResults(results);
  return absl::OkStatus();
}

// Returns how many of the queries it has run.
absl::StatusOr<size_t> CudaExecutor::RunLists(const HostDocuments& documents, absl::Span<const Query> queries,
                                              absl::Span<std::vector<Scored>> results) {
  const BatchCapacity capacity = documents_in_->CapacityFor(documents);
  size_t count = queries.size();
  while (!list_passes_.Plan(queries.first(count), documents.offsets(), capacity)) count /= 2;
  if (count == 0) return absl::InternalError("a document does not fit a block, and was loaded all the same");
  listed_.assign(queries.begin(), queries.begin() + static_cast<ptrdiff_t>(count));
  for (size_t i = 0; i < count; ++i) listed_[i].ordinals = list_passes_.places(i);
  MAXSIM_RETURN_IF_ERROR(PlanSlice(documents, listed_, documents_in_->HasMaps(documents), /*join=*/false));
  if (!input_.empty()) {
    FinishDocuments documents_started(*documents_in_);
    FinishOnError started(stream_.get());
    MAXSIM_RETURN_IF_ERROR(CopyInput(nullptr));
    for (const ListPass& pass : list_passes_.passes()) {
      DocumentBatch batch;
      MAXSIM_ASSIGN_OR_RETURN(batch, documents_in_->LoadSlots(documents, pass.slots, pass.num_rows, stream_.get()));
      if (pass.first == 0) MAXSIM_RETURN_IF_ERROR(QuantizeQueries(*batch.memory));
      MAXSIM_RETURN_IF_ERROR(LaunchScores(ScorePass::Over(batch, pass.first, pass.end - pass.first)));
      MAXSIM_RETURN_IF_ERROR(documents_in_->Release(stream_.get()));
    }
    MAXSIM_RETURN_IF_ERROR(SelectAndCopyResults());
    started.Finished();
    documents_started.Finished();
    MAXSIM_RETURN_IF_ERROR(AddTimings(documents_in_->last_loaded()));
  }
  GiveResults(results.first(count));
  return count;
}

absl::Status CudaExecutor::AlignHostDocuments(const HostDocuments& documents, const Query& query,
                                              absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches) {
  const BatchCapacity capacity = documents_in_->CapacityFor(documents);
  const size_t room = std::min(AlignRoom(query), static_cast<size_t>(capacity.documents / 2));
  const size_t tokens = static_cast<size_t>(query.num_tokens);
  const int64_t* const offsets = documents.offsets();
  std::vector<BatchSlot> slots;
  std::vector<uint32_t> places;
  for (size_t begin = 0; begin < ordinals.size(); begin += slots.size()) {
    slots.clear();
    int64_t num_rows = 0;
    for (const uint32_t ordinal : ordinals.subspan(begin, room)) {
      const int64_t length = offsets[ordinal + size_t{1}] - offsets[ordinal];
      if (num_rows + length > capacity.rows) break;
      slots.push_back({ordinal, num_rows});
      num_rows += length;
    }
    places.resize(slots.size());
    for (size_t s = 0; s < slots.size(); ++s) places[s] = static_cast<uint32_t>(2 * s);
    FinishDocuments documents_started(*documents_in_);
    DocumentBatch batch;
    MAXSIM_ASSIGN_OR_RETURN(batch, documents_in_->LoadSlots(documents, slots, num_rows, stream_.get()));
    MAXSIM_RETURN_IF_ERROR(AlignPart(ScorePass::Over(batch, 0, static_cast<int64_t>(slots.size())), query, places,
                                     matches.subspan(begin * tokens, slots.size() * tokens)));
    MAXSIM_RETURN_IF_ERROR(documents_in_->Release(stream_.get()));
    documents_started.Finished();
  }
  return documents.Check();
}

}  // namespace maxsim::cuda
