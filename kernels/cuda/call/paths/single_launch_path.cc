#include "kernels/cuda/call/paths/single_launch_path.h"

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/call/launch/score_launcher.h"
#include "kernels/cuda/call/paths/zero_copy_path.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/score.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {

bool SingleLaunchPath::Fits(const CallContext& context) {
  const CallInput& input = context.workspace.input;
  const ScorePlan& plan = input.score_plan();
  return context.tuning.single_launch_calls && IsStream(plan.tile) && plan.row_bytes <= kStreamRegisterRowBytes &&
         plan.num_row_tiles == 1 && input.num_select_queries() == 1 && input.num_partial_sums() == 0 &&
         input.most_candidates() <= kBlockSelectCandidates &&
         (plan.type == ScalarType::kI8 ||
          input.layout().ordinals - input.layout().row_weights <= kSingleLaunchInputBytes);
}

absl::Status SingleLaunchPath::Run() const {
  return RunWithoutCopies(context_, documents_, [this] { return LaunchOrReplay(); });
}

absl::Status SingleLaunchPath::Launch() const {
  const ScoreLauncher launcher(context_);
  return launcher.LaunchSingle(launcher.SingleLaunchOf(documents_));
}

// Two calls launch in the same way if they have the same documents, the same number of candidates and the same number
// of results. Only their inputs differ, and these lie at the same address. So such a launch can be replayed.
absl::Status SingleLaunchPath::LaunchOrReplay() const {
  struct Key {
    SingleLaunch launch;
    int32_t type, num_steps, grid, unused;
  };
  static_assert(std::is_trivially_copyable_v<Key>);
  Workspace& workspace = context_.workspace;
  const ScoreLauncher launcher(context_);
  const ScorePlan& plan = workspace.input.score_plan();
  const Key key{launcher.SingleLaunchOf(documents_), static_cast<int32_t>(plan.type), plan.num_steps, plan.grid(), 0};
  context_.trace.team_blocks = key.launch.team_blocks();
  absl::Status started =
      workspace.repeated_launch.Start(workspace.stream.get(), {reinterpret_cast<const uint8_t*>(&key), sizeof(key)},
                                      [&] { return launcher.LaunchSingle(key.launch); });
  context_.trace.graph_replayed = workspace.repeated_launch.last_was_graph();
  return started;
}

}  // namespace maxsim::cuda
