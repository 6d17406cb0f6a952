// A fake NATS server with one JetStream stream in memory, on a free port. It can send a message so slowly, or make it
// so long, that a client reaches its time limit before the end of the message.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace maxsim::live {

class FakeNats {
 public:
  // The kind of message to spoil.
  enum class Part {
    kNone,
    kGreeting,      // INFO, when a client connects
    kStreamInfo,    // the answer to a request for the stream's info
    kConsumer,      // the answer to the creation of a subscription's consumer
    kDelivery,      // a message of the stream
    kAcknowledged,  // the answer to a published message
  };
  // How the server sends the bytes of a spoilt message.
  enum class Manner {
    kStops,    // its first half, and then nothing
    kDrips,    // one byte per millisecond
    kEndless,  // as fast as the client reads, and far more bytes than the message should have
  };

  // The answer to a request to create the stream. The stream always exists afterwards. A real server gives all of these
  // answers if several clients create the stream at the same time.
  enum class Creation {
    kInfo,       // the stream's info
    kOtherTime,  // the stream's info with another time of creation
    kNoTime,     // the stream's info with the year 1 as its time of creation
    kOverlap,    // an error: another stream has these subjects
    kNoAnswer,
  };

  // `collection` names the stream, with the prefix "maxsim".
  explicit FakeNats(const std::string& collection);
  // Closes all connections.
  ~FakeNats();

  std::string url() const;
  // Applies to messages that are sent from now on.
  void Spoil(Part part, Manner manner);
  // Makes the server store later messages with times that are `delay` later, as if the messages had been under way for
  // this time.
  void DelayMessages(absl::Duration delay);
  // Removes the stream, which exists at first, until a client asks to create it. That client gets `answer`.
  void AwaitCreation(Creation answer);
  // Reports the year 1 as the stream's time of creation from now on.
  void HideTimeOfCreation();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::live
