// A fake NATS server with one stream of JetStream in memory: listens on a free port, and can send a message so that its
// end does not come while a client waits for it.
#pragma once

#include <memory>
#include <string>

namespace maxsim::live {

class FakeNats {
 public:
  // The kind of message to spoil.
  enum class Part {
    kNone,
    kGreeting,      // INFO, when a client connects
    kStreamInfo,    // the answer to a question about the stream
    kConsumer,      // the answer to a subscription's consumer
    kDelivery,      // a message of the stream
    kAcknowledged,  // the answer to a message that was published
  };
  // How the bytes of a spoilt message come.
  enum class Manner {
    kStops,    // its first half, and then nothing
    kDrips,    // one byte per millisecond
    kEndless,  // as fast as the client takes them, and far more than a message has
  };

  // `collection` names the stream, with the prefix "maxsim".
  explicit FakeNats(const std::string& collection);
  // Closes all connections.
  ~FakeNats();

  std::string url() const;
  // Applies to messages that are sent from now on.
  void Spoil(Part part, Manner manner);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::live
