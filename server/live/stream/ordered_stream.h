// A stream of messages that several servers apply in its order: what a live collection wants of it. NATS JetStream's is
// in nats_stream.h; the rest of server/live/ knows this interface alone.
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
  std::string id;         // as Publish got it; "" for a message of somebody else that has none
  std::string data;
};

// What the stream says of itself.
struct StreamInfo {
  collection::LogStream stream;
  uint64_t first_sequence = 0;  // of the first message that it still holds; of the next one, where it holds none
  uint64_t last_sequence = 0;   // of the last message that it ever got
};

// Publish and the properties may be called by any thread; Open, Subscribe and Receive by one.
class OrderedStream {
 public:
  virtual ~OrderedStream() = default;

  // Returns the stream's server for messages, with the key that names it.
  virtual std::string server() const = 0;

  // Connects, where there is no connection, and asks for the stream, which it makes where there is none and `create`
  // says so. Blocks for the time limit of a call at most. NOT_FOUND; UNAVAILABLE when the server does not answer;
  // FAILED_PRECONDITION, which names the key or the stream, where it refuses.
  virtual absl::StatusOr<StreamInfo> Open(bool create) = 0;

  // Has Receive return the messages behind `after`, in their order and each once. What was subscribed to before ends.
  virtual absl::Status Subscribe(uint64_t after) = 0;
  // Returns the messages that are there, at least one, or none when the time is over or Interrupt was called. On an
  // error (the connection was lost, messages were lost on the way) Open and Subscribe have to follow.
  virtual absl::StatusOr<std::vector<StreamMessage>> Receive(absl::Duration timeout) = 0;
  // Has Receive return soon, from now on.
  virtual void Interrupt() = 0;

  // Sends a message to the stream, which takes it once: one of an `id` that it has taken in the last two minutes is
  // dropped. Messages of one thread are taken in their order, or not at all. `id` is of the letters A-Z a-z 0-9 and -.
  // What became of it is told by the listener. UNAVAILABLE where there is no connection: then it was not sent.
  virtual absl::Status Publish(int32_t slot, std::string_view id, std::string_view data) = 0;

  // Is told of the messages that were published, from a thread of the stream's, which it must not hold up: the sequence
  // of one that is in the stream, durably; UNAVAILABLE for one that may be published again; RESOURCE_EXHAUSTED and
  // others where the stream refuses it. Some are never told of.
  using Listener = std::function<void(std::string_view id, absl::StatusOr<uint64_t> sequence)>;
  // Is called once, before anything else.
  virtual void SetListener(Listener listener) = 0;

  // Returns how many bytes the data of a message may have, as the server says; INT64_MAX where it has said nothing yet.
  virtual int64_t max_message_bytes() const = 0;
  // Returns the sequence of the stream's last message, as far as it is known.
  virtual uint64_t last_sequence() const = 0;
};

// Makes the stream of a collection.
using OpenStream = std::function<std::unique_ptr<OrderedStream>(const std::string& collection)>;

}  // namespace maxsim::live
