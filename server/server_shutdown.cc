// How a server ends: it drains, answers what it has accepted, and closes its ports one after the other.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/monotonic_clock.h"
#include "server/observability/logging.h"
#include "server/server.h"
#include "server/startup.h"

namespace maxsim {
namespace {

// Calls that come while gRPC closes its port are cut off, so it stays open, refusing, until clients have noticed: until
// this long no call was in progress, but no longer than kMaxLinger.
constexpr absl::Duration kQuietTime = absl::Milliseconds(250);
constexpr absl::Duration kMaxLinger = absl::Seconds(2);
// What is left then is cut off: watches of the health service, calls beyond their grace.
constexpr absl::Duration kCloseTime = absl::Milliseconds(100);

// Time for the answers of a failed device's requests to leave.
constexpr absl::Duration kDeviceLostGrace = absl::Seconds(2);

}  // namespace

int Server::Run() {
  bool lost = false;
  {
    MutexLock lock(&mutex_);
    while (!stop_requested_ && health_.ok()) changed_.Wait(lock);
    lost = !health_.ok();
  }
  Shutdown(lost ? absl::ZeroDuration() : config_.server.shutdown_delay,
           lost ? std::min(kDeviceLostGrace, config_.server.shutdown_grace) : config_.server.shutdown_grace);
  MutexLock lock(&mutex_);
  return health_.ok() ? 0 : kExitDeviceLost;
}

void Server::Shutdown(absl::Duration delay, absl::Duration grace) {
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kStopped) return;
  }
  // 1. The server is not ready, and still serves. A device that is lost meanwhile ends the wait.
  SetPhase(Phase::kDraining);
  if (delay > absl::ZeroDuration()) {
    log::Write(spdlog::level::info, "draining", {{"seconds", absl::ToDoubleSeconds(delay)}});
    MutexLock lock(&mutex_);
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay);
    while (health_.ok() && changed_.WaitUntil(lock, end)) {
    }
  }
  // 2. Whatever was accepted is answered; what comes is refused.
  RemoveOwnPortFile();
  const absl::Time deadline = MonotonicNow() + grace;
  calls_.BeginDrain();
  role_->SetState(service::ServingState::kDraining);
  reranker_.DrainStreams();
  document_calls_.DrainStreams();
  reflection_.Drain();
  role_->StopChanges();
  worker_->Stop();
  const int64_t failed = role_->Drain(deadline);
  // 3. and 4. Refusals go on until no new call has come for a moment; then the gRPC port closes.
  TakePortProbe().reset();  // outside of the lock, which it takes
  if (grpc_ != nullptr) CloseGrpcPort(deadline, grace);
  // 5. HTTP goes last: probes and metrics are answered until everything else is done.
  if (http_ != nullptr) http_->Stop(std::max(deadline - MonotonicNow(), std::min(kMaxLinger, grace)));
  // 6. Spans have the rest of the grace, and as long as a port where that is used up.
  tracer_->Shutdown(std::max(deadline, MonotonicNow() + std::min(kMaxLinger, grace)));
  {
    MutexLock lock(&mutex_);
    monitor_stop_ = true;
  }
  changed_.NotifyAll();
  if (monitor_.joinable()) monitor_.join();
  SetPhase(Phase::kStopped);
  // A start that failed has said so.
  if (!has_served()) return;
  log::Write(spdlog::level::info, "stopped", {{"unanswered_requests", failed}});
}

std::unique_ptr<PortProbe> Server::TakePortProbe() {
  MutexLock lock(&mutex_);
  return std::move(port_probe_);
}

void Server::RemoveOwnPortFile() {
  if (!std::exchange(port_file_written_, false)) return;
  if (!NamesThisProcess(config_.server.port_file)) return;  // another server's by now
  if (absl::Status status = RemovePortFile(config_.server.port_file); !status.ok()) {
    log::Write(spdlog::level::warn, "port_file_left", {{"error", status.ToString()}});
  }
}

void Server::CloseGrpcPort(absl::Time deadline, absl::Duration grace) {
  // The scheduler has answered; what is left of the grace is for the answers to leave, to clients that read slowly.
  calls_.WaitForEarlierCalls(deadline - MonotonicNow());
  calls_.WaitForQuiet(kQuietTime, std::min(kMaxLinger, grace));
  grpc_->Shutdown(kCloseTime);
}

}  // namespace maxsim
