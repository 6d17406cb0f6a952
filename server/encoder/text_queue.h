// Queues texts for the encoder, and chooses those that go into one call together. Internal to server/encoder. Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "absl/time/time.h"
#include "server/encoder/encoder.h"

namespace maxsim::encoder {

// A request that has no answer yet.
struct WaitingRequest {
  WaitingRequest(boost::asio::io_context* loop, EncodeRequest from, Encoder::Done call_done)
      : request(std::move(from)), done(std::move(call_done)), results(request.texts.size()), deadline(*loop) {
    for (const std::string& text : request.texts) num_bytes += text.size();
  }

  bool is_over() const { return done == nullptr; }

  EncodeRequest request;
  Encoder::Done done;  // null once it has been called
  std::vector<EncodedText> results;
  size_t num_sent = 0;      // texts that have been put into a call
  size_t num_answered = 0;  // texts that have a result
  uint64_t num_bytes = 0;   // of its texts
  boost::asio::steady_timer deadline;
};

// Consecutive texts of one request.
struct TextRange {
  std::shared_ptr<WaitingRequest> request;
  size_t begin = 0;
  size_t count = 0;
};

class TextQueue {
 public:
  // A call has at most `max_texts` texts. A text waits up to `window` for others to join it.
  TextQueue(size_t max_texts, absl::Duration window) : max_texts_(max_texts), window_(window) {}

  void Add(std::shared_ptr<WaitingRequest> request, absl::Time now);

  // Queues the texts that one request had in a refused call, so that they are sent in a call of their own.
  void AddAlone(TextRange range) { alone_.push_back(std::move(range)); }

  // Takes out everything that AddAlone has queued.
  std::deque<TextRange> TakeAlone() { return std::exchange(alone_, {}); }

  // Removes a request that is over. Must be called once for each, so that its texts are no longer counted.
  void Forget(const WaitingRequest& request);

  // Returns when the next call may begin: InfinitePast if now, InfiniteFuture if there are no texts.
  absl::Time NextCall() const;

  // Returns the texts of the next call, or none if no call may begin yet. All texts of a call have the same kind and
  // the same max_tokens. Calls for queries and for documents take turns, and so do requests with more texts than fit
  // into a call.
  std::vector<TextRange> Take(absl::Time now);

  size_t num_texts() const { return num_texts_; }

 private:
  struct Line {
    std::deque<std::shared_ptr<WaitingRequest>> requests;
    size_t num_texts = 0;  // texts of unfinished requests that Take has not taken
    absl::Time since;      // start of the window
  };

  static size_t IndexOf(TextKind kind) { return kind == TextKind::kQuery ? 0 : 1; }
  absl::Time ReadyAt(const Line& line) const;

  const size_t max_texts_;
  const absl::Duration window_;
  std::array<Line, 2> lines_;
  std::deque<TextRange> alone_;
  size_t next_line_ = 0;  // the kind whose turn it is
  size_t num_texts_ = 0;
};

}  // namespace maxsim::encoder
