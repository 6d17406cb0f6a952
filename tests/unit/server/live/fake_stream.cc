#include "tests/unit/server/live/fake_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/monotonic_clock.h"

namespace maxsim::live {
namespace {

constexpr uint64_t kRacingNs = 300'000'000;
constexpr uint64_t kLaterNs = 10'000'000'000;

}  // namespace

class FakeStreamServer::Stream final : public OrderedStream {
 public:
  explicit Stream(FakeStreamServer* server) : server_(server) {}

  std::string server() const override { return "the fake stream"; }
  void SetListener(Listener listener) override { listener_ = std::move(listener); }

  absl::StatusOr<StreamInfo> Open(bool create) override {
    const MutexLock lock(&server_->mutex_);
    if (server_->faults_.away) return Away();
    if (server_->faults_.hide_stream || (!server_->exists_ && !create))
      return absl::NotFoundError("the fake stream has no stream");
    server_->exists_ = true;
    return Info();
  }

  absl::StatusOr<StreamInfo> Look() override {
    const MutexLock lock(&server_->mutex_);
    if (server_->faults_.away) return Away();
    return Info();
  }

  absl::Status Subscribe(uint64_t after) override {
    const MutexLock lock(&server_->mutex_);
    if (server_->faults_.away) return Away();
    ++server_->num_subscribes_;
    created_ns_ = server_->created_ns_;
    next_ = std::max(after + 1, server_->first_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<StreamMessage>> Receive(absl::Duration timeout) override {
    const absl::Time until = MonotonicNow() + timeout;
    MutexLock lock(&server_->mutex_);
    while (true) {
      if (server_->faults_.away || created_ns_ != server_->created_ns_) return Away();
      if (interrupted_ || MonotonicNow() >= until) return std::vector<StreamMessage>();
      std::vector<StreamMessage> messages;
      // Returns at most three messages, so that tests also cover the borders between batches.
      for (; next_ <= server_->messages_.size() && messages.size() < 3; ++next_) {
        if (!server_->deleted_.contains(next_)) messages.push_back(server_->messages_[next_ - 1]);
      }
      if (!messages.empty()) return messages;
      server_->changed_.WaitFor(lock, std::chrono::milliseconds(5));
    }
  }

  void Interrupt() override {
    const MutexLock lock(&server_->mutex_);
    interrupted_ = true;
  }

  absl::Status Publish(int32_t, std::string_view id, std::string_view data, absl::Time expires) override {
    absl::StatusOr<uint64_t> answer;
    {
      const MutexLock lock(&server_->mutex_);
      if (server_->faults_.away) return Away();
      ++server_->num_publishes_;
      if (server_->faults_.lose_publishes > 0) {
        --server_->faults_.lose_publishes;
        return absl::OkStatus();
      }
      const Held message{std::string(id), std::string(data), expires};
      if (server_->faults_.hold_publishes) {
        server_->held_.push_back(message);
        return absl::OkStatus();
      }
      if (server_->faults_.refuse) {
        answer = absl::ResourceExhaustedError("the fake stream is full");
      } else {
        server_->mutex_.AssertHeld();
        answer = server_->Take(message);
        server_->changed_.NotifyAll();
        if (server_->faults_.lose_answers) return absl::OkStatus();
      }
    }
    listener_(id, answer);
    return absl::OkStatus();
  }

  int64_t max_message_bytes() const override {
    const MutexLock lock(&server_->mutex_);
    return server_->faults_.max_message_bytes;
  }
  uint64_t last_sequence() const override {
    const MutexLock lock(&server_->mutex_);
    return server_->messages_.size();
  }

 private:
  StreamInfo Info() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(server_->mutex_) {
    return {.stream = {.name = "fake", .created_ns = server_->created_ns_},
            .first_sequence = server_->first_,
            .last_sequence = server_->messages_.size() - server_->faults_.hide_messages,
            .retention = server_->faults_.retention};
  }
  static absl::Status Away() { return absl::UnavailableError("the fake stream does not answer"); }

  FakeStreamServer* const server_;
  Listener listener_;
  bool interrupted_ = false;
  uint64_t next_ = 1;
  uint64_t created_ns_ = 0;
};

// Stores a message, unless the stream has it already. Returns its sequence.
uint64_t FakeStreamServer::Take(const Held& message) {
  const auto [found, is_new] = sequences_.try_emplace(message.id, messages_.size() + 1);
  if (is_new) {
    const bool is_late = faults_.takes_late || MonotonicNow() > message.expires;
    messages_.push_back({found->second, message.id, message.data, is_late});
  }
  return found->second;
}

std::unique_ptr<OrderedStream> FakeStreamServer::Connect() { return std::make_unique<Stream>(this); }

void FakeStreamServer::Set(const Faults& faults) {
  const MutexLock lock(&mutex_);
  faults_ = faults;
}

void FakeStreamServer::Drop(uint64_t through) {
  const MutexLock lock(&mutex_);
  first_ = through + 1;
}

void FakeStreamServer::ReportAnotherCreation() {
  const MutexLock lock(&mutex_);
  created_ns_ += kRacingNs;
}

void FakeStreamServer::MakeAnew() {
  const MutexLock lock(&mutex_);
  created_ns_ += kLaterNs;
  first_ = 1;
  messages_.clear();
  sequences_.clear();
}

void FakeStreamServer::LoseBehind(uint64_t last) {
  const MutexLock lock(&mutex_);
  messages_.resize(last);
}

void FakeStreamServer::Delete(uint64_t sequence) {
  const MutexLock lock(&mutex_);
  deleted_.insert(sequence);
}

void FakeStreamServer::Add(std::string data) {
  const MutexLock lock(&mutex_);
  messages_.push_back({.sequence = messages_.size() + 1, .id = "", .data = std::move(data)});
  exists_ = true;
  changed_.NotifyAll();
}

void FakeStreamServer::Release() {
  const MutexLock lock(&mutex_);
  for (const Held& message : held_) Take(message);
  held_.clear();
  changed_.NotifyAll();
}

uint64_t FakeStreamServer::num_subscribes() const {
  const MutexLock lock(&mutex_);
  return num_subscribes_;
}

uint64_t FakeStreamServer::num_messages() const {
  const MutexLock lock(&mutex_);
  return messages_.size();
}

uint64_t FakeStreamServer::num_publishes() const {
  const MutexLock lock(&mutex_);
  return num_publishes_;
}

}  // namespace maxsim::live
