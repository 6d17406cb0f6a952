// One call of a router to a group. It asks one replica, and another one if the first fails or is slow. The first answer
// wins and ends the other attempts.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/guard.h"
#include "client/grpc_support.h"
#include "client/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "server/cluster/calls/call_registry.h"
#include "server/cluster/calls/timer.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/call_outcome.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/replica.h"
#include "server/cluster/observed/attempt_spans.h"
#include "server/observability/cluster_metrics.h"
#include "server/service/call/write_expiry.h"
#include "server/tracing/span.h"

namespace maxsim::cluster {

// The objects that all calls of a router share. They must outlive the calls; all but `timer` may be null.
struct CallEnvironment {
  Timer* timer = nullptr;
  CallRegistry* calls = nullptr;  // the calls in progress
  ClusterMetrics* metrics = nullptr;
  const client::CallMetadata* metadata = nullptr;  // with the token that replicas require
};

// The replicas that may answer a call, all of one group.
struct CallTarget {
  std::shared_ptr<Group> group;
  Replicas replicas;
};

struct GroupCallOptions {
  absl::Time deadline = absl::InfiniteFuture();  // a time of MonotonicNow(); every attempt has it as its own deadline
  bool may_hedge = false;                        // ask a second replica while the first has not answered
  // If true, asks another replica after every error that another replica might not return (MayAskAnother). False for
  // writes: a write whose answer is lost may have been carried out, so it is repeated only after an error that shows
  // that nothing was written (IsSafeToRepeat).
  bool may_repeat = true;
  // For writes: no replica begins the write after this time of MonotonicNow(), even if the call reaches it later. If
  // the connection to a replica that may have the write is lost, the call ends only at this time. So a write never
  // happens after its client got an error.
  absl::Time expires = absl::InfiniteFuture();
  // If true, a replica that refuses this call because it is full gets no calls of any kind for a while. True only for
  // Rerank. Other calls do not wait in the replica's queue but have limits of their own, so a replica that refuses
  // one of them may still have room for the rest.
  bool full_for_all = false;
  std::shared_ptr<const std::atomic<bool>> cancelled = {};  // set when the client has gone; may be null
  tracing::SpanParent span = {};                            // of the call; each attempt has a span within it
};

// Sends attempt number `attempt`, 0 .. replicas - 1, to a replica, and returns a function that cancels the attempt.
// `span` is the attempt's span, whose ids go to the replica. Calls `done` exactly once, from any thread, with OK or the
// replica's error.
using SendAttempt = std::function<std::function<void()>(Replica& replica, int attempt, const tracing::SpanParent& span,
                                                        std::function<void(absl::Status)> done)>;

// Starts a call. Calls `done` exactly once: with OK and the number of the attempt that succeeded, or with the error of
// the last attempt, or with the error of an earlier attempt if that has a retry delay. Calls it before returning if the
// group has too many calls in flight or all its replicas are full (RESOURCE_EXHAUSTED with RetryInfo), or if there is
// no replica or the router is draining (UNAVAILABLE).
void StartGroupCall(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options,
                    SendAttempt send, absl::AnyInvocable<void(absl::Status status, int attempt)> done);

// Calls a method of a group. The attempts share `request`, which must not change. If `check` finds an answer wrong,
// that attempt ends with INTERNAL.
template <typename Request, typename Response>
void CallGroup(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options,
               Rpc<Request, Response> rpc, std::shared_ptr<const Request> request, AnswerCheck<Response> check,
               absl::AnyInvocable<void(absl::StatusOr<Response>)> done) {
  struct Attempt {
    std::shared_ptr<Group> group;  // destroyed last: the context holds a connection of its replicas (~Membership)
    grpc::ClientContext context;
    Response response;
  };
  using Attempts = std::vector<std::shared_ptr<Attempt>>;
  auto attempts = std::make_shared<Attempts>(target.replicas.size());
  auto shared_check = std::make_shared<const AnswerCheck<Response>>(std::move(check));
  SendAttempt send = [environment, options, rpc, group = target.group, request = std::move(request),
                      check = std::move(shared_check),
                      attempts](Replica& replica, int number, const tracing::SpanParent& span,
                                std::function<void(absl::Status)> ended) {
    auto attempt = std::make_shared<Attempt>();
    attempt->group = group;
    (*attempts)[static_cast<size_t>(number)] = attempt;
    attempt->context.set_deadline(client::ToGrpcTime(options.deadline));
    if (environment.metadata != nullptr) environment.metadata->AddTo(attempt->context);
    AddTrace(span, attempt->context);
    if (options.expires < absl::InfiniteFuture()) {
      if (const std::string expiry = replica.WriteExpiryAt(options.expires); !expiry.empty()) {
        attempt->context.AddMetadata(service::kWriteExpiryKey, expiry);
      }
    }
    // `replica` stays valid because the call keeps its replicas until its last attempt has ended.
    rpc(replica.stubs(), &attempt->context, request.get(), &attempt->response,
        [attempt, request, check, &replica, metrics = environment.metrics,
         ended = std::move(ended)](const grpc::Status& grpc_status) {
          absl::Status status = ErrorOfReplica(grpc_status);
          if (status.ok()) {
            status = Guarded([&] {
              const std::optional<AnswerFault> fault = (*check)(attempt->response);
              return fault.has_value() ? RefuseAnswer(*attempt->group, replica, *fault, metrics) : absl::OkStatus();
            });
          }
          ended(std::move(status));
        });
    return [attempt] { attempt->context.TryCancel(); };
  };
  StartGroupCall(environment, std::move(target), options, std::move(send),
                 [attempts, done = std::move(done)](const absl::Status& status, int number) mutable {
                   if (!status.ok()) return done(status);
                   done(std::move((*attempts)[static_cast<size_t>(number)]->response));
                 });
}

}  // namespace maxsim::cluster
