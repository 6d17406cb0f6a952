#include "server/grpc/messages/answer_budget.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/service/call/client_of.h"

namespace maxsim::rpc {

void AnswerBudget::ListAccount(Account& account) {
  if (account.idx_ != kNotListed) return;
  accounts_.push_back(&account);
  account.idx_ = accounts_.size() - 1;
}

void AnswerBudget::CloseAccount(Account& account) {
  account.closed_ = true;
  bytes_ -= std::exchange(account.bytes_, 0);
  if (account.idx_ == kNotListed) return;
  accounts_[account.idx_] = accounts_.back();
  accounts_[account.idx_]->idx_ = account.idx_;
  accounts_.pop_back();
  account.idx_ = kNotListed;
}

AnswerBudget::Account& AnswerBudget::LargestAccount() const {
  std::map<uint64_t, uint64_t> by_peer;
  for (Account* account : accounts_) {
    // Add up by address and not by client name, because a client could choose a new name for each call. Ask for the
    // address only here, when the budget is used up: gRPC builds a string each time.
    if (!account->peer_.has_value()) account->peer_ = service::ClientOf("", account->context_->peer());
    by_peer[*account->peer_] += account->bytes_;
  }
  return **std::max_element(accounts_.begin(), accounts_.end(), [&](const Account* a, const Account* b) {
    return std::pair(by_peer[*a->peer_], a->bytes_) < std::pair(by_peer[*b->peer_], b->bytes_);
  });
}

std::string AnswerBudget::MessageFor(uint64_t bytes) const {
  return absl::StrCat("answers of ", bytes,
                      " bytes waited to be read by this call; all calls together may have at most ", max_bytes_,
                      " (grpc.max_unread_answer_bytes)");
}

void AnswerBudget::Account::Add(uint64_t bytes) {
  std::vector<std::pair<grpc_call*, uint64_t>> ended;
  {
    const MutexLock lock(&budget_->mutex_);
    if (closed_) return;
    budget_->ListAccount(*this);
    bytes_ += bytes;
    budget_->bytes_ += bytes;
    while (budget_->max_bytes_ != 0 && budget_->bytes_ > budget_->max_bytes_) {
      Account& largest = budget_->LargestAccount();
      // When the mutex is released, this call may end. So take a reference first.
      grpc_call* const call = largest.context_->c_call();
      ended.emplace_back(call, largest.bytes_);
      grpc_call_ref(call);
      largest.ended_bytes_.store(std::max<uint64_t>(largest.bytes_, 1), std::memory_order_release);
      budget_->CloseAccount(largest);
    }
    if (budget_->metrics_ != nullptr) budget_->metrics_->SetUnreadAnswerBytes(budget_->bytes_);
  }
  for (const auto& [call, call_bytes] : ended) {
    if (budget_->metrics_ != nullptr) budget_->metrics_->CountUnreadAnswersEnded();
    grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, budget_->MessageFor(call_bytes).c_str(),
                                 nullptr);
    grpc_call_unref(call);
  }
}

absl::Status AnswerBudget::Account::ended() const {
  const uint64_t bytes = ended_bytes_.load(std::memory_order_acquire);
  return bytes == 0 ? absl::OkStatus() : absl::ResourceExhaustedError(budget_->MessageFor(bytes));
}

void AnswerBudget::Account::Remove(uint64_t bytes) {
  const MutexLock lock(&budget_->mutex_);
  bytes = std::min(bytes, bytes_);
  bytes_ -= bytes;
  budget_->bytes_ -= bytes;
  if (budget_->metrics_ != nullptr) budget_->metrics_->SetUnreadAnswerBytes(budget_->bytes_);
}

void AnswerBudget::Account::Close() {
  const MutexLock lock(&budget_->mutex_);
  budget_->CloseAccount(*this);
  if (budget_->metrics_ != nullptr) budget_->metrics_->SetUnreadAnswerBytes(budget_->bytes_);
}

}  // namespace maxsim::rpc
