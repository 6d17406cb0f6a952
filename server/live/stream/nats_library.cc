#include "server/live/stream/nats_library.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/guard.h"
#include "base/saturating.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace maxsim::live::nats {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kReconnectWait = absl::Milliseconds(200);

// Returns the value of a JSON member that is a number, or 0.
int64_t NumberOf(const Json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_number_integer() ? member->get<int64_t>() : 0;
}

absl::Status Refusal(const Json& error, std::string_view server) {
  const auto description = error.find("description");
  const std::string reason = description != error.end() && description->is_string()
                                 ? Printable(description->get_ref<const std::string&>(), 200)
                                 : "it gives no reason";
  const std::string text = Cat(server, " refuses the write: ", reason);
  switch (NumberOf(error, "err_code")) {
    case JSAccountResourcesExceededErr:
    case JSInsufficientResourcesErr:
    case JSMemoryResourcesExceededErr:
    case JSStorageResourcesExceededErr:
    case JSStreamLimitsErr:
    case JSStreamStoreFailedErr:  // more bytes or messages than the stream may have
      return absl::ResourceExhaustedError(text);
    default:
      break;
  }
  constexpr int64_t kNotNow = 503;
  return NumberOf(error, "code") == kNotNow ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
}

void OnAnswer(natsConnection*, natsSubscription*, natsMsg* raw, void* closure) {
  const Message message(raw);
  Guarded([&] {
    TakeAnswer(message.get(), **static_cast<std::shared_ptr<Acknowledgements>*>(closure));
    return absl::OkStatus();
  }).IgnoreError();
}

std::string_view DataOf(natsMsg* message) {
  const int size = natsMsg_GetDataLength(message);
  return size <= 0 ? std::string_view() : std::string_view(natsMsg_GetData(message), static_cast<size_t>(size));
}

void OnAnswersEnd(void* closure) { delete static_cast<std::shared_ptr<Acknowledgements>*>(closure); }

}  // namespace

absl::StatusOr<Options> MakeOptions(const NatsOptions& options, const std::string& name, absl::Duration call_timeout) {
  natsOptions* made = nullptr;
  const auto check = [&](std::string_view key, natsStatus status) -> absl::Status {
    if (status == NATS_OK) return absl::OkStatus();
    return absl::FailedPreconditionError(Cat(key, ": ", LastError(status)));
  };
  absl::Status status = check("nats.url", natsOptions_Create(&made));
  Options created(made);
  const std::vector<std::string> urls = absl::StrSplit(options.url, ',', absl::SkipEmpty());
  std::vector<const char*> servers;
  for (const std::string& url : urls) servers.push_back(url.c_str());
  if (status.ok()) {
    status = check("nats.url", natsOptions_SetServers(made, servers.data(), static_cast<int>(servers.size())));
  }
  if (status.ok() && !options.credentials_file.empty()) {
    status = check("nats.credentials_file",
                   natsOptions_SetUserCredentialsFromFiles(made, options.credentials_file.c_str(), nullptr));
  }
  if (status.ok() && !options.tls_ca_file.empty()) {
    status = check("nats.tls_ca_file", natsOptions_SetSecure(made, true));
    if (status.ok()) {
      status = check("nats.tls_ca_file", natsOptions_LoadCATrustedCertificates(made, options.tls_ca_file.c_str()));
    }
  }
  if (!status.ok()) return status;
  natsOptions_SetName(made, name.c_str());
  natsOptions_SetTimeout(made, std::max<int64_t>(absl::ToInt64Milliseconds(call_timeout), 1));
  natsOptions_SetMaxReconnect(made, -1);
  natsOptions_SetReconnectWait(made, absl::ToInt64Milliseconds(kReconnectWait));
  // This is the smallest possible buffer, because the library must not send a message later, after a reconnect: the
  // message's client may have been told that it was not written.
  natsOptions_SetReconnectBufSize(made, 1);
  // A single thread of the library delivers the answers on all connections (OnAnswer), and the publishing thread
  // itself sends messages. With the defaults, each connection would have two threads for this.
  natsOptions_UseGlobalMessageDelivery(made, true);
  natsOptions_SetSendAsap(made, true);
  // These pings detect a server that vanished without closing the connection. They detect it within one or two time
  // limits of a write.
  natsOptions_SetPingInterval(made, absl::ToInt64Milliseconds(std::max(options.timeout, absl::Seconds(1))));
  natsOptions_SetMaxPingsOut(made, 1);
  return created;
}

void CloseConnection(natsConnection* connection) {
  natsConnection_Close(connection);
  natsConnection_Destroy(connection);
}

void EndSubscription(natsSubscription* subscription) {
  natsSubscription_Unsubscribe(subscription);
  natsSubscription_Destroy(subscription);
}

uint64_t NumReconnects(natsConnection* connection) {
  natsStatistics* statistics = nullptr;
  uint64_t count = 0;
  if (natsStatistics_Create(&statistics) != NATS_OK) return 0;
  if (natsConnection_GetStats(connection, statistics) == NATS_OK) {
    natsStatistics_GetCounts(statistics, nullptr, nullptr, nullptr, nullptr, &count);
  }
  natsStatistics_Destroy(statistics);
  return count;
}

