#include "server/live/stream/nats_stream.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/clock/other_clock.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "server/live/stream/nats_library.h"
#include "server/live/stream/nats_setup.h"

namespace maxsim::live {
namespace {

using nats::LastError;

// Bytes that are reserved in each message for its headers: its id, its expiry and the name of its stream.
constexpr int64_t kHeaderBytes = 256;

// The interval of the server's heartbeats, and the number of missed heartbeats after which Receive fails.
constexpr absl::Duration kHeartbeat = absl::Seconds(1);
constexpr int kMissedHeartbeats = 4;

// The server removes a consumer that had no listener for this time.
constexpr absl::Duration kConsumerLife = absl::Seconds(30);

constexpr absl::Duration kMaxConnectWait = absl::Seconds(2);
constexpr absl::Duration kInterruptPoll = absl::Milliseconds(100);

// Limits of the messages that one Receive returns. One commit of the log handles this amount well.
constexpr size_t kMaxReceivedBytes = size_t{8} << 20;
constexpr size_t kMaxReceivedMessages = 4096;

int64_t Nanoseconds(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration); }
int64_t Milliseconds(absl::Duration duration) { return std::max<int64_t>(absl::ToInt64Milliseconds(duration), 1); }

class NatsStream final : public OrderedStream {
 public:
  NatsStream(NatsOptions options, const std::string& collection)
      : options_(std::move(options)),
        server_(Cat("NATS JetStream (nats.url ", WithoutSecrets(options_.url), ")")),
        name_(StreamNameOf(options_.stream_prefix, collection)),
        subjects_(SubjectsOf(options_.stream_prefix, collection)),
        acknowledgements_(std::make_shared<nats::Acknowledgements>()) {
    acknowledgements_->server = server_;
  }
  ~NatsStream() override {
    {
      const std::lock_guard lock(acknowledgements_->mutex);
      acknowledgements_->listener = nullptr;
    }
    Disconnect();
  }

  std::string server() const override { return server_; }
  void SetListener(Listener listener) override { acknowledgements_->listener = std::move(listener); }
  void Interrupt() override { interrupted_ = true; }
  int64_t max_message_bytes() const override { return max_message_bytes_; }
  uint64_t last_sequence() const override { return last_sequence_; }

  absl::StatusOr<StreamInfo> Open(bool create) override;
  absl::StatusOr<StreamInfo> Look() override;
  absl::Status Subscribe(uint64_t after) override;
  absl::StatusOr<std::vector<StreamMessage>> Receive(absl::Duration timeout) override;
  absl::Status Publish(int32_t slot, std::string_view id, std::string_view data, absl::Time expires) override;

 private:
  absl::Status Connect();
  void Disconnect();
  absl::Status ListenForAnswers();
  absl::Status CheckConnected() const;
  nats::StreamNames names() const { return {.server = server_, .name = name_, .subjects = subjects_}; }
  StreamInfo InfoOf(const jsStreamInfo& info) const;
  absl::Status Take(const nats::Message& message, std::vector<StreamMessage>& messages, size_t* num_bytes);
  absl::Status TakeStatus(const nats::Arrival& status);
  void ObserveClock(absl::Time told, absl::Time now);
  absl::Duration call_timeout() const { return std::min(options_.timeout, kMaxConnectWait); }
  absl::Status Away(std::string_view what, natsStatus status) const {
    return absl::UnavailableError(Cat(server_, ": ", what, ": ", LastError(status)));
  }

  const NatsOptions options_;
  const std::string server_;
  const std::string name_;
  const std::string subjects_;
  const std::shared_ptr<nats::Acknowledgements> acknowledgements_;
  std::atomic<bool> interrupted_{false};
  std::atomic<int64_t> max_message_bytes_{std::numeric_limits<int64_t>::max()};
  std::atomic<uint64_t> last_sequence_{0};

  // Guards `clock_` and the connection's lifetime. Only the follower's thread replaces the connection; other threads
  // use it in Publish.
  mutable std::mutex mutex_;
  OtherClock clock_;  // of the stream's servers
  nats::Connection connection_;
  std::string answers_;  // the subject of acknowledgements up to the id, with the dot

