#include "kernels/cuda/host_documents/host_document_calls.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "kernels/cuda/call/launch/score_launcher.h"
#include "kernels/cuda/call/launch/score_pass.h"
#include "kernels/cuda/call/launch/slice_input.h"
#include "kernels/cuda/call/paths/slice.h"
#include "kernels/cuda/call/paths/slice_results.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/stream.h"

namespace maxsim::cuda {
namespace {

// A list of at least this many consecutive documents is copied as a range: each batch takes one copy, and does not use
// the cache. The cache is for the documents of short lists, which may be requested again.
constexpr int64_t kMinRangeDocuments = 4096;

// At the end of a scope, waits for every copy from the documents, unless the caller has already waited for all of them.
class FinishTransfer {
 public:
  explicit FinishTransfer(DocumentTransfer& transfer) : transfer_(transfer) {}
  ~FinishTransfer() {
    if (!finished_) transfer_.Finish();
  }
  FinishTransfer(const FinishTransfer&) = delete;
  FinishTransfer& operator=(const FinishTransfer&) = delete;
  void Finished() { finished_ = true; }

 private:
  DocumentTransfer& transfer_;
  bool finished_ = false;
};

// Returns the pass over `count` candidates of every query, from candidate `first` on. Their documents are in the batch.
ScorePass PassOver(const DocumentBatch& batch, int64_t first, int64_t count) {
  return {.memory = batch.memory,
          .offsets = batch.offsets,
          .scales = batch.scales,
          .codebook = batch.codebook,
          .first = first,
          .count = count,
          .mean_tokens = batch.num_tokens / std::max<int64_t>(batch.num_documents, 1)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostDocumentCalls>> HostDocumentCalls::Create(const Device* device) {
  std::unique_ptr<DocumentTransfer> transfer;
  MAXSIM_ASSIGN_OR_RETURN(transfer,
                          DocumentTransfer::Create(device, device->stream_block_bytes, device->document_cache_bytes));
  return std::unique_ptr<HostDocumentCalls>(new HostDocumentCalls(std::move(transfer)));
}

// Returns the range of the query's candidates: all documents if the query has no list, or those of a long list of
// consecutive documents. Returns nullopt for other lists.
std::optional<HostDocumentCalls::Range> HostDocumentCalls::RangeOf(const HostDocuments& documents, const Query& query) {
  if (query.ordinals == nullptr) return Range{.first = 0, .count = documents.num_documents()};
  if (query.num_candidates < kMinRangeDocuments) return std::nullopt;
  const uint32_t first = query.ordinals[0];
  for (int64_t n = 1; n < query.num_candidates; ++n) {
    if (query.ordinals[n] != first + n) return std::nullopt;
  }
  return Range{.first = first, .count = query.num_candidates};
}

absl::Status HostDocumentCalls::TopK(const CallContext& context, const HostDocuments& documents,
                                     absl::Span<const Query> queries, absl::Span<std::vector<Scored>> results) {
  for (size_t done = 0; done < queries.size();) {
    // Consecutive queries over the same range run together, and so do consecutive queries whose lists are not ranges.
    const Query& first = queries[done];
    const std::optional<Range> range = RangeOf(documents, first);
    size_t end = done + 1;
    for (; end < queries.size(); ++end) {
      const Query& next = queries[end];
      const bool same =
          next.ordinals == first.ordinals && (first.ordinals == nullptr || next.num_candidates == first.num_candidates);
      if (range.has_value() ? !same : RangeOf(documents, next).has_value()) break;
    }
    const absl::Span<const Query> rest = queries.subspan(done, end - done);
    const absl::Span<std::vector<Scored>> rest_results = results.subspan(done, end - done);
    size_t count = 0;
    if (range.has_value()) {
      MAXSIM_ASSIGN_OR_RETURN(count, RunScan(context, documents, *range, rest, rest_results));
    } else {
      MAXSIM_ASSIGN_OR_RETURN(count, RunLists(context, documents, rest, rest_results));
    }
    done += count;
  }
  return documents.Check();
}

// Runs the planned slice. `score` copies the slice's batches to the device, and starts to score each batch.
absl::Status HostDocumentCalls::RunSlice(const CallContext& context, absl::FunctionRef<absl::Status()> score) {
  context.trace.path = CallPath::kHostDocuments;
  FinishTransfer documents_started(*transfer_);
  FinishOnError started(context.workspace.stream.get());
  MAXSIM_RETURN_IF_ERROR(CopyInput(context, nullptr));
  MAXSIM_RETURN_IF_ERROR(score());
  MAXSIM_RETURN_IF_ERROR(SelectAndCopyResults(context));
  started.Finished();
  documents_started.Finished();
  return AddStageSeconds(context, transfer_->last_loaded());
}

// Scores the documents of the range for the first of `queries`, as many as fit the workspace together. Returns how many
// queries it has run.
absl::StatusOr<size_t> HostDocumentCalls::RunScan(const CallContext& context, const HostDocuments& documents,
                                                  const Range& range, absl::Span<const Query> queries,
                                                  absl::Span<std::vector<Scored>> results) {
  scans_.assign(queries.begin(), queries.end());
  for (Query& query : scans_) {
    query.ordinals = nullptr;
    query.mask = nullptr;
  }
  const absl::Span<const Query> scans = absl::MakeConstSpan(scans_).first(
      QueriesOfSlice(scans_, documents.type(), documents.dim(), range.count, context.workspace.capacity));
  PlannedDocuments planned = PlannedDocuments::Of(documents);
  if (range.count < documents.num_documents()) {
    const int64_t* const offsets = documents.offsets() + range.first;
    planned.num_documents = range.count;
    planned.num_tokens = offsets[range.count] - offsets[0];
  }
  MAXSIM_RETURN_IF_ERROR(
      PlanSlice(context, planned, scans, {.tensor_maps = transfer_->HasMaps(documents), .join = false}));
  if (!context.workspace.input.empty()) {
    MAXSIM_RETURN_IF_ERROR(RunSlice(context, [&] { return ScoreScan(context, documents, range); }));
  }
  GiveResults(context.workspace, results.first(scans.size()));
  return scans.size();
}

absl::Status HostDocumentCalls::ScoreScan(const CallContext& context, const HostDocuments& documents,
                                          const Range& range) {
  const cudaStream_t stream = context.workspace.stream.get();
  const BatchCapacity capacity = transfer_->CapacityFor(documents);
  int64_t end = 0;
  for (int64_t begin = 0; begin < range.count; begin = end) {
    const int64_t first = range.first + begin;
    end = EndOfBatch(documents.offsets(), first, range.first + range.count, capacity) - range.first;
    DocumentBatch batch;
    MAXSIM_ASSIGN_OR_RETURN(batch, transfer_->LoadRange(documents, first, range.first + end, stream));
    if (begin == 0) MAXSIM_RETURN_IF_ERROR(QuantizeQueries(context.workspace, *batch.memory));
    // A candidate's index is its position in the range, but the batch's arrays begin with the document at position
    // `begin`. So the pointers move back by `begin`.
    batch.offsets -= begin;
    if (batch.scales != nullptr) batch.scales -= begin;
    MAXSIM_RETURN_IF_ERROR(ScoreLauncher(context).LaunchScores(PassOver(batch, begin, end - begin)));
    MAXSIM_RETURN_IF_ERROR(transfer_->Release(stream));
  }
  return absl::OkStatus();
}

// Runs the first of `queries`, as many as fit the workspace together and whose candidates fit document batches. Returns
// how many it has run.
absl::StatusOr<size_t> HostDocumentCalls::RunLists(const CallContext& context, const HostDocuments& documents,
                                                   absl::Span<const Query> queries,
                                                   absl::Span<std::vector<Scored>> results) {
  const BatchCapacity capacity = transfer_->CapacityFor(documents);
  size_t count =
      QueriesOfSlice(queries, documents.type(), documents.dim(), documents.num_documents(), context.workspace.capacity);
  while (!list_passes_.Plan(queries.first(count), documents.offsets(), capacity)) count /= 2;
  if (count == 0) return absl::InternalError("a document does not fit into a block, but was loaded");
  by_location_.assign(queries.begin(), queries.begin() + static_cast<ptrdiff_t>(count));
  for (size_t i = 0; i < count; ++i) {
    by_location_[i].ordinals = list_passes_.locations(i);
    by_location_[i].mask = nullptr;  // it has documents, not locations
  }
  MAXSIM_RETURN_IF_ERROR(PlanSlice(context, PlannedDocuments::Of(documents), by_location_,
                                   {.tensor_maps = transfer_->HasMaps(documents), .join = false}));
  if (!context.workspace.input.empty()) {
    MAXSIM_RETURN_IF_ERROR(RunSlice(context, [&] { return ScoreLists(context, documents); }));
  }
  GiveResults(context.workspace, results.first(count));
  return count;
}

absl::Status HostDocumentCalls::ScoreLists(const CallContext& context, const HostDocuments& documents) {
  const cudaStream_t stream = context.workspace.stream.get();
  for (const ListPass& pass : list_passes_.passes()) {
    DocumentBatch batch;
    MAXSIM_ASSIGN_OR_RETURN(batch, transfer_->LoadSlots(documents, pass.slots, pass.num_rows, stream));
    if (pass.first == 0) MAXSIM_RETURN_IF_ERROR(QuantizeQueries(context.workspace, *batch.memory));
    MAXSIM_RETURN_IF_ERROR(ScoreLauncher(context).LaunchScores(PassOver(batch, pass.first, pass.end - pass.first)));
    MAXSIM_RETURN_IF_ERROR(transfer_->Release(stream));
  }
  return absl::OkStatus();
}

absl::Status HostDocumentCalls::Align(const CallContext& context, const Alignment& alignment,
                                      const HostDocuments& documents, const Query& query,
                                      absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches) {
  const cudaStream_t stream = context.workspace.stream.get();
  const BatchCapacity capacity = transfer_->CapacityFor(documents);
  const size_t most = std::min(alignment.DocumentsOfPart(), static_cast<size_t>(capacity.documents / 2));
  const size_t tokens = static_cast<size_t>(query.num_tokens);
  const int64_t* const offsets = documents.offsets();
  std::vector<BatchSlot> slots;
  std::vector<uint32_t> locations;
  for (size_t begin = 0; begin < ordinals.size(); begin += slots.size()) {
    slots.clear();
    int64_t num_rows = 0;
    for (const uint32_t ordinal : ordinals.subspan(begin, most)) {
      const int64_t length = offsets[ordinal + size_t{1}] - offsets[ordinal];
      if (num_rows + length > capacity.rows) break;
      slots.push_back({ordinal, num_rows});
      num_rows += length;
    }
    locations.resize(slots.size());
    for (size_t s = 0; s < slots.size(); ++s) locations[s] = static_cast<uint32_t>(2 * s);
    FinishTransfer documents_started(*transfer_);
    DocumentBatch batch;
    MAXSIM_ASSIGN_OR_RETURN(batch, transfer_->LoadSlots(documents, slots, num_rows, stream));
    MAXSIM_RETURN_IF_ERROR(alignment.RunPart(PassOver(batch, 0, static_cast<int64_t>(slots.size())), locations,
                                             matches.subspan(begin * tokens, slots.size() * tokens)));
    MAXSIM_RETURN_IF_ERROR(transfer_->Release(stream));
    documents_started.Finished();
  }
  return documents.Check();
}

}  // namespace maxsim::cuda
