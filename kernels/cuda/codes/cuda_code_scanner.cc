#include "kernels/cuda/codes/cuda_code_scanner.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/codes/fragments.h"
#include "kernels/cuda/codes/hopper/passes.h"
#include "kernels/cuda/codes/hopper/scan_hopper.h"
#include "kernels/cuda/codes/scan_launch.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/select/topk_launch.h"

namespace maxsim::cuda {
namespace {

static_assert(sizeof(Scored) == sizeof(DeviceScored));

template <class T>
const T* ArrayAt(const DeviceBuffer& buffer, size_t begin) {
  return reinterpret_cast<const T*>(buffer.as<uint8_t>() + begin);
}

int64_t NumCandidates(const CudaCodes& codes, const ScanQuery& query) {
  return query.ordinals == nullptr ? codes.num_documents() : query.num_candidates;
}

// Returns whether a mask selects more than three quarters of the documents. Then a scan multiplies all documents and
// drops the others afterwards; the Hopper kernel for one query can do no less.
bool SelectsMost(const uint64_t* mask, int64_t num_documents) {
  if (mask == nullptr) return true;
  int64_t selected = 0;
  for (int64_t word = 0; word < (num_documents + 63) / 64; ++word) selected += std::popcount(mask[word]);
  return selected > num_documents / 4 * 3;
}

}  // namespace

absl::StatusOr<CudaCodeScanner> CudaCodeScanner::Create(Device& device, int64_t max_scores, Kernels kernels) {
  const CurrentDevice current(device.ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  CudaCodeScanner scanner(device);
  scanner.max_scores_ = max_scores;
  scanner.hopper_ = device.limits.hopper && kernels == Kernels::kFastest;
  if (scanner.hopper_) {
    MAXSIM_RETURN_IF_CUDA_ERROR(sm90::PrepareScanOne());
    MAXSIM_RETURN_IF_CUDA_ERROR(sm90::PrepareScanMany());
  }
  MAXSIM_ASSIGN_OR_RETURN(scanner.stream_, Stream::Create());
  for (Event* event : {&scanner.begin_, &scanner.scanned_, &scanner.end_}) {
    MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create(Event::Use::kTime));
  }
  return scanner;
}

absl::Status CudaCodeScanner::Grow(DeviceBuffer& buffer, size_t bytes) {
  if (buffer.bytes() >= bytes) return absl::OkStatus();
  buffer = DeviceBuffer();
  MAXSIM_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(bytes, "a scan of codes"));
  return absl::OkStatus();
}

absl::Status CudaCodeScanner::Scan(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                   absl::Span<std::vector<Scored>> results) {
  if (&codes.device() != device_) {
    return absl::InvalidArgumentError(
        absl::StrCat("codes are on device ", codes.device().ordinal, "; must be on the scanner's, ", device_->ordinal));
  }
  const CodeAvailability available{.shape = codes.shape(),
                                   .planes = codes.planes(),
                                   .num_documents = codes.num_documents(),
                                   .has_bounds = {codes.has_bounds(1), codes.has_bounds(2), codes.has_bounds(4)}};
  MAXSIM_RETURN_IF_ERROR(ValidateScan(available, queries, results.size()));
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  return device_->health.Note(ScanOnDevice(codes, queries, results));
}

