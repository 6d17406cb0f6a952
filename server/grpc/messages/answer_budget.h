// Limits the memory of answers that clients have not read yet. HTTP/2 lets a client read slowly, and an unread answer
// stays in the server's memory. A unary call has one answer, a stream may have many.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "grpcpp/server_context.h"
#include "server/observability/metrics.h"

namespace maxsim::rpc {

// HTTP/2 lets a server send this number of bytes of an answer before the client has read any (RFC 9113, 6.9.2).
inline constexpr uint64_t kSentAtOnceBytes = 65535;

// Thread-safe. Must outlive its accounts.
class AnswerBudget {
 public:
  // If `max_bytes` is 0, there is no bound. `metrics` may be null.
  AnswerBudget(uint64_t max_bytes, Metrics* metrics) : max_bytes_(max_bytes), metrics_(metrics) {}
  AnswerBudget(const AnswerBudget&) = delete;
  AnswerBudget& operator=(const AnswerBudget&) = delete;

  // The unread answers of one call.
  class Account {
   public:
    // `context` must live until Close.
    Account(AnswerBudget* budget, grpc::CallbackServerContext* context) : budget_(budget), context_(context) {}
    ~Account() { Close(); }
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

    // Counts an answer of `bytes` that is ready to send. While the unread answers of all calls exceed the limit, finds
    // the client address that holds most, and ends its largest call with RESOURCE_EXHAUSTED. That may be this call.
    // gRPC may call OnCancel of the ended call on this thread before Add returns, so the caller must hold no lock that
    // OnCancel takes.
    void Add(uint64_t bytes);
    // Counts `bytes` of the answers as read.
    void Remove(uint64_t bytes);
    // Returns the error with which the budget ended the call, else OK.
    absl::Status ended() const;
    // Stops counting the call's answers, because they have been read or never will be. Idempotent. Later calls of Add
    // have no effect. Must be called in OnDone at the latest.
    void Close();

   private:
    friend class AnswerBudget;
    AnswerBudget* const budget_;
    grpc::CallbackServerContext* const context_;
    // The budget's mutex_ guards the members below. They have no annotation, because Clang's analysis cannot tell that
    // all accounts have the same budget_.
    uint64_t bytes_ = 0;
    std::optional<uint64_t> peer_;  // the client's address, once it was needed
    size_t idx_ = kNotListed;       // in accounts_
    bool closed_ = false;           // by Close, or because the budget ended the call
    // The bytes that the call held when the budget ended it; 0 if the budget did not end it. Written under mutex_, but
    // read without it, because each call reads it and mutex_ is shared by all calls.
    std::atomic<uint64_t> ended_bytes_{0};
  };

  // A stream with more unread bytes than this must not read requests.
  uint64_t max_stream_bytes() const { return max_bytes_ == 0 ? UINT64_MAX : max_bytes_ / 16; }

 private:
  static constexpr size_t kNotListed = SIZE_MAX;

  std::string MessageFor(uint64_t bytes) const;
  void ListAccount(Account& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseAccount(Account& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Account& LargestAccount() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  Metrics* const metrics_;
  Mutex mutex_;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;              // of all accounts
  std::vector<Account*> accounts_ ABSL_GUARDED_BY(mutex_);  // those that have ever held bytes
};

}  // namespace maxsim::rpc