std::string LastError(natsStatus status) {
  const char* const detail = nats_GetLastError(nullptr);
  const std::string text = natsStatus_GetText(status);
  return detail == nullptr || *detail == '\0' ? text : Cat(text, ": ", std::string(detail));
}

std::string_view HeaderOf(natsMsg* message, const char* key) {
  const char* value = nullptr;
  if (natsMsgHeader_Get(message, key, &value) != NATS_OK || value == nullptr) return "";
  return value;
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Arrival ReadArrival(natsMsg* message) {
  Arrival arrival;
  const char* const reply = natsMsg_GetReply(message);
  if (!HeaderOf(message, "Status").empty()) {
    arrival.kind = Arrival::Kind::kStatus;
    arrival.answer_to = reply == nullptr ? "" : reply;
    if (arrival.answer_to.empty()) arrival.answer_to = HeaderOf(message, "Nats-Consumer-Stalled");
    arrival.last_consumer_sequence = ParseNumber(HeaderOf(message, "Nats-Last-Consumer"));
    return arrival;
  }
  const std::optional<Delivery> delivery = ParseDelivery(reply == nullptr ? "" : reply);
  if (!delivery.has_value()) return arrival;
  arrival.kind = Arrival::Kind::kMessage;
  const std::optional<uint64_t> expires_ns = ParseNumber(HeaderOf(message, kExpiryHeader));
  arrival.message = {.sequence = delivery->sequence,
                     .id = std::string(HeaderOf(message, kIdHeader)),
                     .data = std::string(DataOf(message)),
                     .is_late = expires_ns.has_value() && delivery->stored_ns > *expires_ns};
  arrival.stored = absl::FromUnixNanos(static_cast<int64_t>(delivery->stored_ns));
  arrival.consumer_sequence = delivery->consumer_sequence;
  arrival.last_sequence = SaturatingAdd(delivery->sequence, delivery->num_pending);
  return arrival;
}

void TakeAnswer(natsMsg* message, Acknowledgements& to) {
  const std::lock_guard lock(to.mutex);
  const std::string_view subject = natsMsg_GetSubject(message);
  if (subject.size() <= to.prefix_bytes) return;
  const absl::StatusOr<uint64_t> sequence = natsMsg_IsNoResponders(message)
                                                ? absl::UnavailableError(Cat(to.server, " has no leader of the stream"))
                                                : ParseAcknowledgement(DataOf(message), to.server);
  if (to.listener) to.listener(subject.substr(to.prefix_bytes), sequence);
}

std::optional<Delivery> ParseDelivery(std::string_view subject) {
  const std::vector<std::string> tokens = absl::StrSplit(ForStrCat(subject), '.');
  constexpr size_t kNumTokens = 9;
  if (tokens.size() < kNumTokens || tokens[0] != "$JS" || tokens[1] != "ACK") return std::nullopt;
  const size_t stream = tokens.size() == kNumTokens ? 2 : 4;
  if (tokens.size() < stream + kNumTokens - 2) return std::nullopt;
  const std::optional<uint64_t> sequence = ParseNumber(tokens[stream + 3]);
  const std::optional<uint64_t> consumer_sequence = ParseNumber(tokens[stream + 4]);
  const std::optional<uint64_t> stored_ns = ParseNumber(tokens[stream + 5]);
  const std::optional<uint64_t> num_pending = ParseNumber(tokens[stream + 6]);
  if (!sequence.has_value() || !consumer_sequence.has_value() || !stored_ns.has_value() || !num_pending.has_value()) {
    return std::nullopt;
  }
  return Delivery{.sequence = *sequence,
                  .consumer_sequence = *consumer_sequence,
                  .stored_ns = *stored_ns,
                  .num_pending = *num_pending};
}

absl::StatusOr<uint64_t> ParseAcknowledgement(std::string_view data, std::string_view server) {
  const Json answer = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object())
    return absl::UnavailableError(Cat(server, " answered with something that is not an acknowledgement"));
  if (const auto error = answer.find("error"); error != answer.end() && error->is_object()) {
    return Refusal(*error, server);
  }
  const auto sequence = answer.find("seq");
  if (sequence == answer.end() || !sequence->is_number_unsigned() || *sequence == 0) {
    return absl::UnavailableError(Cat(server, " answered without a sequence"));
  }
  return sequence->get<uint64_t>();
}

absl::StatusOr<Subscription> ListenForAnswers(natsConnection* connection, const std::string& subject,
                                              const std::shared_ptr<Acknowledgements>& to) {
  auto closure = std::make_unique<std::shared_ptr<Acknowledgements>>(to);
  natsSubscription* made = nullptr;
  natsStatus status = natsConnection_Subscribe(&made, connection, subject.c_str(), OnAnswer, closure.get());
  if (status != NATS_OK) return absl::UnavailableError(Cat(to->server, ": no subscription: ", LastError(status)));
  Subscription subscription(made);
  // From here on a thread of the library owns the closure, and OnAnswersEnd deletes it. If that callback cannot be set,
  // the closure is never deleted.
  status = natsSubscription_SetOnCompleteCB(made, OnAnswersEnd, closure.release());
  if (status != NATS_OK) return absl::UnavailableError(Cat(to->server, ": no subscription: ", LastError(status)));
  natsSubscription_SetPendingLimits(made, -1, -1);
  return subscription;
}

}  // namespace maxsim::live::nats
