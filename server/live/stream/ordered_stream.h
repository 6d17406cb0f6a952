// A stream that orders the writes of a live collection: several servers apply its messages in the same order.
// nats_stream.h implements it with NATS JetStream; the rest of server/live/ only knows this interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collection/log/collection_log.h"

namespace maxsim::live {

// A message of the stream.
struct StreamMessage {
  uint64_t sequence = 0;  // 1, 2, ... over the stream's life
  std::string id;         // as passed to Publish; "" if another program sent the message without one
  std::string data;
  // The stream took the message after its expiry (Publish), so no server may apply it. All servers see the same value,
  // because both times are stored with the message.
  bool is_late = false;
};

// The limits beyond which a stream drops its oldest messages, and how much of them is used. 0 means that there is no
// limit.
struct StreamRetention {
  absl::Duration max_age = absl::ZeroDuration();
  uint64_t max_messages = 0;
  uint64_t max_bytes = 0;
  uint64_t num_bytes = 0;  // of the messages that the stream holds
  // The ages of the first and the last message that the stream holds, by the clock of the stream's server. Until that
  // clock is known, the last message counts as new.
  absl::Duration oldest_age = absl::ZeroDuration();
  absl::Duration newest_age = absl::ZeroDuration();
};

// The state of a stream.
struct StreamInfo {
  collection::LogStream stream;
  // The sequence of the first message that the stream still holds; if it holds none, of the next message.
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;  // of the last message that the stream ever got
  StreamRetention retention = {};
};

// Any thread may call Publish, Interrupt and the properties. Only one thread may call Open, Look, Subscribe and
// Receive.
class OrderedStream {
 public:
  virtual ~OrderedStream() = default;

  // Returns the stream's server and its configuration key, for error messages.
  virtual std::string server() const = 0;

  // Connects if there is no connection, and looks up the stream. If the stream does not exist and `create` is set,
  // creates it. Each request to the server has a call's time limit. Returns NOT_FOUND if the stream does not exist,
  // UNAVAILABLE if the server does not answer, or FAILED_PRECONDITION, naming the key or the stream, if the server
  // refuses.
  virtual absl::StatusOr<StreamInfo> Open(bool create) = 0;

  // Looks the stream up over the existing connection. Changes neither the connection nor the subscription. Takes a
  // call's time limit at most. Returns the errors of Open.
  virtual absl::StatusOr<StreamInfo> Look() = 0;

  // Makes Receive return the messages after sequence `after`, in order, each once. Replaces the previous subscription.
  virtual absl::Status Subscribe(uint64_t after) = 0;
  // Waits for a message, and returns all messages that have arrived. Returns none after `timeout`, or if Interrupt was
  // called. An error means that the connection or messages were lost; call Open and Subscribe again.
  virtual absl::StatusOr<std::vector<StreamMessage>> Receive(absl::Duration timeout) = 0;
  // Makes the running Receive and all later ones return soon.
  virtual void Interrupt() = 0;

  // Sends a message. `id` consists of A-Z, a-z, 0-9 and -. If the stream has taken a message with the same id within
  // its window for duplicates, it drops this one. (The window is two minutes, unless an operator changed it.) The
  // stream takes the messages of one thread in order, but some may be lost. The listener gets the outcome. Returns
  // UNAVAILABLE if there is no connection: the message was not sent.
  //
  // A message may be under way for any time, for example if a connection stands still and then goes on. If the stream
  // takes it after `expires` (a time of MonotonicNow()), the message is marked as late. The stream's servers decide
  // that by their own clocks. This server translates `expires` to their clock, so it does not matter how its own clock
  // is set. But if another server of the stream takes over, the expiry moves by the difference of their clocks.
  virtual absl::Status Publish(int32_t slot, std::string_view id, std::string_view data, absl::Time expires) = 0;

  // Gets the outcome of a published message: its sequence once it is durable in the stream, UNAVAILABLE if the caller
  // may publish it again, or RESOURCE_EXHAUSTED or another error if the stream refuses it. Called on a thread of the
  // stream, which it must not block. It is not called for messages or answers that were lost.
  using Listener = std::function<void(std::string_view id, absl::StatusOr<uint64_t> sequence)>;
  // Sets the listener. Must be called once, before any other function.
  virtual void SetListener(Listener listener) = 0;

  // Returns the server's limit for the bytes of a message's data; INT64_MAX while it is unknown.
  virtual int64_t max_message_bytes() const = 0;
  // Returns the sequence of the stream's last message, as far as it is known.
  virtual uint64_t last_sequence() const = 0;
};

// Makes the stream of a collection.
using OpenStream = std::function<std::unique_ptr<OrderedStream>(const std::string& collection)>;

}  // namespace maxsim::live
