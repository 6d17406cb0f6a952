// Replaces NATS JetStream by a stream in memory. A test can make the stream unavailable, make it lose messages or
// acknowledgements, and delete and create it again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "server/live/stream/ordered_stream.h"

namespace maxsim::live {

// The stream server to which all servers of a test are connected. Thread-safe.
class FakeStreamServer {
 public:
  // How the server behaves from now on.
  struct Faults {
    bool away = false;          // no call is answered
    int lose_publishes = 0;     // number of the next messages that never reach the stream
    bool lose_answers = false;  // acknowledgements are lost
    bool refuse = false;        // messages are refused because the stream is full
    int64_t max_message_bytes = 1 << 20;
    bool hold_publishes = false;  // messages are under way until Release
    bool takes_late = false;      // messages are marked as late
    bool hide_stream = false;     // Open says that there is no stream
    uint64_t hide_messages = 0;   // Open reports a last sequence that is this much too small
    StreamRetention retention = {};
  };

  std::unique_ptr<OrderedStream> Connect();

  void Set(const Faults& faults);
  // Drops the messages up to and including `through`.
  void Drop(uint64_t through);
  // Makes the stream report a creation time 0.3 s later from now on, as the request of another server would have.
  void ReportAnotherCreation();
  // Deletes the stream, and creates it again without messages, ten seconds later.
  void MakeAnew();
  // Loses all messages after `last`.
  void LoseBehind(uint64_t last);
  // Deletes a message, which leaves a gap.
  void Delete(uint64_t sequence);
  // Adds a message that none of the servers sent.
  void Add(std::string data);
  // Delivers the messages that were held.
  void Release();

  uint64_t num_messages() const;
  uint64_t num_publishes() const;  // including repeated and lost ones
  uint64_t num_subscribes() const;

 private:
  class Stream;
  struct Held {
    std::string id;
    std::string data;
    absl::Time expires;
  };
  uint64_t Take(const Held& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  mutable Mutex mutex_;
  ConditionVariable changed_;
  Faults faults_ ABSL_GUARDED_BY(mutex_);
  bool exists_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t created_ns_ ABSL_GUARDED_BY(mutex_) = 1'000;
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t num_publishes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_subscribes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<StreamMessage> messages_ ABSL_GUARDED_BY(mutex_);  // including dropped ones
  std::set<uint64_t> deleted_ ABSL_GUARDED_BY(mutex_);
  std::vector<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> sequences_ ABSL_GUARDED_BY(mutex_);  // of ids
};

}  // namespace maxsim::live