absl::Status CudaCodeScanner::ScanOnDevice(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                           absl::Span<std::vector<Scored>> results) {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  scan_seconds_ = select_seconds_ = 0;
  try {
    std::vector<bool> taken(queries.size());
    for (size_t i = 0; i < queries.size(); ++i) {
      if (taken[i]) continue;
      const std::vector<size_t> members = MembersOf(codes, queries, i, taken);
      if (NumCandidates(codes, queries[i]) == 0) {
        for (const size_t member : members) results[member].clear();
        continue;
      }
      MAXSIM_RETURN_IF_ERROR(ScanTogether(codes, queries, members, results));
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no host memory for the scan's workspace");
  }
}

bool CudaCodeScanner::UsesHopper(const CudaCodes& codes, const ScanQuery& query) const {
  return hopper_ && sm90::IsHopperShape(codes.shape()) && RowTiles(*query.codes) <= sm90::kMaxManyTiles;
}

std::vector<size_t> CudaCodeScanner::MembersOf(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                               size_t first, std::vector<bool>& taken) const {
  const int64_t num_candidates = NumCandidates(codes, queries[first]);
  const bool hopper = UsesHopper(codes, queries[first]);
  std::vector<size_t> members;
  int64_t num_scores = 0;
  for (size_t i = first; i < queries.size(); ++i) {
    const bool same = queries[i].ordinals == queries[first].ordinals &&
                      (queries[i].ordinals == nullptr || queries[i].num_candidates == num_candidates) &&
                      queries[i].codes->planes == queries[first].codes->planes &&
                      UsesHopper(codes, queries[i]) == hopper;
    if (taken[i] || !same || (!members.empty() && num_scores + num_candidates > max_scores_)) continue;
    taken[i] = true;
    members.push_back(i);
    num_scores += num_candidates;
  }
  return members;
}

absl::Status CudaCodeScanner::ScanTogether(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                           absl::Span<const size_t> members, absl::Span<std::vector<Scored>> results) {
  const ScanQuery& first = queries[members[0]];
  const int64_t num_candidates = NumCandidates(codes, first);
  const cudaStream_t stream = stream_.get();
  // Copies use these until the CUDA stream has been waited for, also after an error.
  ScanInput input;
  std::vector<Scored> all;
  FinishOnError finish(stream);
  DeviceMasks masks;
  MAXSIM_ASSIGN_OR_RETURN(masks, SendMasks(codes, queries, members));
  MAXSIM_RETURN_IF_ERROR(SendOrdinals(first));
  input = MakeScanInput(queries, members, masks, num_candidates, device_->limits);
  MAXSIM_RETURN_IF_ERROR(SendInput(input));
  MAXSIM_RETURN_IF_ERROR(begin_.Record(stream));
  MAXSIM_RETURN_IF_ERROR(LaunchScan(codes, first, num_candidates, input));
  MAXSIM_RETURN_IF_ERROR(scanned_.Record(stream));
  MAXSIM_RETURN_IF_ERROR(LaunchSelection(input));
  MAXSIM_RETURN_IF_ERROR(end_.Record(stream));
  all.resize(static_cast<size_t>(input.num_results));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(all.data(), results_.as(), all.size() * sizeof(Scored), cudaMemcpyDeviceToHost, stream));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  finish.Finished();
  double seconds = 0;
  MAXSIM_ASSIGN_OR_RETURN(seconds, scanned_.SecondsSince(begin_));
  scan_seconds_ += seconds;
  MAXSIM_ASSIGN_OR_RETURN(seconds, end_.SecondsSince(scanned_));
  select_seconds_ += seconds;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto begin = all.begin() + input.selections[i].results_offset;
    const auto end = begin + input.selections[i].k;
    // Those that the mask leaves out come last.
    const auto is_left_out = [](const Scored& scored) { return scored.score == kLeftOut; };
    results[members[i]].assign(begin, std::find_if(begin, end, is_left_out));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceMasks> CudaCodeScanner::SendMasks(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                                       absl::Span<const size_t> members) {
  const size_t mask_bytes = (static_cast<size_t>(codes.num_documents()) + 63) / 64 * sizeof(uint64_t);
  DeviceMasks masks;  // Each once.
  for (const size_t member : members) {
    if (queries[member].mask != nullptr) masks.try_emplace(queries[member].mask, nullptr);
  }
  MAXSIM_RETURN_IF_ERROR(Grow(masks_, masks.size() * mask_bytes));
  size_t begin = 0;
  for (auto& [mask, on_device] : masks) {
    MAXSIM_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(masks_.as<uint8_t>() + begin, mask, mask_bytes, cudaMemcpyHostToDevice, stream_.get()));
    on_device = ArrayAt<uint64_t>(masks_, begin);
    begin += mask_bytes;
  }
  return masks;
}

absl::Status CudaCodeScanner::SendOrdinals(const ScanQuery& query) {
  if (query.ordinals == nullptr) return absl::OkStatus();
  const size_t bytes = static_cast<size_t>(query.num_candidates) * sizeof(uint32_t);
  MAXSIM_RETURN_IF_ERROR(Grow(ordinals_, bytes));
  return MAXSIM_CUDA_STATUS(
      cudaMemcpyAsync(ordinals_.as(), query.ordinals, bytes, cudaMemcpyHostToDevice, stream_.get()));
}

