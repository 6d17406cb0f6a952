// The part of the document API that servers and routers have in common.
#pragma once

#include <atomic>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/call_context.h"
#include "server/service/call/limits.h"

namespace maxsim::service {

// The class is thread-safe.
class DocumentApiBase : public DocumentApi {
 public:
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) const final;
  const RequestLimits& limits() const final { return limits_; }

  // Sets the answer to new calls from now on.
  void SetState(ServingState state) { state_ = state; }

 protected:
  // `metrics` must outlive the object.
  DocumentApiBase(Metrics* metrics, const RequestLimits& limits) : metrics_(metrics), limits_(limits) {}

  // Returns OK, or UNAVAILABLE while the server takes no calls.
  absl::Status CheckState() const;

  Metrics* metrics() const { return metrics_; }

 private:
  Metrics* const metrics_;
  const RequestLimits limits_;
  std::atomic<ServingState> state_{ServingState::kLoading};
};

}  // namespace maxsim::service
