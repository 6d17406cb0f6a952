#include "kernels/cuda/call/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/call/call_arrival.h"
#include "kernels/cuda/call/copy_input.h"
#include "kernels/cuda/call/quantize_launch.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/score/add_partials.h"
#include "kernels/cuda/score/hopper_common/describe_maps.h"
#include "kernels/cuda/score/hopper_deep/kernel.h"
#include "kernels/cuda/score/hopper_stream/config.h"
#include "kernels/cuda/score/hopper_stream/kernel.h"
#include "kernels/cuda/score/hopper_wide/kernel.h"
#include "kernels/cuda/score/portable/kernel.h"
#include "kernels/cuda/select/join_launch.h"
#include "kernels/cuda/select/order_candidates.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shares.h"
#include "kernels/quantize.h"
#include "kernels/validate.h"

namespace maxsim::cuda {
namespace {

static_assert(sizeof(Scored) == sizeof(DeviceScored) && offsetof(Scored, position) == offsetof(DeviceScored, position));
static_assert(sizeof(TokenMatch) == sizeof(DeviceMatch) &&
              offsetof(TokenMatch, similarity) == offsetof(DeviceMatch, similarity));

// Staged documents are small and wanted at once.
constexpr size_t kStagingSlotBytes = size_t{4} << 20;

// Candidates that a pass over the partial sums of the largest call should have at least; smaller passes would leave the
// device half empty.
constexpr int64_t kPassCandidates = 2048;

// Calls of at most so much input and so many results take no copies: kernels read and write pinned memory. Larger ones
// would keep multiprocessors busy with what copy engines do as fast.
constexpr size_t kZeroCopyInputBytes = size_t{512} << 10;
constexpr int64_t kZeroCopyResults = 4096;

// Tokens that a claim of the Hopper kernels should have, where there are enough: it costs the dealing or loading warp
// some instructions.
constexpr int64_t kClaimTokens = 1024;
// Claims that every thread block should make at least, so that they end together ...
constexpr int64_t kClaimsOfBlock = 24;
// ... but not of fewer tokens than this: until a claim has its answer, two tiles of INT8 have been multiplied.
constexpr int64_t kLeastClaimTokens = 256;

// Candidates of a claim, for a slice of `plan` over documents of `mean_tokens`.
int32_t ClaimCandidates(const ScorePlan& plan, int64_t pass_candidates, int64_t mean_tokens) {
  const int64_t least = kLeastClaimTokens / std::max<int64_t>(mean_tokens, 1);
  const int64_t by_tokens = kClaimTokens / std::max<int64_t>(mean_tokens, 1);
  const int64_t candidates = pass_candidates * plan.num_row_tiles;
  const int64_t by_blocks = candidates / (int64_t{plan.grid()} * kClaimsOfBlock);
  // A claim of few and short documents is no more than an even share of all.
  const int64_t even = candidates / plan.grid();
  return static_cast<int32_t>(
      std::clamp<int64_t>(std::min(std::max(std::min(by_tokens, by_blocks), least), even), 1, 32));
}

// Unions of as many documents as their lists have, for every list of a join, within 16 MB.
constexpr int64_t kMostUnionScores = int64_t{4} << 20;

int64_t PartialsCapacity(const SliceCapacity& capacity) {
  const int64_t unions = std::min(kMaxJoinedLists * capacity.candidates, kMostUnionScores);
  return std::max({capacity.candidates, capacity.partial_query_tiles * kPassCandidates, unions});
}

// Words of the bitmaps of joined lists, 8 MB: one join over 32 million documents, or 32 over a million.
constexpr int64_t kJoinWords = int64_t{1} << 20;

absl::Status Beyond(absl::string_view what, int64_t value, absl::string_view limit_name, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " is ", value, "; this executor was made for ", limit_name, " = ", limit));
}

