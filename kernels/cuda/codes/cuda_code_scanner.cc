#include "kernels/cuda/codes/cuda_code_scanner.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstring>
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

// A scan copies its first inputs, up to this many bytes, to the device from pinned memory. A copy of more than 64 KiB
// from other memory waits for the kernels of the pass before it, so that the device idles until the next pass is
// enqueued. The inputs of 32 queries over 4 shards take 0.7 MB.
constexpr size_t kPinnedInputBytes = size_t{8} << 20;

// Returns whether a mask selects more than three quarters of the documents; a null mask selects all. For such a mask, a
// scan of one query uses the Hopper kernel, which multiplies all documents and drops the scores of those that the mask
// excludes.
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
  MAXSIM_ASSIGN_OR_RETURN(scanner.host_inputs_,
                          PinnedBuffer::Allocate(kPinnedInputBytes, "the queries of a scan of codes"));
  MAXSIM_RETURN_IF_ERROR(scanner.MakeEvents(1));
  return scanner;
}

absl::Status CudaCodeScanner::Grow(DeviceBuffer& buffer, size_t bytes, absl::string_view what) {
  if (buffer.bytes() >= bytes) return absl::OkStatus();
  // An earlier pass of the call may still use the memory.
  if (buffer.bytes() > 0) MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_.get()));
  buffer = DeviceBuffer();
  MAXSIM_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(bytes, absl::StrCat("the ", what, " of a scan of codes")));
  return absl::OkStatus();
}

size_t CudaCodeScanner::workspace_bytes() const {
  size_t bytes = 0;
  for (const DeviceBuffer* const buffer : {&input_, &ordinals_, &masks_, &scores_, &keys_, &workspaces_, &results_}) {
    bytes += buffer->bytes();
  }
  return bytes;
}

absl::Status CudaCodeScanner::MakeEvents(size_t num_passes) {
  while (events_.size() < num_passes) {
    PassEvents events;
    for (Event* event : {&events.begin, &events.scanned, &events.end}) {
      MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create(Event::Use::kTime));
    }
    events_.push_back(std::move(events));
  }
  return absl::OkStatus();
}

absl::Status CudaCodeScanner::Scan(absl::Span<const Call> calls) {
  for (const Call& call : calls) {
    const CudaCodes& codes = *call.codes;
    if (&codes.device() != device_) {
      return absl::InvalidArgumentError(absl::StrCat("codes are on device ", codes.device().ordinal,
                                                     "; must be on the scanner's, ", device_->ordinal));
    }
    const CodeAvailability available{.shape = codes.shape(),
                                     .planes = codes.planes(),
                                     .num_documents = codes.num_documents(),
                                     .has_bounds = {codes.has_bounds(1), codes.has_bounds(2), codes.has_bounds(4)}};
    MAXSIM_RETURN_IF_ERROR(ValidateScan(available, call.queries, call.results.size()));
  }
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  return device_->health.Note(ScanOnDevice(calls));
}

std::vector<CudaCodeScanner::Pass> CudaCodeScanner::PassesOf(absl::Span<const Call> calls) const {
  std::vector<Pass> passes;
  for (const Call& call : calls) {
    std::vector<bool> taken(call.queries.size());
    for (size_t i = 0; i < call.queries.size(); ++i) {
      if (taken[i]) continue;
      std::vector<size_t> members = MembersOf(*call.codes, call.queries, i, taken);
      if (NumCandidates(*call.codes, call.queries[i]) == 0) {
        for (const size_t member : members) call.results[member].clear();
        continue;
      }
      passes.push_back({.call = &call, .members = std::move(members)});
    }
  }
  return passes;
}

absl::Status CudaCodeScanner::ScanOnDevice(absl::Span<const Call> calls) {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  scan_seconds_ = select_seconds_ = 0;
  host_inputs_end_ = 0;
  try {
    std::vector<Pass> passes = PassesOf(calls);
    MAXSIM_RETURN_IF_ERROR(MakeEvents(passes.size()));
    // Counts the results of all passes, because they all stay on the device until the last pass has ended.
    int64_t num_results = 0;
    for (Pass& pass : passes) {
      pass.first_result = num_results;
      const int64_t num_candidates = NumCandidates(*pass.call->codes, pass.call->queries[pass.members[0]]);
      for (const size_t member : pass.members) {
        num_results += std::min<int64_t>(pass.call->queries[member].num_results, num_candidates);
      }
    }
    if (num_results == 0) return absl::OkStatus();
    MAXSIM_RETURN_IF_ERROR(Grow(results_, static_cast<size_t>(num_results) * sizeof(DeviceScored), "results"));
    const size_t result_bytes = static_cast<size_t>(num_results) * sizeof(Scored);
    if (host_results_.bytes() < result_bytes) {
      host_results_ = PinnedBuffer();
      MAXSIM_ASSIGN_OR_RETURN(host_results_, PinnedBuffer::Allocate(result_bytes, "the results of a scan of codes"));
    }
    FinishOnError finish(stream_.get());
    for (size_t i = 0; i < passes.size(); ++i) MAXSIM_RETURN_IF_ERROR(Enqueue(passes[i], events_[i]));
    MAXSIM_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(host_results_.as(), results_.as(), result_bytes, cudaMemcpyDeviceToHost, stream_.get()));
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_.get()));
    finish.Finished();
    for (size_t i = 0; i < passes.size(); ++i) {
      MAXSIM_RETURN_IF_ERROR(AddTimes(events_[i]));
      for (size_t n = 0; n < passes[i].members.size(); ++n) {
        const SelectQuery& selection = passes[i].input.selections[n];
        const Scored* const begin = host_results_.as<Scored>() + passes[i].first_result + selection.results_offset;
        // Documents that the mask excludes come last.
        const auto is_left_out = [](const Scored& scored) { return scored.score == kLeftOut; };
        passes[i].call->results[passes[i].members[n]].assign(begin,
                                                             std::find_if(begin, begin + selection.k, is_left_out));
      }
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no host memory for the scan's workspace");
  }
}