absl::Status CudaCodeScanner::SendInput(const ScanInput& input) {
  const auto num_queries = static_cast<size_t>(input.num_queries());
  MAXSIM_RETURN_IF_ERROR(Grow(input_, input.bytes.size()));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(input_.as(), input.bytes.data(), input.bytes.size(), cudaMemcpyHostToDevice, stream_.get()));
  MAXSIM_RETURN_IF_ERROR(Grow(scores_, static_cast<size_t>(input.scores_stride) * num_queries * sizeof(float)));
  MAXSIM_RETURN_IF_ERROR(Grow(results_, static_cast<size_t>(input.num_results) * sizeof(DeviceScored)));
  MAXSIM_RETURN_IF_ERROR(Grow(keys_, static_cast<size_t>(input.num_keys) * sizeof(uint64_t)));
  const size_t workspace_bytes = input.large ? num_queries * sizeof(SelectWorkspace) : 0;
  if (workspaces_.bytes() >= workspace_bytes) return absl::OkStatus();
  // A new workspace must be zero. Each selection leaves it zeroed.
  DeviceBuffer zeroed;
  MAXSIM_RETURN_IF_ERROR(Grow(zeroed, workspace_bytes));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(zeroed.as(), 0, workspace_bytes, stream_.get()));
  workspaces_ = std::move(zeroed);
  return absl::OkStatus();
}

absl::Status CudaCodeScanner::LaunchScan(const CudaCodes& codes, const ScanQuery& first, int64_t num_candidates,
                                         const ScanInput& input) {
  const int planes = first.codes->planes;
  const int32_t num_sms = device_->limits.num_sms;
  const ScanParams params{.codes = codes.ParamsFor(planes),
                          .ordinals = first.ordinals == nullptr ? nullptr : ordinals_.as<uint32_t>(),
                          .fragments = ArrayAt<uint4>(input_, input.fragments_at),
                          .rows = ArrayAt<ScanRow>(input_, input.rows_at),
                          .queries = ArrayAt<ScanQueryParams>(input_, input.queries_at),
                          .tile_queries = ArrayAt<int32_t>(input_, input.tile_queries_at),
                          .scores = scores_.as<float>(),
                          .num_candidates = num_candidates,
                          .num_queries = input.num_queries(),
                          .num_row_tiles = input.num_row_tiles,
                          .dim = codes.shape().dim};
  const bool hopper = UsesHopper(codes, first);
  if (IsScanOfOne(codes.shape(), input.num_queries(), input.num_row_tiles)) {
    const bool all = hopper && first.ordinals == nullptr && SelectsMost(first.mask, num_candidates);
    return MAXSIM_CUDA_STATUS((all ? sm90::LaunchScanOne : LaunchScanOne)(params, planes, num_sms, stream_.get()));
  }
  if (!hopper) return MAXSIM_CUDA_STATUS(LaunchScanMany(params, planes, num_sms, stream_.get()));
  for (const sm90::ManyPass& pass : sm90::CutIntoPasses(input.query_tiles)) {
    MAXSIM_RETURN_IF_CUDA_ERROR(sm90::LaunchScanMany(params, pass, planes, num_sms, stream_.get()));
  }
  return absl::OkStatus();
}

absl::Status CudaCodeScanner::LaunchSelection(const ScanInput& input) {
  SelectCall select{};
  select.queries = ArrayAt<SelectQuery>(input_, input.selections_at);
  select.scores = scores_.as<float>();
  select.workspaces = workspaces_.as<SelectWorkspace>();
  select.keys = keys_.as<uint64_t>();
  select.results = results_.as<DeviceScored>();
  select.num_large = input.large ? input.num_queries() : 0;
  select.num_small = input.num_queries() - select.num_large;
  select.most_splits = input.most_splits;
  select.most_rank_blocks = input.most_rank_blocks;
  select.only = input.selections[0];
  return MAXSIM_CUDA_STATUS(LaunchSelect(select, nullptr, device_->overlap, stream_.get()));
}

}  // namespace maxsim::cuda