// What a kernel reads of each candidate before its tokens; null where the Hopper kernels need not.
const int64_t* ListedOffsets(const CudaDocuments& documents) {
  return documents.document_tokens() > 0 ? nullptr : documents.device_offsets();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Create(Device* device, const ExecutorOptions& options) {
  if (options.max_queries < 1 || options.max_query_tokens < 1 || options.max_candidates < 1 ||
      options.max_candidates > kMaxShardDocuments || options.max_dim < kMinDim || options.max_dim > kMaxDim ||
      options.max_staged_bytes < 0 || options.max_staged_documents < 0) {
    return absl::InvalidArgumentError("executor options: a size is outside its range");
  }
  const CurrentDevice current(device->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(device, options));
  MAXSIM_RETURN_IF_ERROR(executor->Allocate());
  return executor;
}

CudaExecutor::CudaExecutor(Device* device, const ExecutorOptions& options)
    : device_(device), options_(options), capacity_(SliceCapacity::For(options)) {}

CudaExecutor::~CudaExecutor() {
  if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
}

absl::Status CudaExecutor::Allocate() {
  MAXSIM_ASSIGN_OR_RETURN(stream_, Stream::Create());
  for (Event* event : {&start_, &copied_in_, &scored_, &selected_}) {
    MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create(Event::Use::kTime));
  }
  MAXSIM_ASSIGN_OR_RETURN(done_, Event::Create());
  const size_t results = static_cast<size_t>(capacity_.results);
  MAXSIM_ASSIGN_OR_RETURN(pinned_input_, PinnedBuffer::Allocate(capacity_.InputBytes(), "queries and candidates"));
  MAXSIM_ASSIGN_OR_RETURN(device_input_, DeviceBuffer::Allocate(capacity_.DeviceBytes(), "queries and candidates"));
  MAXSIM_ASSIGN_OR_RETURN(scores_,
                          DeviceBuffer::Allocate(static_cast<size_t>(capacity_.scores) * sizeof(float), "scores"));
  MAXSIM_ASSIGN_OR_RETURN(
      partials_,
      DeviceBuffer::Allocate(static_cast<size_t>(PartialsCapacity(capacity_)) * sizeof(float), "partial sums"));
  MAXSIM_ASSIGN_OR_RETURN(join_words_,
                          DeviceBuffer::Allocate(static_cast<size_t>(kJoinWords) * sizeof(JoinWord), "joined lists"));
  if (device_->limits.hopper) {
    MAXSIM_ASSIGN_OR_RETURN(
        placed_, DeviceBuffer::Allocate(size_t{kMostPlacedCandidates} * sizeof(PlacedCandidate), "ordered candidates"));
    MAXSIM_ASSIGN_OR_RETURN(
        order_units_, DeviceBuffer::Allocate(size_t{kMostPlacedCandidates} * sizeof(uint32_t), "ordered candidates"));
    MAXSIM_ASSIGN_OR_RETURN(team_words_,
                            DeviceBuffer::Allocate(StreamTeams::kWords * sizeof(uint32_t), "cut documents"));
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(team_words_.as(), 0, team_words_.bytes(), stream_.get()));
  }
  const size_t claims = static_cast<size_t>(capacity_.rows / kQueryTileTokens) + 2;
  MAXSIM_ASSIGN_OR_RETURN(claims_, DeviceBuffer::Allocate(claims * sizeof(uint32_t), "claims of work"));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(claims_.as(), 0, claims * sizeof(uint32_t), stream_.get()));
  MAXSIM_ASSIGN_OR_RETURN(
      keys_,
      DeviceBuffer::Allocate(
          static_cast<size_t>(MostSelectKeys(capacity_.queries, capacity_.results, device_->limits)) * sizeof(uint64_t),
          "selection"));
  MAXSIM_ASSIGN_OR_RETURN(
      select_workspaces_,
      DeviceBuffer::Allocate(static_cast<size_t>(capacity_.queries) * sizeof(SelectWorkspace), "selection"));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(select_workspaces_.as(), 0, select_workspaces_.bytes(), stream_.get()));
  MAXSIM_ASSIGN_OR_RETURN(single_launch_state_, DeviceBuffer::Allocate(sizeof(SingleLaunchState), "lone calls"));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(single_launch_state_.as(), 0, sizeof(SingleLaunchState), stream_.get()));
  MAXSIM_ASSIGN_OR_RETURN(times_, PinnedBuffer::Allocate(sizeof(CallTimes), "times"));
  MAXSIM_ASSIGN_OR_RETURN(device_results_, DeviceBuffer::Allocate(results * sizeof(DeviceScored), "results"));
  MAXSIM_ASSIGN_OR_RETURN(pinned_results_, PinnedBuffer::Allocate(results * sizeof(DeviceScored), "results"));

  MAXSIM_ASSIGN_OR_RETURN(uploader_, Uploader::Create(kStagingSlotBytes));
  MAXSIM_ASSIGN_OR_RETURN(staged_tokens_,
                          DeviceBuffer::Allocate(static_cast<size_t>(options_.max_staged_bytes), "staged documents"));
  MAXSIM_ASSIGN_OR_RETURN(
      staged_offsets_,
      DeviceBuffer::Allocate((static_cast<size_t>(options_.max_staged_documents) + 1) * sizeof(int64_t),
                             "staged documents"));
  MAXSIM_ASSIGN_OR_RETURN(
      staged_scales_,
      DeviceBuffer::Allocate(static_cast<size_t>(options_.max_staged_documents) * sizeof(float), "staged documents"));
  if (device_->stream_block_bytes > 0) {
    MAXSIM_ASSIGN_OR_RETURN(
        documents_in_, DocumentTransfer::Create(device_, device_->stream_block_bytes, device_->document_cache_bytes));
  }
  return absl::OkStatus();
}

size_t CudaExecutor::workspace_bytes() const {
  return device_input_.bytes() + scores_.bytes() + partials_.bytes() + join_words_.bytes() + placed_.bytes() +
         order_units_.bytes() + team_words_.bytes() + claims_.bytes() + keys_.bytes() + select_workspaces_.bytes() +
         device_results_.bytes() + staged_tokens_.bytes() + staged_offsets_.bytes() + staged_scales_.bytes() +
         (documents_in_ == nullptr ? 0 : documents_in_->device_bytes());
}

absl::Status CudaExecutor::CheckDevice(const Device* device) const {
  if (device == device_) return absl::OkStatus();
  return absl::InvalidArgumentError("documents were loaded by another backend than this executor's");
}