  // Only the follower's thread uses the members from here on.
  nats::JetStream jet_stream_;
  nats::Subscription answers_subscription_;
  nats::Subscription messages_;
  uint64_t consumer_sequence_ = 0;  // of the last message
  uint64_t num_reconnects_ = 0;     // when the subscription was made
  absl::Time last_heard_;
};

void NatsStream::Disconnect() {
  messages_.reset();
  answers_subscription_.reset();
  jet_stream_.reset();
  nats::Connection connection;
  {
    const std::lock_guard lock(mutex_);
    connection = std::move(connection_);
  }
}

absl::Status NatsStream::Connect() {
  // Without the subscription to answers the connection is useless, because the answers to published messages would
  // not arrive.
  const bool is_usable = connection_ != nullptr && answers_subscription_ != nullptr;
  if (is_usable && natsConnection_Status(connection_.get()) != NATS_CONN_STATUS_CLOSED) return CheckConnected();
  Disconnect();
  absl::StatusOr<nats::Options> options = nats::MakeOptions(options_, Cat("maxsimd ", name_), call_timeout());
  if (!options.ok()) return options.status();
  natsConnection* made = nullptr;
  if (const natsStatus status = natsConnection_Connect(&made, options->get()); status != NATS_OK) {
    return Away("no connection", status);
  }
  nats::Connection connection(made);
  jsOptions js_options;
  jsOptions_Init(&js_options);
  js_options.Wait = Milliseconds(call_timeout());
  jsCtx* context = nullptr;
  if (const natsStatus status = natsConnection_JetStream(&context, made, &js_options); status != NATS_OK) {
    return Away("no JetStream", status);
  }
  jet_stream_.reset(context);
  {
    const std::lock_guard lock(mutex_);
    connection_ = std::move(connection);
  }
  return ListenForAnswers();
}

absl::Status NatsStream::ListenForAnswers() {
  natsInbox* inbox = nullptr;
  if (const natsStatus status = natsInbox_Create(&inbox); status != NATS_OK) return Away("no inbox", status);
  const std::string prefix = Cat(std::string(inbox), ".");
  natsInbox_Destroy(inbox);
  {
    // Takes the lock, because an answer to a message of the previous connection may still arrive on the library's
    // thread.
    const std::lock_guard lock(acknowledgements_->mutex);
    acknowledgements_->prefix_bytes = prefix.size();
  }
  absl::StatusOr<nats::Subscription> made =
      nats::ListenForAnswers(connection_.get(), Cat(prefix, "*"), acknowledgements_);
  if (!made.ok()) return made.status();
  answers_subscription_ = *std::move(made);
  const std::lock_guard lock(mutex_);
  answers_ = prefix;
  return absl::OkStatus();
}

absl::Status NatsStream::CheckConnected() const {
  if (connection_ != nullptr && natsConnection_Status(connection_.get()) == NATS_CONN_STATUS_CONNECTED) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(Cat(server_, " does not answer"));
}

absl::StatusOr<StreamInfo> NatsStream::Open(bool create) {
  if (absl::Status status = Connect(); !status.ok()) return status;
  num_reconnects_ = nats::NumReconnects(connection_.get());
  absl::StatusOr<nats::Info> info = create ? nats::FindOrCreateStream(jet_stream_.get(), names(), options_.replicas)
                                           : nats::FindStream(jet_stream_.get(), names());
  if (!info.ok()) return info.status();
  if (absl::Status status = nats::CheckSettings(**info, names(), options_.timeout); !status.ok()) return status;
  int64_t limit = natsConnection_GetMaxPayload(connection_.get());
  if (const int64_t max = (*info)->Config->MaxMsgSize; max > 0) limit = std::min(limit, max);
  max_message_bytes_ = std::max<int64_t>(limit - kHeaderBytes, 0);
  last_sequence_ = (*info)->State.LastSeq;
  return InfoOf(**info);
}

absl::StatusOr<StreamInfo> NatsStream::Look() {
  if (absl::Status status = CheckConnected(); !status.ok()) return status;
  const absl::StatusOr<nats::Info> info = nats::FindStream(jet_stream_.get(), names());
  if (!info.ok()) return info.status();
  return InfoOf(**info);
}

StreamInfo NatsStream::InfoOf(const jsStreamInfo& info) const {
  const jsStreamState& state = info.State;
  std::optional<absl::Time> now;
  {
    const std::lock_guard lock(mutex_);
    now = clock_.At(MonotonicNow());
  }
  // The server reports 0 as the first sequence of a stream that never had a message.
  return StreamInfo{.stream = {.name = name_, .created_ns = static_cast<uint64_t>(info.Created)},
                    .first_sequence = std::max<uint64_t>(state.FirstSeq, 1),
                    .last_sequence = state.LastSeq,
                    .retention = nats::RetentionOf(info, now.value_or(absl::FromUnixNanos(state.LastTime)))};
}

absl::Status NatsStream::Subscribe(uint64_t after) {
  messages_.reset();
  natsInbox* made_inbox = nullptr;
  if (const natsStatus status = natsInbox_Create(&made_inbox); status != NATS_OK) return Away("no inbox", status);
  const std::unique_ptr<natsInbox, nats::Destroyer<natsInbox_Destroy>> inbox(made_inbox);
  natsSubscription* made = nullptr;
  natsStatus status = natsConnection_SubscribeSync(&made, connection_.get(), inbox.get());
  if (status != NATS_OK) return Away("no subscription", status);
  messages_.reset(made);
  // Removes the library's limit on the messages that wait here, because flow control limits them.
  natsSubscription_SetPendingLimits(made, -1, -1);
  jsConsumerConfig config;
  jsConsumerConfig_Init(&config);
  config.Description = "A server of the collection";
  config.DeliverSubject = inbox.get();
  config.DeliverPolicy = js_DeliverByStartSequence;
  config.OptStartSeq = after + 1;
  config.AckPolicy = js_AckNone;
  config.FlowControl = true;
  config.Heartbeat = Nanoseconds(kHeartbeat);
  config.InactiveThreshold = Nanoseconds(kConsumerLife);
  config.Replicas = 1;
  config.MemoryStorage = true;
  jsConsumerInfo* consumer = nullptr;
  jsErrCode code = {};
  status = js_AddConsumer(&consumer, jet_stream_.get(), name_.c_str(), &config, nullptr, &code);
  if (status != NATS_OK) return Away(Cat("no consumer of stream ", name_), status);
  const int64_t created_ns = consumer->Created;
  jsConsumerInfo_Destroy(consumer);
  consumer_sequence_ = 0;
  last_heard_ = MonotonicNow();
  if (created_ns > 0) ObserveClock(absl::FromUnixNanos(created_ns), last_heard_);
  return absl::OkStatus();
}

void NatsStream::ObserveClock(absl::Time told, absl::Time now) {
  const std::lock_guard lock(mutex_);
  clock_.Observe(told, now);
}

// Answers the server's status messages: heartbeats and flow control.
absl::Status NatsStream::TakeStatus(const nats::Arrival& status) {
  if (!status.answer_to.empty()) natsConnection_Publish(connection_.get(), status.answer_to.c_str(), nullptr, 0);
  if (status.last_consumer_sequence.has_value() && *status.last_consumer_sequence != consumer_sequence_) {
    return absl::UnavailableError(Cat(server_, ": messages were lost on the way"));
  }
  return absl::OkStatus();
}

absl::Status NatsStream::Take(const nats::Message& message, std::vector<StreamMessage>& messages, size_t* num_bytes) {
  last_heard_ = MonotonicNow();
  nats::Arrival arrival = nats::ReadArrival(message.get());
  if (arrival.kind == nats::Arrival::Kind::kStatus) return TakeStatus(arrival);
  if (arrival.kind == nats::Arrival::Kind::kForeign) return absl::OkStatus();  // another sender wrote to the inbox
  if (arrival.consumer_sequence != consumer_sequence_ + 1) {
    return absl::UnavailableError(Cat(server_, ": messages were lost on the way"));
  }
  consumer_sequence_ = arrival.consumer_sequence;
  last_sequence_ = arrival.last_sequence;
  // An older message was stored long ago, so its time says little about the clock.
  if (arrival.last_sequence == arrival.message.sequence) ObserveClock(arrival.stored, last_heard_);
  *num_bytes += arrival.message.data.size();
  messages.push_back(std::move(arrival.message));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StreamMessage>> NatsStream::Receive(absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  std::vector<StreamMessage> messages;
  size_t num_bytes = 0;
  while (!interrupted_ && num_bytes < kMaxReceivedBytes && messages.size() < kMaxReceivedMessages) {
    const absl::Time now = MonotonicNow();
    if (messages.empty() && now >= until) break;
    natsMsg* next = nullptr;
    // Waits only for the first message. After that, takes the messages that have already arrived.
    const int64_t wait_ms = messages.empty() ? Milliseconds(std::min(until - now, kInterruptPoll)) : 0;
    const natsStatus status = natsSubscription_NextMsg(&next, messages_.get(), wait_ms);
    if (status == NATS_OK) {
      absl::Status taken = Take(nats::Message(next), messages, &num_bytes);
      if (taken.ok()) continue;
      if (messages.empty()) return taken;
      break;  // the next call finds the same gap or missing heartbeat
    }
    if (!messages.empty()) break;
    if (status != NATS_TIMEOUT) return Away("the subscription ended", status);
    if (absl::Status connected = CheckConnected(); !connected.ok()) return connected;
    if (nats::NumReconnects(connection_.get()) != num_reconnects_)
      return absl::UnavailableError(Cat(server_, " was not reachable for a while"));
    if (MonotonicNow() - last_heard_ > kMissedHeartbeats * kHeartbeat) {
      return absl::UnavailableError(Cat(server_, " no longer answers about stream ", name_));
    }
  }
  return messages;
}

absl::Status NatsStream::Publish(int32_t slot, std::string_view id, std::string_view data, absl::Time expires) {
  const std::lock_guard lock(mutex_);
  if (absl::Status status = CheckConnected(); !status.ok()) return status;
  const std::string subject = Cat(std::string_view(subjects_).substr(0, subjects_.size() - 1), slot);
  const std::string reply = Cat(answers_, id);
  natsMsg* made = nullptr;
  natsStatus status = natsMsg_Create(&made, subject.c_str(), reply.c_str(), data.data(), static_cast<int>(data.size()));
  if (status != NATS_OK) return Away("no message", status);
  const nats::Message message(made);
  status = natsMsgHeader_Set(made, nats::kIdHeader, std::string(id).c_str());
  if (status == NATS_OK) status = natsMsgHeader_Set(made, "Nats-Expected-Stream", name_.c_str());
  if (const std::optional<absl::Time> there = clock_.At(expires); status == NATS_OK && there.has_value()) {
    const int64_t expires_ns = std::max<int64_t>(absl::ToUnixNanos(*there), 0);
    status = natsMsgHeader_Set(made, nats::kExpiryHeader, Cat(expires_ns).c_str());
  }
  if (status == NATS_OK) status = natsConnection_PublishMsg(connection_.get(), made);
  return status == NATS_OK ? absl::OkStatus() : Away("a write", status);
}

std::string TokenOf(std::string_view collection) {
  std::string token(collection);
  std::replace(token.begin(), token.end(), '.', '+');
  return token;
}

}  // namespace

std::string StreamNameOf(std::string_view prefix, std::string_view collection) {
  return Cat(prefix, "-", TokenOf(collection));
}

std::string SubjectsOf(std::string_view prefix, std::string_view collection) {
  return Cat(prefix, ".", TokenOf(collection), ".*");
}

std::string WithoutSecrets(std::string_view url) {
  std::string text;
  for (const std::string& one : std::vector<std::string>(absl::StrSplit(ForStrCat(url), ','))) {
    const size_t scheme = one.find("://");
    const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
    const size_t at = one.rfind('@');
    if (!text.empty()) text += ',';
    text += at == std::string::npos || at < begin ? one : Cat(one.substr(0, begin), one.substr(at + 1));
  }
  return text;
}

std::unique_ptr<OrderedStream> MakeNatsStream(const NatsOptions& options, const std::string& collection) {
  return std::make_unique<NatsStream>(options, collection);
}

}  // namespace maxsim::live
