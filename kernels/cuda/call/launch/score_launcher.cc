#include "kernels/cuda/call/launch/score_launcher.h"

#include <algorithm>

#include "kernels/cuda/call/launch/slice_input.h"
#include "kernels/cuda/candidates/join_launch.h"
#include "kernels/cuda/candidates/order_candidates.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/score/add_partials.h"
#include "kernels/cuda/score/hopper_common/describe_maps.h"
#include "kernels/cuda/score/hopper_deep/kernel.h"
#include "kernels/cuda/score/hopper_stream/kernel.h"
#include "kernels/cuda/score/hopper_wide/kernel.h"
#include "kernels/cuda/score/portable/kernel.h"
#include "kernels/cuda/score/residual/kernel.h"
#include "kernels/plan/claims.h"
#include "kernels/plan/order.h"
#include "kernels/plan/score.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

absl::Status ScoreLauncher::JoinLists() const {
  const Workspace& workspace = context_.workspace;
  const CallInput& input = workspace.input;
  const InputLayout& layout = input.layout();
  JoinCall call{};
  call.lists = workspace.DeviceInput<JoinedList>(layout.joined_lists);
  call.unions = workspace.DeviceInput<JoinedUnion>(layout.unions);
  call.ordinals = workspace.DeviceInput<uint32_t>(layout.ordinals);
  call.row_tiles = workspace.DeviceInput<RowTile>(layout.row_tiles);
  call.words = workspace.join_words.as<JoinWord>();
  call.num_words = input.num_join_words();
  call.most_words = input.words_of_union();
  call.longest = input.longest_joined_list();
  call.num_lists = input.num_joined_lists();
  call.num_unions = input.num_unions();
  return MAXSIM_CUDA_STATUS(LaunchJoin(call, workspace.stream.get()));
}

// Sorts the pass's candidates on the device by document length, if the OrderPlan asks for it. If not, returns an order
// without candidates: thread blocks then take the candidates in the order of the lists.
absl::StatusOr<CandidateOrder> ScoreLauncher::OrderCandidates(const ScorePass& pass) const {
  const Workspace& workspace = context_.workspace;
  const CallInput& input = workspace.input;
  const Ordering ordering = context_.tuning.ordering;
  if (ordering == Ordering::kNever || pass.longest_tokens == 0) return CandidateOrder{};
  const OrderPlan plan = input.Order(pass.mean_tokens, pass.longest_tokens, ordering == Ordering::kAlways);
  if (plan.unit_octets == 0) return CandidateOrder{};
  OrderCall call{};
  call.row_tiles = workspace.DeviceInput<RowTile>(input.layout().row_tiles);
  call.ordinals = workspace.DeviceInput<uint32_t>(input.layout().ordinals);
  call.offsets = pass.offsets;
  call.scales = pass.scales;
  call.order = {workspace.placed.as<PlacedCandidate>(), workspace.order_units.as<uint32_t>(), plan.early_octets, 0};
  call.num_row_tiles = static_cast<int32_t>(input.score_plan().num_row_tiles);
  call.unit_octets = plan.unit_octets;
  MAXSIM_RETURN_IF_CUDA_ERROR(LaunchOrderCandidates(call, workspace.stream.get()));
  context_.trace.ordered = true;
  return call.order;
}

void ScoreLauncher::FillPass(const ScorePass& pass, ScoreParams& params) const {
  const Workspace& workspace = context_.workspace;
  const CallInput& input = workspace.input;
  const InputLayout& layout = input.layout();
  params.tokens = pass.memory->device_tokens();
  params.offsets = pass.offsets;
  params.scales = pass.scales;
  const bool quantized = pass.memory->type() == ScalarType::kI8;
  params.query_rows = workspace.DeviceInput<uint8_t>(quantized ? layout.quantized_rows : layout.query_rows);
  params.row_weights = workspace.DeviceInput<float>(quantized ? layout.factors : layout.row_weights);
  params.row_tiles = workspace.DeviceInput<RowTile>(layout.row_tiles);
  params.ordinals = workspace.DeviceInput<uint32_t>(layout.ordinals);
  params.pass_count = input.pass_candidates();
  params.num_row_tiles = static_cast<int32_t>(input.score_plan().num_row_tiles);
  params.row_bytes = input.score_plan().row_bytes;
  params.num_steps = input.score_plan().num_steps;
}

void ScoreLauncher::FillScores(const ScorePass& pass, int64_t first, int64_t count, ScoreParams& params) const {
  FillPass(pass, params);
  params.scores = context_.workspace.scores.as<float>();
  params.partials = context_.workspace.partials.as<float>();
  params.pass_first = first;
  params.pass_count = count;
}