absl::Status CudaExecutor::CheckLimits(const Documents& documents, absl::Span<const Query> queries) const {
  if (static_cast<int64_t>(queries.size()) > options_.max_queries) {
    return Beyond("number of queries", static_cast<int64_t>(queries.size()), "max_queries", options_.max_queries);
  }
  if (documents.dim() > options_.max_dim) return Beyond("dimension", documents.dim(), "max_dim", options_.max_dim);
  int64_t tokens = 0, candidates = 0;
  for (const Query& query : queries) {
    tokens += query.num_tokens;
    candidates += NumCandidates(query, documents.num_documents());
  }
  if (tokens > options_.max_query_tokens) {
    return Beyond("number of query tokens", tokens, "max_query_tokens", options_.max_query_tokens);
  }
  if (candidates > options_.max_candidates) {
    return Beyond("number of candidates", candidates, "max_candidates", options_.max_candidates);
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::TopK(const Documents& documents, absl::Span<const Query> queries,
                                absl::Span<std::vector<Scored>> results, CallTimings* timings) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  const auto* const resident = dynamic_cast<const CudaDocuments*>(&documents);
  const auto* const streamed = dynamic_cast<const HostDocuments*>(&documents);
  MAXSIM_RETURN_IF_ERROR(CheckDevice(resident != nullptr   ? resident->device()
                                     : streamed != nullptr ? streamed->device()
                                                           : nullptr));
  MAXSIM_RETURN_IF_ERROR(ValidateTopKCall(queries, results.size(), documents.num_documents()));
  MAXSIM_RETURN_IF_ERROR(CheckLimits(documents, queries));
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));

  timings_ = {};
  zero_copy_ = single_launch_ = ordered_ = false;
  team_blocks_ = 0;
  if (streamed != nullptr) {
    MAXSIM_RETURN_IF_ERROR(device_->health.Note(TopKOfHostDocuments(*streamed, queries, results)));
  }
  for (size_t done = 0; resident != nullptr && done < queries.size();) {
    const absl::Span<const Query> rest = queries.subspan(done);
    const size_t count = QueriesOfSlice(rest, documents.type(), documents.dim(), documents.num_documents(), capacity_);
    MAXSIM_RETURN_IF_ERROR(
        device_->health.Note(RunSlice(*resident, rest.subspan(0, count), results.subspan(done, count))));
    done += count;
  }
  const TransferCounts counts = documents_in_ == nullptr ? TransferCounts{} : documents_in_->TakeCounts();
  if (timings != nullptr) {
    timings->copy_seconds = timings_.copy_in + timings_.copy_out;
    timings->kernel_seconds = timings_.score + timings_.select;
    timings->streamed_bytes = counts.bytes;
    timings->cache_hits = counts.hits;
    timings->cache_misses = counts.misses;
  }
  return absl::OkStatus();
}

CudaExecutor::ScorePass CudaExecutor::ScorePass::Over(const CudaDocuments& documents, int64_t num_candidates) {
  return {.memory = &documents,
          .offsets = documents.device_offsets(),
          .scales = documents.device_scales(),
          .count = num_candidates,
          .mean_tokens = documents.num_tokens() / std::max<int64_t>(documents.num_documents(), 1),
          .longest_tokens = documents.longest_tokens(),
          .spread_tokens = documents.spread_tokens(),
          .document_tokens = documents.document_tokens()};
}

absl::Status CudaExecutor::PlanSlice(const Documents& documents, absl::Span<const Query> queries, bool tensor_maps,
                                     bool join) {
  DeviceLimits limits = device_->limits;
  limits.tensor_maps = tensor_maps;
  limits.tiles &= tiles_;
  ScoreRoom room{.partials = PartialsCapacity(capacity_), .join_words = kJoinWords, .join = join};
  room.join_always = joins_ == Joins::kWheneverReadsAreSaved;
  room.document_bytes = static_cast<double>(documents.num_tokens()) *
                        static_cast<double>(DeviceRowBytes(documents.type(), documents.dim())) /
                        static_cast<double>(std::max<int64_t>(documents.num_documents(), 1));
  return input_.PlanScores(queries, documents.type(), documents.dim(), documents.num_documents(), limits, room);
}

absl::Status CudaExecutor::RunSlice(const CudaDocuments& documents, absl::Span<const Query> queries,
                                    absl::Span<std::vector<Scored>> results) {
  MAXSIM_RETURN_IF_ERROR(PlanSlice(documents, queries, documents.maps() != nullptr, joins_ != Joins::kNever));
  if (!input_.empty()) {
    zero_copy_ =
        !stage_events_ && input_.layout().total <= kZeroCopyInputBytes && input_.num_results() <= kZeroCopyResults;
    single_launch_ = zero_copy_ && single_launch_calls_ && IsSingleLaunch();
    MAXSIM_RETURN_IF_ERROR(zero_copy_ ? RunZeroCopy(documents) : RunCopied(documents));
  }
  GiveResults(results);
  return absl::OkStatus();
}

