// What the C library of NATS hands out, owned; and what JetStream says in messages, taken apart. Internal to
// nats_stream.cc.
#pragma once

#include <nats/nats.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/live/local/nats_options.h"
#include "server/live/stream/ordered_stream.h"

namespace maxsim::live::nats {

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};

void CloseConnection(natsConnection* connection);
void EndSubscription(natsSubscription* subscription);

using Options = std::unique_ptr<natsOptions, Destroyer<natsOptions_Destroy>>;
using Message = std::unique_ptr<natsMsg, Destroyer<natsMsg_Destroy>>;
using JetStream = std::unique_ptr<jsCtx, Destroyer<jsCtx_Destroy>>;
using Info = std::unique_ptr<jsStreamInfo, Destroyer<jsStreamInfo_Destroy>>;
using Connection = std::unique_ptr<natsConnection, Destroyer<CloseConnection>>;
using Subscription = std::unique_ptr<natsSubscription, Destroyer<EndSubscription>>;

// Returns the options of a connection of that name, which comes back by itself however often it is lost, and keeps
// nothing that is sent meanwhile. FAILED_PRECONDITION, which names the key, where they cannot be had.
absl::StatusOr<Options> MakeOptions(const NatsOptions& options, const std::string& name, absl::Duration call_timeout);

// Returns a status of the library in words, with what it says beside.
std::string LastError(natsStatus status);

// Returns the value of a header, or "". It lives as long as the message.
std::string_view HeaderOf(natsMsg* message, const char* key);

// Returns a number of digits alone.
std::optional<uint64_t> ParseNumber(std::string_view text);

// The header with the message id that the sender chose.
inline constexpr char kIdHeader[] = "Nats-Msg-Id";

// What the server says of a message in the subject of its answer.
struct Delivery {
  uint64_t sequence = 0;           // in the stream
  uint64_t consumer_sequence = 0;  // 1, 2, ... without a gap where nothing was lost on the way
  uint64_t num_pending = 0;        // messages behind it
};

// Parses "$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING"; servers of several domains put
// two tokens behind ACK, and one at the end. nullopt for anything else.
std::optional<Delivery> ParseDelivery(std::string_view subject);

// A parsed message from a subscription to a stream: a message of the stream, a status message of the server, or a
// message from another sender.
struct Arrival {
  enum class Kind { kMessage, kStatus, kForeign };
  Kind kind = Kind::kForeign;
  // For kMessage:
  StreamMessage message;
  uint64_t consumer_sequence = 0;
  uint64_t last_sequence = 0;  // of the stream, as of this message
  // For kStatus:
  std::string answer_to;                                // the subject to send an empty answer to, or ""
  std::optional<uint64_t> last_consumer_sequence = {};  // of the last message that was sent to the consumer
};
Arrival ReadArrival(natsMsg* message);

// Takes the stream's answer to a message apart: {"stream":..,"seq":..}, whose sequence is returned, or
// {"error":{"code":..,"err_code":..,"description":..}}. UNAVAILABLE where the message may be sent again,
// RESOURCE_EXHAUSTED where the stream has no room for it, FAILED_PRECONDITION where it does not take it. `server` is
// for messages.
absl::StatusOr<uint64_t> ParseAcknowledgement(std::string_view data, std::string_view server);

// Listens for answers to messages, on PREFIX.ID, in a thread of the library. It outlives the subscription.
struct Acknowledgements {
  std::mutex mutex;  // held while the listener is called
  OrderedStream::Listener listener;
  std::string server;
  size_t prefix_bytes = 0;  // of the subject, before the id
};

// Passes an answer to the listener. The answer's subject says which message it is for.
void TakeAnswer(natsMsg* message, Acknowledgements& to);

// Subscribes to `subject`, PREFIX.*.
absl::StatusOr<Subscription> ListenForAnswers(natsConnection* connection, const std::string& subject,
                                              const std::shared_ptr<Acknowledgements>& to);

}  // namespace maxsim::live::nats
