#include "server/cluster/groups/replica.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "client/error_details.h"
#include "grpc/impl/codegen/grpc_types.h"
#include "grpcpp/create_channel.h"
#include "server/service/call/write_expiry.h"

namespace maxsim::cluster {
namespace {

// gRPC reconnects immediately after it loses a connection, and then retries at intervals up to this maximum, to find
// a recovered replica quickly.
constexpr int kMaxReconnectBackoffMs = 1000;
constexpr int kMinReconnectBackoffMs = 50;

absl::Time FromMicros(int64_t us) { return absl::FromUnixMicros(us); }

}  // namespace

ZoneId ZoneIdOf(std::string_view name) {
  return name.empty() ? kNoZone : std::max<ZoneId>(std::hash<std::string_view>()(name), 1);
}

void ReplicaHealth::CountSuccess(absl::Time now) {
  last_success_us_.store(absl::ToUnixMicros(now), std::memory_order_relaxed);
  Forgive();
}

void ReplicaHealth::CountFailure(absl::Time now) {
  if (num_failures_.fetch_add(1, std::memory_order_relaxed) + 1 < kMaxFailures) return;
  if (is_ejected(now)) return;  // ignores a failure of a call that began before the ejection
  const int64_t last_us = ejection_us_.load(std::memory_order_relaxed);
  const int64_t next_us =
      std::clamp(2 * last_us, absl::ToInt64Microseconds(kMinEjection), absl::ToInt64Microseconds(kMaxEjection));
  ejection_us_.store(next_us, std::memory_order_relaxed);
  ejected_until_us_.store(absl::ToUnixMicros(now) + next_us, std::memory_order_relaxed);
}

bool ReplicaHealth::stands_still(absl::Time now, absl::Duration silence, absl::Time call_begin) const {
  return now - std::max(call_begin, FromMicros(last_success_us_.load(std::memory_order_relaxed))) >= silence;
}

void ReplicaHealth::CountOvertaken(absl::Time now, absl::Duration silence, absl::Time call_begin) {
  if (stands_still(now, silence, call_begin)) CountFailure(now);
}

void ReplicaHealth::Forgive() {
  num_failures_.store(0, std::memory_order_relaxed);
  if (ejection_us_.load(std::memory_order_relaxed) == 0) return;
  ejection_us_.store(0, std::memory_order_relaxed);
  ejected_until_us_.store(0, std::memory_order_relaxed);
}

bool ReplicaHealth::is_ejected(absl::Time now) const {
  return now < FromMicros(ejected_until_us_.load(std::memory_order_relaxed));
}

void ReplicaHealth::SetFullUntil(absl::Time time) {
  full_until_us_.store(absl::ToUnixMicros(time), std::memory_order_relaxed);
}

absl::Time ReplicaHealth::full_until() const { return FromMicros(full_until_us_.load(std::memory_order_relaxed)); }

absl::StatusOr<std::shared_ptr<Replica>> Replica::Create(const client::ClientOptions& options) {
  std::shared_ptr<Replica> replica(new Replica(options));
  if (absl::Status status = client::ValidateClientOptions(options); !status.ok()) return status;
  if (absl::Status status = replica->Connect(); !status.ok()) return status;
  return replica;
}

absl::Status Replica::Connect() {
  auto credentials = client::MakeCredentials(options_.tls);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments = client::MakeChannelArguments(options_);
  // Makes a new channel open a new connection instead of reusing the previous channel's connection, which hangs.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  const std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(options_.target, *credentials, arguments);
  ReplicaStubs stubs{.reranker = v1::Reranker::NewStub(channel),
                     .documents = v1::Documents::NewStub(channel),
                     .admin = v1::Admin::NewStub(channel)};
  const MutexLock lock(&mutex_);
  stubs_ = std::move(stubs);
  return absl::OkStatus();
}

void Replica::Reconnect() { Connect().IgnoreError(); }

ReplicaStubs Replica::stubs() const {
  const MutexLock lock(&mutex_);
  return stubs_;
}

void Replica::ObserveClock(const v1::ServerClock& clock, absl::Time now) {
  const MutexLock lock(&mutex_);
  if (clock.id() != clock_id_) clock_.Reset();
  clock_id_ = clock.id();
  if (clock_id_ != 0) clock_.Observe(absl::FromUnixMicros(clock.now_us()), now);
}

uint64_t Replica::clock_id() const {
  const MutexLock lock(&mutex_);
  return clock_id_;
}

std::string Replica::WriteExpiryAt(absl::Time expires) const {
  const MutexLock lock(&mutex_);
  const std::optional<absl::Time> there = clock_.At(expires);
  return there.has_value() ? service::FormatWriteExpiry(clock_id_, *there) : "";
}

std::shared_ptr<const v1::GetInfoResponse> Replica::info() const {
  const MutexLock lock(&mutex_);
  return info_;
}

std::string Replica::zone() const {
  const std::shared_ptr<const v1::GetInfoResponse> said = info();
  return said == nullptr ? "" : said->zone();
}

void Replica::BeginPoll(absl::Time now) {
  int64_t none = 0;
  unanswered_since_us_.compare_exchange_strong(none, absl::ToUnixMicros(now), std::memory_order_relaxed);
}

int Replica::CountPollFailure(bool is_silent) {
  if (!is_silent) unanswered_since_us_.store(0, std::memory_order_relaxed);
  return poll_failures_.fetch_add(1) + 1;
}

bool Replica::is_silent(absl::Time now) const {
  const int64_t since_us = unanswered_since_us_.load(std::memory_order_relaxed);
  return since_us != 0 && now - FromMicros(since_us) >= kPollPatience;
}

bool Replica::is_lost() const {
  const absl::Status status = poll_status();
  return absl::IsDeadlineExceeded(status) || client::ReasonOf(status) == client::kReasonNotConnected;
}

absl::Time Replica::info_asked() const {
  const MutexLock lock(&mutex_);
  return info_asked_;
}

void Replica::SetInfo(std::shared_ptr<const v1::GetInfoResponse> info, absl::Time asked) {
  unanswered_since_us_.store(0, std::memory_order_relaxed);
  if (poll_failures_.exchange(0) > 0) health_.Forgive();
  zone_id_.store(ZoneIdOf(info->zone()), std::memory_order_relaxed);
  const MutexLock lock(&mutex_);
  info_ = std::move(info);
  info_asked_ = asked;
  poll_status_ = absl::OkStatus();
}

void Replica::SetPollError(const absl::Status& status) {
  const MutexLock lock(&mutex_);
  poll_status_ = status;
}

absl::Status Replica::poll_status() const {
  const MutexLock lock(&mutex_);
  return poll_status_;
}

}  // namespace maxsim::cluster
