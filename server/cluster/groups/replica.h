// A server that a router asks: the connection to it, what it has said it holds, and how it fares.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/options.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"

namespace maxsim::cluster {

// What calls go through. Copies share the connection.
struct ReplicaStubs {
  std::shared_ptr<v1::Reranker::Stub> reranker;
  std::shared_ptr<v1::Documents::Stub> documents;
  std::shared_ptr<v1::Admin::Stub> admin;
};

// A method of a service that replicas have: starts a call, which calls `done` when it has ended.
template <typename Request, typename Response>
using Rpc = void (*)(const ReplicaStubs& stubs, grpc::ClientContext* context, const Request* request,
                     Response* response, std::function<void(grpc::Status)> done);

// Counts what became of calls, and says when a replica is left out for a while: after kMaxFailures in a row, for a time
// that doubles each time up to kMaxEjection. Then it is tried again. The class is thread-safe.
class ReplicaHealth {
 public:
  static constexpr int kMaxFailures = 3;
  static constexpr absl::Duration kMinEjection = absl::Seconds(1);
  static constexpr absl::Duration kMaxEjection = absl::Seconds(30);

  // Times are of MonotonicNow().
  void CountSuccess(absl::Time now);
  void CountFailure(absl::Time now);
  // Counts a call that another replica answered first, or that came to no end in its time. It is a failure where this
  // one has answered nobody for `silence` since the call began: one that is busy is overtaken too, and answers others
  // meanwhile.
  void CountOvertaken(absl::Time now, absl::Duration silence, absl::Time call_begin);

  // Returns whether it has answered nobody for `silence` since a call began.
  bool stands_still(absl::Time now, absl::Duration silence, absl::Time call_begin) const;

  // Returns whether it is left out at `now`.
  bool is_ejected(absl::Time now) const;

  // Notes that it refuses calls until `time`, since it is full.
  void SetFullUntil(absl::Time time);
  absl::Time full_until() const;

 private:
  std::atomic<int> num_failures_{0};
  std::atomic<int64_t> ejected_until_us_{0};
  std::atomic<int64_t> ejection_us_{0};  // how long it lasted the last time
  std::atomic<int64_t> full_until_us_{0};
  std::atomic<int64_t> last_success_us_{0};
};

// The class is thread-safe.
class Replica {
 public:
  // `options` says how to reach it; its target is the replica's. The options must be valid.
  static absl::StatusOr<std::shared_ptr<Replica>> Create(const client::ClientOptions& options);

  const std::string& target() const { return options_.target; }
  const client::ClientOptions& options() const { return options_; }
  ReplicaStubs stubs() const;

  // Makes a connection anew: one that nobody answers on may hang for minutes after the network has come back.
  void Reconnect();

  // What it said of itself last; null before its first answer. It stays when it does not answer any more.
  std::shared_ptr<const v1::GetInfoResponse> info() const;
  // Notes its answer, or why there was none.
  void SetInfo(std::shared_ptr<const v1::GetInfoResponse> info);
  void SetPollError(const absl::Status& status);
  // Returns how many polls in a row have failed, with this one.
  int CountPollFailure() { return poll_failures_.fetch_add(1) + 1; }
  // OK while it answers polls.
  absl::Status poll_status() const;

  ReplicaHealth& health() { return health_; }
  const ReplicaHealth& health() const { return health_; }

  // Calls that were sent to it and have not ended.
  int calls_in_flight() const { return calls_in_flight_.load(std::memory_order_relaxed); }
  void BeginCall() { calls_in_flight_.fetch_add(1, std::memory_order_relaxed); }
  void EndCall() { calls_in_flight_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  explicit Replica(client::ClientOptions options) : options_(std::move(options)) {}
  absl::Status Connect();

  const client::ClientOptions options_;
  ReplicaHealth health_;
  std::atomic<int> calls_in_flight_{0};
  std::atomic<int> poll_failures_{0};
  mutable Mutex mutex_;
  ReplicaStubs stubs_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const v1::GetInfoResponse> info_ ABSL_GUARDED_BY(mutex_);
  absl::Status poll_status_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("it has not answered yet");
};

}  // namespace maxsim::cluster