void CudaExecutor::GiveResults(absl::Span<std::vector<Scored>> results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const CallInput::ResultRange range = input_.results()[i];
    results[i].resize(static_cast<size_t>(range.count));
    if (range.count == 0) continue;
    std::memcpy(static_cast<void*>(results[i].data()), pinned_results_.as<DeviceScored>() + range.offset,
                results[i].size() * sizeof(Scored));
  }
}

// Kernels alone: one brings the input over, and the last one writes to pinned memory. Nothing stands between them in
// the stream, so that each can begin while the one before it ends; but what joins lists, where there are such. Or one
// kernel does it all.
absl::Status CudaExecutor::RunZeroCopy(const CudaDocuments& documents) {
  MAXSIM_RETURN_IF_ERROR(WriteInput());
  CallTimes* const times = times_.as<CallTimes>();
  CallArrival arrival({pinned_results_.as<DeviceScored>(), static_cast<size_t>(input_.num_results())}, times);
  FinishOnError started(stream_.get());
  MAXSIM_RETURN_IF_ERROR(single_launch_ ? StartSingleLaunch(documents) : LaunchZeroCopy(documents));
  const CallWait::Clock::time_point begin = CallWait::Clock::now();
  MAXSIM_RETURN_IF_ERROR(done_.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(call_wait_.Wait(arrival, done_, begin, EstimatedWork(documents)));
  if (!arrival.IsComplete()) return absl::InternalError("the kernels of a call ended without all of its results");
  started.Finished();
  const auto seconds = [](uint64_t from, uint64_t to) { return to > from ? static_cast<double>(to - from) * 1e-9 : 0; };
  timings_.copy_in += seconds(times->input_begin, times->input_end);
  timings_.score += seconds(times->input_end, times->scores_end);
  timings_.select += seconds(times->scores_end, times->results_end);
  return absl::OkStatus();
}

absl::Status CudaExecutor::LaunchZeroCopy(const CudaDocuments& documents) {
  if (single_launch_) return LaunchSingle(documents, SingleLaunchOf(documents));
  CallTimes* const times = times_.as<CallTimes>();
  MAXSIM_RETURN_IF_CUDA_ERROR(LaunchCopyInput(InputByKernel(ListedOffsets(documents)), times, stream_.get()));
  MAXSIM_RETURN_IF_ERROR(QuantizeQueries(documents));
  MAXSIM_RETURN_IF_ERROR(LaunchScores(ScorePass::Over(documents, input_.most_candidates())));
  return LaunchSelection(pinned_results_.as<DeviceScored>(), times);
}

// Returns whether the call is a single-launch call: one query of one query tile, whose rows a stream kernel holds in
// registers, over at most kBlockSelectCandidates candidates.
bool CudaExecutor::IsSingleLaunch() const {
  const ScorePlan& plan = input_.score_plan();
  return IsStream(plan.tile) && plan.row_bytes <= kStreamRegisterRowBytes && plan.num_row_tiles == 1 &&
         input_.num_select_queries() == 1 && input_.num_partial_sums() == 0 &&
         input_.most_candidates() <= kBlockSelectCandidates &&
         (plan.type == ScalarType::kI8 ||
          input_.layout().ordinals - input_.layout().row_weights <= kSingleLaunchInputBytes);
}

CudaExecutor::SingleLaunch CudaExecutor::SingleLaunchOf(const CudaDocuments& documents) const {
  const uint8_t* const host_input = pinned_input_.as<uint8_t>();
  const InputLayout& layout = input_.layout();
  const ScorePass pass = ScorePass::Over(documents, input_.most_candidates());
  const bool quantized = documents.type() == ScalarType::kI8;
  SingleLaunch launch{};
  launch.scores = StreamParamsOf(pass, 0, pass.count);
  launch.scores.ordinals = reinterpret_cast<const uint32_t*>(host_input + layout.ordinals);
  SingleLaunchCall& call = launch.scores.single_launch;
  call.state = single_launch_state_.as<SingleLaunchState>();
  call.num_candidates = static_cast<int32_t>(input_.most_candidates());
  call.k = input_.first_selection().k;
  call.results = pinned_results_.as<DeviceScored>();
  call.times = times_.as<CallTimes>();
  call.patience = single_launch_patience_;
  if (quantized) {
    launch.queries = QuantizeParamsOf(host_input, documents, call.times);
  } else {
    call.host_input = reinterpret_cast<const uint4*>(host_input + layout.row_weights);
    call.input = Input<uint4>(layout.row_weights);
    call.input_bytes = static_cast<uint32_t>(layout.ordinals - layout.row_weights);
  }
  return launch;
}

// Queries against I8 documents are rounded by a kernel of their own, which brings them over on the way.
absl::Status CudaExecutor::LaunchSingle(const CudaDocuments& documents, const SingleLaunch& launch) {
  if (launch.queries.rows != nullptr) {
    MAXSIM_RETURN_IF_CUDA_ERROR(LaunchQuantizeQueries(launch.queries, stream_.get()));
  }
  return MAXSIM_CUDA_STATUS(sm90::LaunchStreamKernel(input_.score_plan(), launch.scores, stream_.get()));
}

// Calls over the same documents for as many results of as many candidates launch alike: their input is elsewhere.
absl::Status CudaExecutor::StartSingleLaunch(const CudaDocuments& documents) {
  struct Key {
    SingleLaunch launch;
    int32_t type, num_steps, grid, unused;
  };
  static_assert(std::is_trivially_copyable_v<Key>);
  const ScorePlan& plan = input_.score_plan();
  const Key key{SingleLaunchOf(documents), static_cast<int32_t>(plan.type), plan.num_steps, plan.grid(), 0};
  team_blocks_ = key.launch.scores.teams.blocks;
  return repeated_launch_.Start(stream_.get(), {reinterpret_cast<const uint8_t*>(&key), sizeof(key)},
                                [&] { return LaunchSingle(documents, key.launch); });
}

absl::Status CudaExecutor::StartAgain(const Documents& documents) {
  const auto* const resident = dynamic_cast<const CudaDocuments*>(&documents);
  if (!zero_copy_ || resident == nullptr || input_.empty()) {
    return absl::FailedPreconditionError("the last call was not one without copies");
  }
  return LaunchZeroCopy(*resident);
}

// One copy in, scores, selection, one copy out; the host sleeps until the end.
absl::Status CudaExecutor::RunCopied(const CudaDocuments& documents) {
  FinishOnError started(stream_.get());
  MAXSIM_RETURN_IF_ERROR(CopyInput(ListedOffsets(documents)));
  MAXSIM_RETURN_IF_ERROR(QuantizeQueries(documents));
  MAXSIM_RETURN_IF_ERROR(copied_in_.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(LaunchScores(ScorePass::Over(documents, input_.most_candidates())));
  MAXSIM_RETURN_IF_ERROR(SelectAndCopyResults());
  started.Finished();
  return AddTimings(copied_in_);
}

// What follows the scores, and waits for it.
absl::Status CudaExecutor::SelectAndCopyResults() {
  MAXSIM_RETURN_IF_ERROR(scored_.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(LaunchSelection(device_results_.as<DeviceScored>(), nullptr));
  MAXSIM_RETURN_IF_ERROR(selected_.Record(stream_.get()));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(pinned_results_.as(), device_results_.as(),
                                              static_cast<size_t>(input_.num_results()) * sizeof(DeviceScored),
                                              cudaMemcpyDeviceToHost, stream_.get()));
  MAXSIM_RETURN_IF_ERROR(done_.Record(stream_.get()));
  return done_.Wait();
}

absl::Status CudaExecutor::WriteInput() {
  if (input_.layout().total > pinned_input_.bytes() || input_.layout().device_total > device_input_.bytes()) {
    return absl::InternalError(absl::StrCat("a slice takes ", input_.layout().total, " bytes of input, ",
                                            input_.layout().device_total, " on the device; there is room for ",
                                            pinned_input_.bytes(), " and ", device_input_.bytes()));
  }
  input_.Write(pinned_input_.as<uint8_t>());
  return absl::OkStatus();
}

absl::Status CudaExecutor::CopyInput(const int64_t* offsets) {
  MAXSIM_RETURN_IF_ERROR(WriteInput());
  MAXSIM_RETURN_IF_ERROR(start_.Record(stream_.get()));
  // A kernel begins some microseconds after the copy engine's end, which would count as its own.
  if (stage_events_) {
    return MAXSIM_CUDA_STATUS(LaunchCopyInput(InputByKernel(offsets), times_.as<CallTimes>(), stream_.get()));
  }
  return MAXSIM_CUDA_STATUS(cudaMemcpyAsync(device_input_.as(), pinned_input_.as(), input_.layout().total,
                                            cudaMemcpyHostToDevice, stream_.get()));
}

InputCopy CudaExecutor::InputByKernel(const int64_t* offsets) const {
  return {.pinned = pinned_input_.as(),
          .device = device_input_.as(),
          .bytes = input_.layout().total,
          .ordinals = input_.layout().ordinals,
          .num_ordinals = static_cast<size_t>(input_.num_ordinals()),
          .offsets = offsets};
}

// Returns the bytes that the row tiles read, near enough.
double CudaExecutor::EstimatedWork(const CudaDocuments& documents) const {
  const double mean_tokens =
      static_cast<double>(documents.num_tokens()) / std::max(static_cast<double>(documents.num_documents()), 1.0);
  return static_cast<double>(input_.most_candidates()) * mean_tokens * static_cast<double>(documents.row_bytes()) *
         static_cast<double>(input_.score_plan().num_row_tiles);
}

absl::Status CudaExecutor::QuantizeQueries(const CudaDocuments& documents) {
  if (documents.type() != ScalarType::kI8) return absl::OkStatus();
  return MAXSIM_CUDA_STATUS(
      LaunchQuantizeQueries(QuantizeParamsOf(Input<uint8_t>(0), documents, nullptr), stream_.get()));
}

QuantizeParams CudaExecutor::QuantizeParamsOf(const uint8_t* input, const CudaDocuments& documents,
                                              CallTimes* times) const {
  const InputLayout& layout = input_.layout();
  QuantizeParams params{};
  params.values = reinterpret_cast<const float*>(input + layout.query_rows);
  params.weights = reinterpret_cast<const float*>(input + layout.row_weights);
  params.rows = Input<int8_t>(layout.quantized_rows);
  params.factors = Input<float>(layout.factors);
  params.rotation_seed = documents.rotation_seed();
  params.value_pitch = DeviceRowBytes(ScalarType::kF32, documents.dim()) / static_cast<int64_t>(sizeof(float));
  params.num_rows = static_cast<int32_t>(input_.num_rows());
  params.dim = documents.dim();
  params.row_bytes = static_cast<int32_t>(documents.row_bytes());
  params.operand_order = input_.operand_order() ? 1 : 0;
  params.rotation_factor = RotationFactor(documents.dim());
  params.times = times;
  return params;
}

void CudaExecutor::FillPass(const ScorePass& pass, ScoreParams& params) const {
  params.tokens = pass.memory->device_tokens();
  params.offsets = pass.offsets;
  params.scales = pass.scales;
  const bool quantized = pass.memory->type() == ScalarType::kI8;
  params.query_rows = Input<uint8_t>(quantized ? input_.layout().quantized_rows : input_.layout().query_rows);
  params.row_weights = Input<float>(quantized ? input_.layout().factors : input_.layout().row_weights);
  params.row_tiles = Input<RowTile>(input_.layout().row_tiles);
  params.ordinals = Input<uint32_t>(input_.layout().ordinals);
  params.pass_count = input_.pass_candidates();
  params.num_row_tiles = static_cast<int32_t>(input_.score_plan().num_row_tiles);
  params.row_bytes = input_.score_plan().row_bytes;
  params.num_steps = input_.score_plan().num_steps;
}

absl::Status CudaExecutor::JoinLists() {
  const InputLayout& layout = input_.layout();
  JoinCall call{};
  call.lists = Input<JoinedList>(layout.joined_lists);
  call.unions = Input<JoinedUnion>(layout.unions);
  call.ordinals = Input<uint32_t>(layout.ordinals);
  call.row_tiles = Input<RowTile>(layout.row_tiles);
  call.words = join_words_.as<JoinWord>();
  call.num_words = input_.num_join_words();
  call.most_words = input_.words_of_union();
  call.longest = input_.longest_joined_list();
  call.num_lists = input_.num_joined_lists();
  call.num_unions = input_.num_unions();
  return MAXSIM_CUDA_STATUS(LaunchJoin(call, stream_.get()));
}

absl::StatusOr<CandidateOrder> CudaExecutor::OrderCandidates(const ScorePass& pass) {
  if (ordering_ == Ordering::kNever || pass.longest_tokens == 0) return CandidateOrder{};
  const OrderPlan plan = input_.Order(pass.mean_tokens, pass.longest_tokens, ordering_ == Ordering::kAlways);
  if (plan.unit_octets == 0) return CandidateOrder{};
  OrderCall call{};
  call.row_tiles = Input<RowTile>(input_.layout().row_tiles);
  call.ordinals = Input<uint32_t>(input_.layout().ordinals);
  call.offsets = pass.offsets;
  call.scales = pass.scales;
  call.order = {placed_.as<PlacedCandidate>(), order_units_.as<uint32_t>(), plan.early_octets, 0};
  call.num_row_tiles = static_cast<int32_t>(input_.score_plan().num_row_tiles);
  call.unit_octets = plan.unit_octets;
  MAXSIM_RETURN_IF_CUDA_ERROR(LaunchOrderCandidates(call, stream_.get()));
  ordered_ = true;
  return call.order;
}

void CudaExecutor::FillScores(const ScorePass& pass, int64_t first, int64_t count, ScoreParams& params) const {
  FillPass(pass, params);
  params.scores = scores_.as<float>();
  params.partials = partials_.as<float>();
  params.pass_first = first;
  params.pass_count = count;
}

void CudaExecutor::FillHopper(const ScorePass& pass, int64_t first, int64_t count, HopperParams& params) const {
  FillScores(pass, first, count, params);
  params.pattern = input_.Pattern(first, count, pass.document_tokens);
  params.claims = claims_.as<uint32_t>();
}

void CudaExecutor::FillWorkQueue(const ScorePass& pass, int64_t first, int64_t count, WorkQueueParams& params) const {
  const ScorePlan& plan = input_.score_plan();
  FillHopper(pass, first, count, params);
  params.claim_candidates = ClaimCandidates(plan, std::min(input_.pass_candidates(), pass.count), pass.mean_tokens);
  params.start_tiles = StartTiles::Of(plan.grid(), static_cast<int32_t>(plan.num_row_tiles),
                                      static_cast<int32_t>(plan.num_half_tiles), params.pattern.regular);
}

StreamParams CudaExecutor::StreamParamsOf(const ScorePass& pass, int64_t first, int64_t count) const {
  const ScorePlan& plan = input_.score_plan();
  StreamParams params{};
  sm90::FillFromPlan(plan, params);
  FillHopper(pass, first, count, params);
  const StreamShares shares =
      input_.Shares(first, count, params.pattern, pass.mean_tokens, pass.spread_tokens, stream_tuning_);
  params.work = StreamWork::Of(shares);
  params.teams = StreamTeams::Of(shares, team_words_.as<uint32_t>());
  // Row tiles over the same documents read them one after the other.
  const int64_t readers = params.pattern.ordinals_stride == 0 ? plan.num_row_tiles : 1;
  const int64_t bytes = params.work.total / readers * pass.mean_tokens * pass.memory->row_bytes();
  params.read_once = bytes > device_->cache_bytes ? 1 : 0;
  return params;
}

cudaError_t CudaExecutor::LaunchKernelOf(const ScorePass& pass, int64_t first, int64_t count,
                                         const CandidateOrder& order, const sm90::QueryMap& queries) {
  const ScorePlan& plan = input_.score_plan();
  team_blocks_ = 0;
  if (IsStream(plan.tile)) {
    const StreamParams params = StreamParamsOf(pass, first, count);
    team_blocks_ = params.teams.blocks;
    return sm90::LaunchStreamKernel(plan, params, stream_.get());
  }
  if (IsWide(plan.tile)) {
    WideParams params{};
    sm90::FillFromPlan(plan, params);
    FillWorkQueue(pass, first, count, params);
    params.order = order;
    return sm90::LaunchWideKernel(plan, *pass.memory->maps(), params, stream_.get());
  }
  if (IsDeep(plan.tile)) {
    DeepParams params{};
    sm90::FillFromPlan(plan, params);
    FillWorkQueue(pass, first, count, params);
    params.order = order;
    return sm90::LaunchDeepKernel(plan, *pass.memory->maps(), queries, params, stream_.get());
  }
  PortableParams params{};
  FillFromPlan(plan, params);
  FillScores(pass, first, count, params);
  return LaunchPortableKernel(plan, params, stream_.get());
}

absl::Status CudaExecutor::LaunchScores(const ScorePass& pass) {
  if (input_.num_unions() > 0) MAXSIM_RETURN_IF_ERROR(JoinLists());
  const ScorePlan& plan = input_.score_plan();
  const int64_t end = pass.first + pass.count;
  CandidateOrder order{};
  MAXSIM_ASSIGN_OR_RETURN(order, OrderCandidates(pass));
  sm90::QueryMap query_map;
  if (IsDeep(plan.tile)) {
    ScoreParams params{};
    FillPass(pass, params);
    MAXSIM_RETURN_IF_ERROR(
        sm90::DescribeQueries(plan.type, params.query_rows, input_.num_rows(), plan.row_bytes, plan.tile, query_map));
  }
  for (int64_t first = pass.first; first < end; first += input_.pass_candidates()) {
    const int64_t count = std::min(input_.pass_candidates(), end - first);
    MAXSIM_RETURN_IF_CUDA_ERROR(LaunchKernelOf(pass, first, count, order, query_map));
    const PartialSumsCall sums = {Input<PartialSums>(input_.layout().partial_sums), input_.num_partial_sums(),
                                  partials_.as<float>(), Input<uint32_t>(input_.layout().ordinals),
                                  join_words_.as<JoinWord>()};
    MAXSIM_RETURN_IF_CUDA_ERROR(
        LaunchAddPartials(sums, first, count, scores_.as<float>(), device_->overlap, stream_.get()));
  }
  return absl::OkStatus();
}

absl::Status CudaExecutor::LaunchSelection(DeviceScored* results, CallTimes* times) {
  SelectCall call{};
  call.queries = Input<SelectQuery>(input_.layout().select_queries);
  call.scores = scores_.as<float>();
  call.workspaces = select_workspaces_.as<SelectWorkspace>();
  call.keys = keys_.as<uint64_t>();
  call.results = results;
  call.num_large = input_.num_large_selections();
  call.num_small = input_.num_select_queries() - call.num_large;
  call.most_splits = input_.most_splits();
  call.most_rank_blocks = input_.most_rank_blocks();
  call.only = input_.first_selection();
  return MAXSIM_CUDA_STATUS(LaunchSelect(call, times, device_->overlap, stream_.get()));
}

// `copied_in` is when everything that was to be scored had come over.
absl::Status CudaExecutor::AddTimings(const Event& copied_in) {
  const auto add = [](double& total, const Event& begin, const Event& end) -> absl::Status {
    double seconds = 0;
    MAXSIM_ASSIGN_OR_RETURN(seconds, end.SecondsSince(begin));
    total += seconds;
    return absl::OkStatus();
  };
  MAXSIM_RETURN_IF_ERROR(add(timings_.copy_in, start_, copied_in));
  MAXSIM_RETURN_IF_ERROR(add(timings_.score, copied_in, scored_));
  MAXSIM_RETURN_IF_ERROR(add(timings_.select, scored_, selected_));
  return add(timings_.copy_out, selected_, done_);
}

absl::Status CudaExecutor::Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                                 absl::Span<TokenMatch> matches) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  const auto* const resident = dynamic_cast<const CudaDocuments*>(&documents);
  const auto* const streamed = dynamic_cast<const HostDocuments*>(&documents);
  MAXSIM_RETURN_IF_ERROR(CheckDevice(resident != nullptr   ? resident->device()
                                     : streamed != nullptr ? streamed->device()
                                                           : nullptr));
  MAXSIM_RETURN_IF_ERROR(ValidateAlignCall(query, ordinals, matches.size(), documents.num_documents()));
  if (documents.dim() > options_.max_dim) return Beyond("dimension", documents.dim(), "max_dim", options_.max_dim);
  if (query.num_tokens > options_.max_query_tokens) {
    return Beyond("number of query tokens", query.num_tokens, "max_query_tokens", options_.max_query_tokens);
  }
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));

  if (streamed != nullptr) return device_->health.Note(AlignHostDocuments(*streamed, query, ordinals, matches));
  zero_copy_ = single_launch_ = ordered_ = false;
  team_blocks_ = 0;
  const size_t tokens = static_cast<size_t>(query.num_tokens);
  const size_t chunk = AlignRoom(query);
  for (size_t begin = 0; begin < ordinals.size(); begin += chunk) {
    const size_t count = std::min(chunk, ordinals.size() - begin);
    MAXSIM_RETURN_IF_ERROR(device_->health.Note(AlignPart(ScorePass::Over(*resident, static_cast<int64_t>(count)),
                                                          query, ordinals.subspan(begin, count),
                                                          matches.subspan(begin * tokens, count * tokens))));
  }
  return absl::OkStatus();
}

