#include "server/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace maxsim::engine {
namespace {

constexpr int kMaxLanes = 64;

absl::Status AtLeastOne(absl::string_view name, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("engine option ", name, " is ", value, "; it must be at least 1"));
}

absl::Status Validate(const EngineOptions& options) {
  if (options.num_lanes < 1 || options.num_lanes > kMaxLanes) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine option num_lanes is ", options.num_lanes, "; it must be 1 to ", kMaxLanes));
  }
  const ExecutorOptions& executor = options.executor;
  for (const absl::Status& status :
       {AtLeastOne("max_queries", executor.max_queries), AtLeastOne("max_query_tokens", executor.max_query_tokens),
        AtLeastOne("max_candidates", executor.max_candidates), AtLeastOne("max_dim", executor.max_dim),
        AtLeastOne("max_staged_bytes", executor.max_staged_bytes),
        AtLeastOne("max_staged_documents", executor.max_staged_documents)}) {
    if (!status.ok()) return status;
  }
  if (options.max_call_work < 1) {
    return absl::InvalidArgumentError("engine option max_call_work is 0; it must be at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t StagedBytes(ScalarType type, int32_t dim, int64_t num_tokens) {
  // Rows of a multiple of 16 bytes.
  const int64_t padded_columns = type == ScalarType::kI8 ? 16 : 8;
  return num_tokens * ((dim + padded_columns - 1) / padded_columns * padded_columns) *
         static_cast<int64_t>(SizeOf(type));
}

Engine::Engine(Backend* backend, std::vector<std::unique_ptr<Lane>> lanes)
    : backend_(backend), lanes_(std::move(lanes)) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Backend* backend, const EngineOptions& options) {
  if (absl::Status status = Validate(options); !status.ok()) return status;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int idx = 0; idx < options.num_lanes; ++idx) {
    absl::StatusOr<std::unique_ptr<Executor>> executor = backend->CreateExecutor(options.executor);
    if (!executor.ok()) {
      return absl::Status(executor.status().code(),
                          absl::StrCat("lane ", idx, " of ", options.num_lanes, ": ", executor.status().message()));
    }
    lanes.push_back(std::make_unique<Lane>(*std::move(executor), options.executor, options.max_call_work));
  }
  return std::unique_ptr<Engine>(new Engine(backend, std::move(lanes)));
}

absl::Status Engine::Health() const { return backend_->Health(); }

}  // namespace maxsim::engine