void ScoreLauncher::FillHopper(const ScorePass& pass, int64_t first, int64_t count, HopperParams& params) const {
  FillScores(pass, first, count, params);
  params.pattern = context_.workspace.input.Pattern(first, count, pass.document_tokens);
  params.claims = context_.workspace.claims.as<uint32_t>();
}

void ScoreLauncher::FillWorkQueue(const ScorePass& pass, int64_t first, int64_t count, const CandidateOrder& order,
                                  WorkQueueParams& params) const {
  const ScorePlan& plan = context_.workspace.input.score_plan();
  FillHopper(pass, first, count, params);
  const int64_t candidates = std::min(context_.workspace.input.pass_candidates(), pass.count) * plan.num_row_tiles;
  params.claim_candidates = ClaimCandidates(pass.mean_tokens, candidates, plan.grid(), context_.tuning.claims);
  params.start_tiles = StartTiles::Of(plan.grid(), static_cast<int32_t>(plan.num_row_tiles),
                                      static_cast<int32_t>(plan.num_half_tiles), params.pattern.regular);
  params.order = order;
}

void ScoreLauncher::FillResidual(const ScorePass& pass, ResidualParams& params) const {
  const CudaDocuments& documents = *pass.memory;
  params.row_bytes = static_cast<int32_t>(DeviceRowBytes(ScalarType::kF16, documents.dim()));
  params.centroids = pass.codebook->centroids();
  params.bucket_weights = pass.codebook->bucket_weights();
  params.num_centroids = pass.codebook->num_centroids();
  params.dim = documents.dim();
  params.document_bytes = static_cast<int32_t>(documents.row_bytes());
}

StreamParams ScoreLauncher::StreamParamsOf(const ScorePass& pass, int64_t first, int64_t count) const {
  const Workspace& workspace = context_.workspace;
  const CallInput& input = workspace.input;
  const ScorePlan& plan = input.score_plan();
  StreamParams params{};
  sm90::FillFromPlan(plan, params);
  FillHopper(pass, first, count, params);
  const StreamShares shares =
      input.Shares(first, count, params.pattern, pass.mean_tokens, pass.spread_tokens, context_.tuning.stream);
  params.work = StreamWork::Of(shares);
  params.teams = StreamTeams::Of(shares, workspace.team_words.as<uint32_t>());
  // If all row tiles score the same documents, the documents' bytes count once.
  const int64_t readers = params.pattern.ordinals_stride == 0 ? plan.num_row_tiles : 1;
  const int64_t bytes = params.work.total / readers * pass.mean_tokens * pass.memory->row_bytes();
  params.read_once = bytes > context_.device.cache_bytes ? 1 : 0;
  return params;
}

cudaError_t ScoreLauncher::LaunchKernel(const ScorePass& pass, int64_t first, int64_t count,
                                        const CandidateOrder& order, const sm90::QueryMap& queries) const {
  const ScorePlan& plan = context_.workspace.input.score_plan();
  const cudaStream_t stream = context_.workspace.stream.get();
  context_.trace.team_blocks = 0;
  if (IsStream(plan.tile)) {
    const StreamParams params = StreamParamsOf(pass, first, count);
    context_.trace.team_blocks = params.teams.blocks;
    return sm90::LaunchStreamKernel(plan, params, stream);
  }
  if (IsWide(plan.tile)) {
    WideParams params{};
    sm90::FillFromPlan(plan, params);
    FillWorkQueue(pass, first, count, order, params);
    return sm90::LaunchWideKernel(plan, *pass.memory->maps(), params, stream);
  }
  if (IsDeep(plan.tile)) {
    DeepParams params{};
    sm90::FillFromPlan(plan, params);
    FillWorkQueue(pass, first, count, order, params);
    return sm90::LaunchDeepKernel(plan, *pass.memory->maps(), queries, params, stream);
  }
  if (plan.tile == ScoreTile::kResidual32) {
    ResidualParams params{};
    FillScores(pass, first, count, params);
    FillResidual(pass, params);
    return LaunchResidualKernel(plan, params, stream);
  }
  PortableParams params{};
  FillFromPlan(plan, params);
  FillScores(pass, first, count, params);
  return LaunchPortableKernel(plan, params, stream);
}

