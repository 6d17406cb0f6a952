#include "server/engine/engine.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "server/engine/batch.h"
#include "server/engine/batch_queries.h"
#include "server/engine/device_load.h"
#include "server/engine/device_scanner.h"
#include "server/engine/device_scorer.h"
#include "server/engine/helper_thread.h"

namespace maxsim::engine {
namespace {

constexpr int kMaxLanes = 64;

// On a GPU a call that scans codes may have 16 times as many token pairs as a call that scores vectors. The largest
// such call takes about 0.23 s on an H200: 1,024 query tokens against a billion document tokens. A call that scans all
// parts waits for the GPU once, and its parts' results are merged once. A part with more token pairs is scanned in
// pieces, by lists of documents, which takes three times as long.
constexpr uint64_t kScanWorkFactor = 16;

absl::Status AtLeastOne(absl::string_view name, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("engine option ", name, " is ", value, "; must be at least 1"));
}

absl::Status Validate(const EngineOptions& options) {
  if (options.num_lanes < 1 || options.num_lanes > kMaxLanes) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine option num_lanes is ", options.num_lanes, "; must be 1 to ", kMaxLanes));
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
    return absl::InvalidArgumentError("engine option max_call_work is 0; must be at least 1");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t StagedBytes(ScalarType type, int32_t dim, int64_t num_tokens) {
  // Backends pad rows to a multiple of 16 bytes.
  const int64_t padded_columns = type == ScalarType::kI8 ? 16 : 8;
  return num_tokens * ((dim + padded_columns - 1) / padded_columns * padded_columns) *
         static_cast<int64_t>(SizeOf(type));
}

Lane::Lane(store::DeviceSet* devices, DeviceLoad* load, const EngineOptions& options)
    : devices_(devices),
      load_(load),
      limits_(options.executor),
      scratch_(std::make_unique<Scratch>()),
      scanned_queries_(std::make_unique<BatchQueries>()) {}

Lane::~Lane() = default;

void Lane::RunOnDevices(absl::Span<const uint32_t> devices, absl::FunctionRef<void(uint32_t device)> work) {
  const auto run = [this, work](uint32_t device) {
    load_->EnterLane(device);
    work(device);
    load_->LeaveLane(device);
  };
  for (size_t idx = 1; idx < devices.size(); ++idx) {
    helpers_[idx - 1]->Start([&run, device = devices[idx]] { run(device); });
  }
  if (!devices.empty()) run(devices.front());
  for (size_t idx = 1; idx < devices.size(); ++idx) helpers_[idx - 1]->Wait();
}

absl::Status Lane::Prepare(const EngineOptions& options) {
  for (uint32_t device = 0; device < devices_->size(); ++device) {
    absl::StatusOr<std::unique_ptr<Executor>> executor = devices_->backend(device).CreateExecutor(options.executor);
    if (!executor.ok()) {
      const std::string where = devices_->size() == 1 ? "" : absl::StrCat("device ", devices_->number(device), ": ");
      return absl::Status(executor.status().code(), absl::StrCat(where, executor.status().message()));
    }
    const uint64_t max_call_work = std::min(options.max_call_work, devices_->backend(device).info().max_call_work);
    scorers_.push_back(std::make_unique<DeviceScorer>(device, *std::move(executor), options.executor, max_call_work));
    const uint64_t max_scan_work =
        devices_->is_gpu() ? SaturatingMultiply(max_call_work, kScanWorkFactor) : max_call_work;
    scanners_.push_back(std::make_unique<DeviceScanner>(device, devices_, max_scan_work));
  }
  try {
    for (size_t idx = 1; idx < devices_->size(); ++idx) helpers_.push_back(std::make_unique<HelperThread>());
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread for a further device: ", error.what()));
  }
  return absl::OkStatus();
}

Engine::Engine(std::unique_ptr<store::DeviceSet> owned, store::DeviceSet* devices)
    : owned_devices_(std::move(owned)),
      devices_(owned_devices_ != nullptr ? owned_devices_.get() : devices),
      load_(std::make_unique<DeviceLoad>(devices_->size())) {}

Engine::~Engine() = default;

absl::Status Engine::AddLanes(const EngineOptions& options) {
  if (absl::Status status = Validate(options); !status.ok()) return status;
  for (int idx = 0; idx < options.num_lanes; ++idx) {
    std::unique_ptr<Lane> lane(new Lane(devices_, load_.get(), options));
    if (const absl::Status status = lane->Prepare(options); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("lane ", idx, " of ", options.num_lanes, ": ", status.message()));
    }
    lanes_.push_back(std::move(lane));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(store::DeviceSet* devices, const EngineOptions& options) {
  std::unique_ptr<Engine> engine(new Engine(nullptr, devices));
  if (absl::Status status = engine->AddLanes(options); !status.ok()) return status;
  return engine;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Backend* backend, const EngineOptions& options) {
  std::unique_ptr<Engine> engine(new Engine(std::make_unique<store::DeviceSet>(backend), nullptr));
  if (absl::Status status = engine->AddLanes(options); !status.ok()) return status;
  return engine;
}

absl::Status Engine::Health() const { return devices_->Health(); }

int Engine::lanes_busy(size_t device) const { return load_->lanes_busy(device); }

}  // namespace maxsim::engine