// As many documents at a time as the workspace has room for.
size_t CudaExecutor::AlignRoom(const Query& query) const {
  const size_t room = std::min(partials_.bytes(), pinned_results_.bytes()) / sizeof(DeviceMatch);
  return std::clamp<size_t>(room / static_cast<size_t>(query.num_tokens), 1, static_cast<size_t>(capacity_.candidates));
}

absl::Status CudaExecutor::AlignPart(const ScorePass& pass, const Query& query, absl::Span<const uint32_t> ordinals,
                                     absl::Span<TokenMatch> matches) {
  MAXSIM_RETURN_IF_ERROR(input_.PlanMatches(query, ordinals, pass.memory->type(), pass.memory->dim(), device_->limits));
  FinishOnError started(stream_.get());
  MAXSIM_RETURN_IF_ERROR(CopyInput(nullptr));
  MAXSIM_RETURN_IF_ERROR(QuantizeQueries(*pass.memory));
  PortableParams params{};
  FillFromPlan(input_.score_plan(), params);
  FillPass(pass, params);
  params.matches = partials_.as<DeviceMatch>();
  params.query_tokens = query.num_tokens;
  MAXSIM_RETURN_IF_CUDA_ERROR(LaunchPortableKernel(input_.score_plan(), params, stream_.get()));
  const size_t bytes = matches.size() * sizeof(TokenMatch);
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(pinned_results_.as(), partials_.as(), bytes, cudaMemcpyDeviceToHost, stream_.get()));
  MAXSIM_RETURN_IF_ERROR(done_.Record(stream_.get()));
  MAXSIM_RETURN_IF_ERROR(done_.Wait());
  started.Finished();
  std::memcpy(static_cast<void*>(matches.data()), pinned_results_.as(), bytes);
  return absl::OkStatus();
}