absl::Status ScoreLauncher::LaunchScores(const ScorePass& pass) const {
  const Workspace& workspace = context_.workspace;
  const CallInput& input = workspace.input;
  const InputLayout& layout = input.layout();
  const ScorePlan& plan = input.score_plan();
  const cudaStream_t stream = workspace.stream.get();
  if (input.num_unions() > 0) MAXSIM_RETURN_IF_ERROR(JoinLists());
  const int64_t end = pass.first + pass.count;
  CandidateOrder order{};
  MAXSIM_ASSIGN_OR_RETURN(order, OrderCandidates(pass));
  sm90::QueryMap query_map;
  if (IsDeep(plan.tile)) {
    ScoreParams params{};
    FillPass(pass, params);
    MAXSIM_RETURN_IF_CUDA_ERROR(
        sm90::DescribeQueries(plan.type, params.query_rows, input.num_rows(), plan.row_bytes, plan.tile, query_map));
  }
  const PartialSumsCall sums = {workspace.DeviceInput<PartialSums>(layout.partial_sums), input.num_partial_sums(),
                                workspace.partials.as<float>(), workspace.DeviceInput<uint32_t>(layout.ordinals),
                                workspace.join_words.as<JoinWord>()};
  for (int64_t first = pass.first; first < end; first += input.pass_candidates()) {
    const int64_t count = std::min(input.pass_candidates(), end - first);
    MAXSIM_RETURN_IF_CUDA_ERROR(LaunchKernel(pass, first, count, order, query_map));
    MAXSIM_RETURN_IF_CUDA_ERROR(
        LaunchAddPartials(sums, first, count, workspace.scores.as<float>(), context_.device.overlap, stream));
  }
  return absl::OkStatus();
}

absl::Status ScoreLauncher::LaunchMatches(const ScorePass& pass, int32_t query_tokens) const {
  const Workspace& workspace = context_.workspace;
  const ScorePlan& plan = workspace.input.score_plan();
  if (plan.tile == ScoreTile::kResidual32) {
    ResidualParams params{};
    FillPass(pass, params);
    FillResidual(pass, params);
    params.matches = workspace.partials.as<DeviceMatch>();
    params.query_tokens = query_tokens;
    return MAXSIM_CUDA_STATUS(LaunchResidualKernel(plan, params, workspace.stream.get()));
  }
  PortableParams params{};
  FillFromPlan(plan, params);
  FillPass(pass, params);
  params.matches = workspace.partials.as<DeviceMatch>();
  params.query_tokens = query_tokens;
  return MAXSIM_CUDA_STATUS(LaunchPortableKernel(plan, params, workspace.stream.get()));
}

SingleLaunch ScoreLauncher::SingleLaunchOf(const CudaDocuments& documents) const {
  const Workspace& workspace = context_.workspace;
  const CallInput& input = workspace.input;
  const InputLayout& layout = input.layout();
  const uint8_t* const host_input = workspace.pinned_input.as<uint8_t>();
  const ScorePass pass = ScorePass::Over(documents, input.most_candidates());
  SingleLaunch launch{};
  launch.scores = StreamParamsOf(pass, 0, pass.count);
  launch.scores.ordinals = reinterpret_cast<const uint32_t*>(host_input + layout.ordinals);
  SingleLaunchCall& call = launch.scores.single_launch;
  call.state = workspace.single_launch_state.as<SingleLaunchState>();
  call.num_candidates = static_cast<int32_t>(input.most_candidates());
  call.k = input.first_selection().k;
  call.results = workspace.pinned_results.as<DeviceScored>();
  call.times = workspace.times.as<CallTimes>();
  call.patience = context_.tuning.single_launch_patience;
  if (documents.type() == ScalarType::kI8) {
    // The kernel that quantises the queries also reads them from the host's memory.
    launch.queries = QuantizeParamsOf(workspace, host_input, documents, call.times);
  } else {
    call.host_input = reinterpret_cast<const uint4*>(host_input + layout.row_weights);
    call.input = workspace.DeviceInput<uint4>(layout.row_weights);
    call.input_bytes = static_cast<uint32_t>(layout.ordinals - layout.row_weights);
  }
  return launch;
}

absl::Status ScoreLauncher::LaunchSingle(const SingleLaunch& launch) const {
  const Workspace& workspace = context_.workspace;
  const cudaStream_t stream = workspace.stream.get();
  if (launch.queries.rows != nullptr) MAXSIM_RETURN_IF_CUDA_ERROR(LaunchQuantizeQueries(launch.queries, stream));
  return MAXSIM_CUDA_STATUS(sm90::LaunchStreamKernel(workspace.input.score_plan(), launch.scores, stream));
}

}  // namespace maxsim::cuda
