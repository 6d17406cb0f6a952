// A stream that orders the writes of a live collection: several servers apply its messages in the same order.
// nats_stream.h implements it with NATS JetStream; the rest of server/live/ knows this interface alone.
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

// A message as the stream has it.
struct StreamMessage {
  uint64_t sequence = 0;  // 1, 2, ... over the stream's life
  std::string id;         // as passed to Publish; "" if another program sent the message without one
  std::string data;
};

// The state of a stream.
struct StreamInfo {
  collection::LogStream stream;
  uint64_t first_sequence = 0;  // of the first message that it still holds, or of the next one if it holds none
  uint64_t last_sequence = 0;   // of the last message that it ever got
};

// Publish and the properties may be called by any thread; Open, Subscribe and Receive by one.
class OrderedStream {
 public:
  virtual ~OrderedStream() = default;

  // Returns the stream's server for messages, with the key that names it.
  virtual std::string server() const = 0;

  // Connects if there is no connection, and looks up the stream. If there is none and `create` is set, makes it. Blocks
  // for a call's time limit at most per request to the server. Returns NOT_FOUND, UNAVAILABLE if the server does not
  // answer, or FAILED_PRECONDITION, naming the key or the stream, if it refuses.
  virtual absl::StatusOr<StreamInfo> Open(bool create) = 0;

  // Makes Receive return the messages after `after`, in order and each once. Ends the subscription before.
  virtual absl::Status Subscribe(uint64_t after) = 0;
  // Waits for a message, and returns all that have arrived; none if the time is over or Interrupt was called. After an
  // error (the connection was lost, or messages were lost on the way) call Open and Subscribe again.
  virtual absl::StatusOr<std::vector<StreamMessage>> Receive(absl::Duration timeout) = 0;
  // Makes the running Receive and all later ones return soon.
  virtual void Interrupt() = 0;

  // Sends a message. `id` consists of A-Z, a-z, 0-9 and -. The stream drops a message if it has taken one with that id
  // within its window for duplicates (two minutes, unless an operator set another). Messages of one thread are taken in
  // order, or not at all. The listener gets the outcome. Returns UNAVAILABLE without a connection: nothing was sent.
  virtual absl::Status Publish(int32_t slot, std::string_view id, std::string_view data) = 0;

  // Gets the outcome of a published message, on a thread of the stream that it must not block: its sequence once it is
  // durable in the stream, UNAVAILABLE if it may be published again, or RESOURCE_EXHAUSTED or another error if the
  // stream refuses it. For some messages it is never called.
  using Listener = std::function<void(std::string_view id, absl::StatusOr<uint64_t> sequence)>;
  // Must be called once, before any other function.
  virtual void SetListener(Listener listener) = 0;

  // Returns the most bytes that a message's data may have, as the server says; INT64_MAX before it has said so.
  virtual int64_t max_message_bytes() const = 0;
  // Returns the sequence of the stream's last message, as far as it is known.
  virtual uint64_t last_sequence() const = 0;
};

// Makes the stream of a collection.
using OpenStream = std::function<std::unique_ptr<OrderedStream>(const std::string& collection)>;

}  // namespace maxsim::live
