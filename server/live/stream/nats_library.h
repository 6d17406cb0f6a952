// Owning types for objects of the NATS C library, and parsers for the messages of JetStream. Internal to
// the files nats_*.cc of this folder.
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

// Returns the options of a connection with that name. The connection reconnects whenever it is lost, and does not
// buffer messages while it is down. Returns FAILED_PRECONDITION, naming the key, if the library refuses an option.
absl::StatusOr<Options> MakeOptions(const NatsOptions& options, const std::string& name, absl::Duration call_timeout);

// Returns how often the library has connected again after it had lost the connection.
uint64_t NumReconnects(natsConnection* connection);

// Returns a status of the library as text, with the library's details.
std::string LastError(natsStatus status);

// Returns the value of a header, or "". It lives as long as the message.
std::string_view HeaderOf(natsMsg* message, const char* key);

// Parses a number. Returns nullopt unless the text consists only of digits.
std::optional<uint64_t> ParseNumber(std::string_view text);

// The header with the message id that the sender chose.
inline constexpr char kIdHeader[] = "Nats-Msg-Id";

// The header with the expiry of a message, in nanoseconds of Unix time on the clock of the stream's servers. They
// ignore it; ReadArrival compares it with the time at which they stored the message.
inline constexpr char kExpiryHeader[] = "Maxsim-Expires";

// Data about a message. The server puts it into the message's reply subject.
struct Delivery {
  uint64_t sequence = 0;           // in the stream
  uint64_t consumer_sequence = 0;  // 1, 2, ...; a gap means that messages were lost on the way
  uint64_t stored_ns = 0;          // Unix time at which the stream's leader took the message, on the leader's clock
  uint64_t num_pending = 0;        // messages after this one
};

// Parses "$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING". Servers of several domains add
// two tokens after ACK, and one at the end. Returns nullopt for anything else.
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
  absl::Time stored;           // Delivery::stored_ns
  // For kStatus:
  std::string answer_to;                                // send an empty answer to this subject, unless it is ""
  std::optional<uint64_t> last_consumer_sequence = {};  // of the last message that was sent to the consumer
};
Arrival ReadArrival(natsMsg* message);

// Parses the stream's answer to a message. Returns the sequence of {"stream":..,"seq":..}. Returns an error for
// {"error":{"code":..,"err_code":..,"description":..}}: UNAVAILABLE if the message may be sent again,
// RESOURCE_EXHAUSTED if the stream has no room for it, FAILED_PRECONDITION if the stream refuses it. `server` is for
// error texts.
absl::StatusOr<uint64_t> ParseAcknowledgement(std::string_view data, std::string_view server);

// The state of a subscription to answers, whose subjects are PREFIX.ID. A thread of the library uses it. Outlives the
// subscription.
struct Acknowledgements {
  std::mutex mutex;  // held while the listener is called
  OrderedStream::Listener listener;
  std::string server;
  size_t prefix_bytes = 0;  // of the subject, before the id
};

// Passes an answer to the listener. The answer's subject names the message that it is for.
void TakeAnswer(natsMsg* message, Acknowledgements& to);

// Subscribes to `subject`, PREFIX.*.
absl::StatusOr<Subscription> ListenForAnswers(natsConnection* connection, const std::string& subject,
                                              const std::shared_ptr<Acknowledgements>& to);

}  // namespace maxsim::live::nats
