// One call of a router to a group: to one replica, to another where that one fails or takes long, and no further than
// the first answer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
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
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/call_registry.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/replica.h"
#include "server/cluster/groups/timer.h"
#include "server/observability/cluster_metrics.h"
#include "server/tracing/span.h"

namespace maxsim::cluster {

// What every call of a router uses. All must outlive the calls; all but `timer` may be null.
struct CallEnvironment {
  Timer* timer = nullptr;
  CallRegistry* calls = nullptr;  // those under way
  ClusterMetrics* metrics = nullptr;
  const client::CallMetadata* metadata = nullptr;  // the token that replicas want
};

// The replicas that may answer a call, all of one group.
struct CallTarget {
  std::shared_ptr<Group> group;
  Replicas replicas;
};

struct GroupCallOptions {
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow(); the attempts see to it
  bool may_hedge = false;                        // ask a second replica while the first has not answered
  // Ask another replica after any error that it may not have. A write is not repeated so: one whose answer is lost may
  // have been written, and is sent to another replica only after an error that says that it was not.
  bool may_repeat = true;
  // A replica that refuses the call because it is full gets no other calls for a while. False for calls that servers
  // bound by a limit of their own: others are answered all the same.
  bool full_for_all = true;
  std::shared_ptr<const std::atomic<bool>> cancelled = {};  // set once nobody waits for the call; may be null
  tracing::SpanParent span = {};                            // of the call; each attempt has a span within it
};

// Sends attempt number `attempt`, 0 .. replicas - 1, to a replica, and returns what ends it before its time. `span` is
// the attempt's, which the replica is told of. `done` is called exactly once, from any thread, with OK or the replica's
// error.
using SendAttempt = std::function<std::function<void()>(Replica& replica, int attempt, const tracing::SpanParent& span,
                                                        std::function<void(absl::Status)> done)>;

// Adds what tells a replica of the span to a call's metadata; nothing where there is no span.
void AddTrace(const tracing::SpanParent& span, grpc::ClientContext& context);

// Returns whether a replica's error is one that another replica may not have: UNAVAILABLE, RESOURCE_EXHAUSTED with
// RetryInfo, a fault of the server, or a generation that it does not have.
bool MayAskAnother(const absl::Status& status);

// Returns whether nothing can have been written by a write that ended with the error: the server said so, or there was
// no connection to send it by.
bool IsSafeToRepeat(const absl::Status& status);

// Returns whether an error says that the replica has another generation than RerankRequest.generation.
bool IsOtherGeneration(const absl::Status& status);

// Carries out a call, and calls `done` exactly once: with OK and the number of the attempt that was answered, or with
// the error of the last attempt, or an earlier one that says when to come back. Before it returns: RESOURCE_EXHAUSTED
// with RetryInfo where the group has too many calls in flight or all replicas have said that they are full; UNAVAILABLE
// where there is no replica.
void StartGroupCall(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options,
                    SendAttempt send, absl::AnyInvocable<void(absl::Status status, int attempt)> done);

// Calls a method of a group. `request` is shared by the attempts and must not be changed. An answer that `check` finds
// wrong is not used: its attempt ends with INTERNAL.
template <typename Request, typename Response>
void CallGroup(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options,
               Rpc<Request, Response> rpc, std::shared_ptr<const Request> request, AnswerCheck<Response> check,
               absl::AnyInvocable<void(absl::StatusOr<Response>)> done) {
  struct Attempt {
    std::shared_ptr<Group> group;  // goes last: the context holds a connection of its replicas (~Membership)
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
