#include "server/cluster/groups/answer_fault.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/status.h"
#include "server/observability/log_limit.h"
#include "server/observability/logging.h"

namespace maxsim::cluster {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

}  // namespace

absl::Status ErrorOfReplica(const grpc::Status& status) {
  absl::Status error = client::FromGrpcStatus(status);
  if (IsUtf8(status.error_message())) return error;
  return WithMessage(error, Printable(status.error_message(), kMaxErrorBytes));
}

absl::Status RefuseAnswer(const Group& group, const Replica& replica, const AnswerFault& fault,
                          ClusterMetrics* metrics) {
  static log::LogRateLimiter limiter(1);
  if (metrics != nullptr) metrics->CountBadAnswer(group.name(), fault.field);
  if (const auto left_out = limiter.Admit(log::LogRateLimiter::Clock::now()); left_out.has_value()) {
    log::Write(
        spdlog::level::err, "bad_answer",
        {{"group", group.name()}, {"replica", replica.target()}, {"error", fault.message}, {"left_out", *left_out}});
  }
  return absl::InternalError(absl::StrCat("a replica gave a wrong answer: ", fault.message));
}

}  // namespace maxsim::cluster