absl::StatusOr<const Documents*> CudaExecutor::Stage(const DocumentsView& documents) {
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  MAXSIM_RETURN_IF_ERROR(ValidateDocuments(documents));
  const CudaDocuments::Shape shape = CudaDocuments::Shape::Of(documents);
  if (shape.num_documents > options_.max_staged_documents) {
    return Beyond("number of inline documents", shape.num_documents, "max_staged_documents",
                  options_.max_staged_documents);
  }
  if (shape.token_bytes() > staged_tokens_.bytes()) {
    return Beyond("size of inline documents in bytes (rows padded to a multiple of 16)",
                  static_cast<int64_t>(shape.token_bytes()), "max_staged_bytes", options_.max_staged_bytes);
  }
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(current.status()));
  staged_.reset();
  MAXSIM_RETURN_IF_ERROR(device_->health.Note(UploadStaged(documents, shape)));
  staged_.emplace(device_, shape, staged_tokens_.as(), staged_offsets_.as<int64_t>(), staged_scales_.as<float>(),
                  documents.rotation_seed);
  return &*staged_;
}

// The copies and the calls that use them share the CUDA stream, so there is nothing to wait for.
absl::Status CudaExecutor::UploadStaged(const DocumentsView& view, const CudaDocuments::Shape& shape) {
  FinishOnError started(stream_.get());
  MAXSIM_RETURN_IF_ERROR(uploader_.CopyRows(view.tokens, shape.num_tokens, view.dim * SizeOf(view.type),
                                            staged_tokens_.as(), static_cast<size_t>(shape.row_bytes()),
                                            stream_.get()));
  if (shape.num_documents > 0) {
    MAXSIM_RETURN_IF_ERROR(
        uploader_.CopyBytes(view.offsets, shape.offset_bytes(), staged_offsets_.as(), stream_.get()));
    MAXSIM_RETURN_IF_ERROR(uploader_.CopyBytes(view.scales, shape.scale_bytes(), staged_scales_.as(), stream_.get()));
  }
  started.Finished();
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
