#include "kernels/cuda/call/paths/slice.h"

#include <algorithm>

#include "kernels/cuda/call/paths/copied_path.h"
#include "kernels/cuda/call/paths/single_launch_path.h"
#include "kernels/cuda/call/paths/slice_results.h"
#include "kernels/cuda/call/paths/zero_copy_path.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {
namespace {

// Picks the path of the planned slice.
CallPath PathOf(const CallContext& context) {
  if (!ZeroCopyPath::Fits(context)) return CallPath::kCopied;
  return SingleLaunchPath::Fits(context) ? CallPath::kSingleLaunch : CallPath::kZeroCopy;
}

absl::Status RunSlice(const CallContext& context, const CudaDocuments& documents, absl::Span<const Query> queries,
                      absl::Span<std::vector<Scored>> results) {
  MAXSIM_RETURN_IF_ERROR(
      PlanSlice(context, PlannedDocuments::Of(documents), queries,
                {.tensor_maps = documents.maps() != nullptr, .join = context.tuning.joins != Joins::kNever}));
  if (!context.workspace.input.empty()) {
    const CallPath path = PathOf(context);
    context.trace.path = path;
    context.trace.graph_replayed = false;
    if (path == CallPath::kSingleLaunch) {
      MAXSIM_RETURN_IF_ERROR(SingleLaunchPath(context, documents).Run());
    } else if (path == CallPath::kZeroCopy) {
      MAXSIM_RETURN_IF_ERROR(ZeroCopyPath(context, documents).Run());
    } else {
      MAXSIM_RETURN_IF_ERROR(CopiedPath(context, documents).Run());
    }
  }
  GiveResults(context.workspace, results);
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanSlice(const CallContext& context, const PlannedDocuments& documents, absl::Span<const Query> queries,
                       const SliceOptions& options) {
  Workspace& workspace = context.workspace;
  DeviceLimits limits = context.device.limits;
  limits.tensor_maps = options.tensor_maps;
  limits.tiles &= context.tuning.tiles;
  ScoreRoom room{
      .partials = workspace.partials_capacity(), .join_words = workspace.join_words_capacity(), .join = options.join};
  room.join_always = context.tuning.joins == Joins::kWheneverReadsAreSaved;
  room.document_bytes = static_cast<double>(documents.num_tokens) *
                        static_cast<double>(DeviceRowBytes(documents.type, documents.dim)) /
                        static_cast<double>(std::max<int64_t>(documents.num_documents, 1));
  MAXSIM_RETURN_IF_ERROR(
      workspace.input.PlanScores(queries, documents.type, documents.dim, documents.num_documents, limits, room));
  context.trace.plan = workspace.input.score_plan();
  context.trace.num_joins = workspace.input.num_unions();
  return absl::OkStatus();
}

absl::Status RunSlices(const CallContext& context, const CudaDocuments& documents, absl::Span<const Query> queries,
                       absl::Span<std::vector<Scored>> results) {
  for (size_t done = 0; done < queries.size();) {
    const absl::Span<const Query> rest = queries.subspan(done);
    const size_t count =
        QueriesOfSlice(rest, documents.type(), documents.dim(), documents.num_documents(), context.workspace.capacity);
    MAXSIM_RETURN_IF_ERROR(RunSlice(context, documents, rest.first(count), results.subspan(done, count)));
    done += count;
  }
  return absl::OkStatus();
}

absl::Status LaunchAgain(const CallContext& context, CallPath path, const CudaDocuments& documents) {
  if (!context.workspace.input.empty()) {
    if (path == CallPath::kSingleLaunch) return SingleLaunchPath(context, documents).Launch();
    if (path == CallPath::kZeroCopy) return ZeroCopyPath(context, documents).Launch();
  }
  return absl::FailedPreconditionError("the last call was not a zero-copy call");
}

}  // namespace maxsim::cuda
