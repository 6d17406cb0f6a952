// The shutdown of a server, in the steps that Server::Run lists. The server first reports that it is not ready, but
// still serves. Then it refuses new requests and answers those that it has accepted. Last, it closes its ports one by
// one.
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

// gRPC cuts off calls that arrive while it closes its port. So the port first stays open and refuses all calls until
// none has been in progress for kQuietTime. This takes at most kMaxLinger, in which clients notice the shutdown.
constexpr absl::Duration kQuietTime = absl::Milliseconds(250);
constexpr absl::Duration kMaxLinger = absl::Seconds(2);
// The time that gRPC gets to close its port. After this time, gRPC cuts off the calls that remain: watches of the
// health service, and calls that outlast the grace.
constexpr absl::Duration kCloseTime = absl::Milliseconds(100);

// The longest grace after the loss of a device, for answers that are on their way to clients.
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
  // Step 1: not ready, but still serving. The loss of a device ends the wait.
  SetPhase(Phase::kDraining);
  if (delay > absl::ZeroDuration()) {
    log::Write(spdlog::level::info, "draining", {{"seconds", absl::ToDoubleSeconds(delay)}});
    MutexLock lock(&mutex_);
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay);
    while (health_.ok() && changed_.WaitUntil(lock, end)) {
    }
  }
  // 2. Accepted requests are answered; new ones are refused.
  RemoveOwnPortFile();
  const absl::Time deadline = MonotonicNow() + grace;
  calls_.BeginDrain();
  role_->SetState(service::ServingState::kDraining);
  reranker_.DrainStreams();
  document_calls_.DrainStreams();
  admin_.DrainStreams();
  reflection_.Drain();
  role_->StopChanges();
  worker_->Stop();
  const int64_t failed = role_->Drain(deadline);
  // Steps 3 and 4: refuse new calls until none has come for a moment, then close.
  TakePortProbe().reset();  // without holding the lock, because this call takes it
  if (grpc_ != nullptr) CloseGrpcPort(deadline, grace);
  // Step 5: close HTTP last. Until then it answers probes and metrics.
  if (http_ != nullptr) http_->Stop(std::max(deadline - MonotonicNow(), std::min(kMaxLinger, grace)));
  // Step 6. The queued trace spans get the rest of the grace to be sent, but at least kMaxLinger (or `grace`, if that
  // is shorter).
  tracer_->Shutdown(std::max(deadline, MonotonicNow() + std::min(kMaxLinger, grace)));
  {
    MutexLock lock(&mutex_);
    monitor_stop_ = true;
  }
  changed_.NotifyAll();
  if (monitor_.joinable()) monitor_.join();
  SetPhase(Phase::kStopped);
  // If the server failed to start, that has already been logged.
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
  // Clients that read slowly may use the rest of the grace to get their answers.
  calls_.WaitForEarlierCalls(deadline - MonotonicNow());
  calls_.WaitForQuiet(kQuietTime, std::min(kMaxLinger, grace));
  grpc_->Shutdown(kCloseTime);
}

}  // namespace maxsim