absl::Status CudaCodeScanner::Enqueue(Pass& pass, PassEvents& events) {
  const CudaCodes& codes = *pass.call->codes;
  const ScanQuery& first = pass.call->queries[pass.members[0]];
  const int64_t num_candidates = NumCandidates(codes, first);
  DeviceMasks masks;
  MAXSIM_ASSIGN_OR_RETURN(masks, SendMasks(codes, pass.call->queries, pass.members));
  MAXSIM_RETURN_IF_ERROR(SendOrdinals(first));
  pass.input = MakeScanInput(pass.call->queries, pass.members, masks, num_candidates, device_->limits);
  MAXSIM_RETURN_IF_ERROR(SendInput(pass.input));
  MAXSIM_RETURN_IF_ERROR(events.begin.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(LaunchScan(codes, first, num_candidates, pass.input));
  MAXSIM_RETURN_IF_ERROR(events.scanned.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(LaunchSelection(pass));
  return events.end.Record(stream_.get());
}

absl::Status CudaCodeScanner::AddTimes(const PassEvents& events) {
  double seconds = 0;
  MAXSIM_ASSIGN_OR_RETURN(seconds, events.scanned.SecondsSince(events.begin));
  scan_seconds_ += seconds;
  MAXSIM_ASSIGN_OR_RETURN(seconds, events.end.SecondsSince(events.scanned));
  select_seconds_ += seconds;
  return absl::OkStatus();
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

absl::StatusOr<DeviceMasks> CudaCodeScanner::SendMasks(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                                       absl::Span<const size_t> members) {
  const size_t mask_bytes = (static_cast<size_t>(codes.num_documents()) + 63) / 64 * sizeof(uint64_t);
  DeviceMasks masks;  // Each once.
  for (const size_t member : members) {
    if (queries[member].mask != nullptr) masks.try_emplace(queries[member].mask, nullptr);
  }
  MAXSIM_RETURN_IF_ERROR(Grow(masks_, masks.size() * mask_bytes, "masks"));
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
  MAXSIM_RETURN_IF_ERROR(Grow(ordinals_, bytes, "candidates"));
  return MAXSIM_CUDA_STATUS(
      cudaMemcpyAsync(ordinals_.as(), query.ordinals, bytes, cudaMemcpyHostToDevice, stream_.get()));
}

absl::Status CudaCodeScanner::SendInput(const ScanInput& input) {
  const auto num_queries = static_cast<size_t>(input.num_queries());
  MAXSIM_RETURN_IF_ERROR(Grow(input_, input.bytes.size(), "queries"));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(input_.as(), StageInput(input), input.bytes.size(), cudaMemcpyHostToDevice, stream_.get()));
  MAXSIM_RETURN_IF_ERROR(
      Grow(scores_, static_cast<size_t>(input.scores_stride) * num_queries * sizeof(float), "scores"));
  MAXSIM_RETURN_IF_ERROR(Grow(keys_, static_cast<size_t>(input.num_keys) * sizeof(uint64_t), "selection keys"));
  const size_t workspace_bytes = input.large ? num_queries * sizeof(SelectWorkspace) : 0;
  if (workspaces_.bytes() >= workspace_bytes) return absl::OkStatus();
  MAXSIM_RETURN_IF_ERROR(Grow(workspaces_, workspace_bytes, "selection states"));
  // A new workspace must be zero. Each selection leaves it zeroed.
  const cudaError_t error = cudaMemsetAsync(workspaces_.as(), 0, workspace_bytes, stream_.get());
  if (error != cudaSuccess) workspaces_ = DeviceBuffer();  // so that no later pass takes it for zeroed
  return MAXSIM_CUDA_STATUS(error);
}

const uint8_t* CudaCodeScanner::StageInput(const ScanInput& input) {
  const size_t bytes = input.bytes.size();
  if (bytes > host_inputs_.bytes() - host_inputs_end_) return input.bytes.data();
  uint8_t* const staged = host_inputs_.as<uint8_t>() + host_inputs_end_;
  std::memcpy(staged, input.bytes.data(), bytes);
  host_inputs_end_ += bytes;
  return staged;
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

absl::Status CudaCodeScanner::LaunchSelection(const Pass& pass) {
  const ScanInput& input = pass.input;
  SelectCall select{};
  select.queries = ArrayAt<SelectQuery>(input_, input.selections_at);
  select.scores = scores_.as<float>();
  select.workspaces = workspaces_.as<SelectWorkspace>();
  select.keys = keys_.as<uint64_t>();
  select.results = results_.as<DeviceScored>() + pass.first_result;
  select.num_large = input.large ? input.num_queries() : 0;
  select.num_small = input.num_queries() - select.num_large;
  select.most_splits = input.most_splits;
  select.most_rank_blocks = input.most_rank_blocks;
  select.only = input.selections[0];
  return MAXSIM_CUDA_STATUS(LaunchSelect(select, nullptr, device_->overlap, stream_.get()));
}

}  // namespace maxsim::cuda
