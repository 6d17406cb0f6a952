#include "server/service/document_api_base.h"

#include "base/monotonic_clock.h"
#include "server/service/call/status.h"

namespace maxsim::service {

void DocumentApiBase::CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) const {
  metrics_->CountRequest(method, status.code(), MonotonicNow() - arrival);
}

absl::Status DocumentApiBase::CheckState() const { return CheckServing(state_); }

}  // namespace maxsim::service
