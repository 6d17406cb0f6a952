// A server that a router calls: the connection to it, its last report of what it holds, and its health.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock/other_clock.h"
#include "base/mutex.h"
#include "client/options.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "maxsim/v1/admin.grpc.pb.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "maxsim/v1/rerank.grpc.pb.h"

namespace maxsim::cluster {

// The stubs that calls are made with. Copies share the connection.
struct ReplicaStubs {
  std::shared_ptr<v1::Reranker::Stub> reranker;
  std::shared_ptr<v1::Documents::Stub> documents;
  std::shared_ptr<v1::Admin::Stub> admin;
};

// Stands for a zone: a hash of its name. So every call can compare zones without a lock or a copy of a name. If two
// names have the same hash, which is improbable, they count as one zone; calls then go to a less suitable replica.
using ZoneId = uint64_t;
inline constexpr ZoneId kNoZone = 0;  // of a process that names no zone
// Returns kNoZone for "".
ZoneId ZoneIdOf(std::string_view name);

// A method of a replica's services. Starts a call and returns; `done` runs when the call has ended.
template <typename Request, typename Response>
using Rpc = void (*)(const ReplicaStubs& stubs, grpc::ClientContext* context, const Request* request,
                     Response* response, std::function<void(grpc::Status)> done);

// Counts the outcomes of calls, and ejects a replica after kMaxFailures failures in a row. An ejected replica gets no
// calls for a time that doubles with each ejection, up to kMaxEjection; then it is tried again. The class is
// thread-safe.
class ReplicaHealth {
 public:
  static constexpr int kMaxFailures = 3;
  static constexpr absl::Duration kMinEjection = absl::Seconds(1);
  static constexpr absl::Duration kMaxEjection = absl::Seconds(30);

  // Times are of MonotonicNow().
  void CountSuccess(absl::Time now);
  void CountFailure(absl::Time now);
  // Counts a call that another replica answered first, or that ran into its deadline. This is a failure only if the
  // replica has answered no call at all for `silence` since the call began. A replica that is merely busy is overtaken
  // too, but meanwhile answers other calls.
  void CountOvertaken(absl::Time now, absl::Duration silence, absl::Time call_begin);

  // Returns whether the replica has answered no call for at least `silence`, counted from `call_begin` at the earliest.
  bool stands_still(absl::Time now, absl::Duration silence, absl::Time call_begin) const;

  // Ends an ejection and forgets the failures. For a replica that answers again after it could not be reached: what it
  // failed at meanwhile says nothing about it now.
  void Forgive();

  // Returns whether the replica is ejected at `now`.
  bool is_ejected(absl::Time now) const;

  // Records that the replica is full and should get no calls until `time`.
  void SetFullUntil(absl::Time time);
  absl::Time full_until() const;

 private:
  std::atomic<int> num_failures_{0};
  std::atomic<int64_t> ejected_until_us_{0};
  std::atomic<int64_t> ejection_us_{0};  // length of the last ejection
  std::atomic<int64_t> full_until_us_{0};
  std::atomic<int64_t> last_success_us_{0};
};

// The class is thread-safe.
class Replica {
 public:
  // `options` says where the server is and how to connect to it. Returns an error if the options are not valid.
  static absl::StatusOr<std::shared_ptr<Replica>> Create(const client::ClientOptions& options);

  const std::string& target() const { return options_.target; }
  const client::ClientOptions& options() const { return options_; }
  ReplicaStubs stubs() const;

  // Replaces the connection. A connection that got no answers may hang for minutes after the network has recovered.
  void Reconnect();

  // The replica's last answer to a poll; null before the first one. It is kept when the replica stops answering.
  std::shared_ptr<const v1::GetInfoResponse> info() const;
  // The zone that the replica named in its last answer to a poll. If it named none, zone() is "" and zone_id() is
  // kNoZone. zone_id() takes no lock.
  std::string zone() const;
  ZoneId zone_id() const { return zone_id_.load(std::memory_order_relaxed); }
  // Records that the replica told the time on its clock, in an answer that arrived at `now`.
  void ObserveClock(const v1::ServerClock& clock, absl::Time now);
  // Returns the id of the replica's clock; 0 if it told none. Each start of the replica has another id.
  uint64_t clock_id() const;
  // Returns the value of service::kWriteExpiryKey for a write that must not begin after `expires`, a time of
  // MonotonicNow(). Returns "" if the replica has told no time.
  std::string WriteExpiryAt(absl::Time expires) const;
  // Records that a poll begins. Times are of MonotonicNow().
  void BeginPoll(absl::Time now);
  // Returns when the poll that info() answers began. InfinitePast if that is unknown.
  absl::Time info_asked() const;
  // Records the answer to a poll that began at `asked`. If polls failed before it, also forgives the failures of calls.
  void SetInfo(std::shared_ptr<const v1::GetInfoResponse> info, absl::Time asked = absl::InfinitePast());
  // Records why the replica counts as one that does not answer.
  void SetPollError(const absl::Status& status);
  // Counts a failed poll. `is_silent` says that nothing came back at all. Returns how many have failed in a row,
  // including this one.
  int CountPollFailure(bool is_silent);
  // OK while the replica answers polls.
  absl::Status poll_status() const;

  // How long a poll may take before the replica counts as silent. A server answers a poll within a millisecond, so
  // this leaves room for a retransmission on a lossy network, which takes 200 ms.
  static constexpr absl::Duration kPollPatience = absl::Milliseconds(250);
  // Returns whether a poll has had no answer of any kind for kPollPatience at `now`. This is known long before
  // poll_status() is an error, but it may also be a short pause.
  bool is_silent(absl::Time now) const;
  // Returns whether the replica counts as one that does not answer because it cannot be reached, so that calls wait for
  // it in vain. False if it returns errors or impossible answers to polls, because it may still answer calls.
  bool is_lost() const;

  ReplicaHealth& health() { return health_; }
  const ReplicaHealth& health() const { return health_; }

  // The number of calls that were sent to the replica and have not ended.
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
  std::atomic<ZoneId> zone_id_{kNoZone};
  std::atomic<int64_t> unanswered_since_us_{0};  // when the first poll without any answer began; 0 if there is none
  mutable Mutex mutex_;
  ReplicaStubs stubs_ ABSL_GUARDED_BY(mutex_);
  uint64_t clock_id_ ABSL_GUARDED_BY(mutex_) = 0;
  OtherClock clock_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const v1::GetInfoResponse> info_ ABSL_GUARDED_BY(mutex_);
  absl::Time info_asked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Status poll_status_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("it has not answered yet");
};

}  // namespace maxsim::cluster
