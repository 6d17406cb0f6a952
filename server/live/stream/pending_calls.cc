#include "server/live/stream/pending_calls.h"

#include <charconv>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace maxsim::live {
namespace {

std::string DocumentKey(const PendingCall& call, size_t idx) {
  const store::Write& write = call.call.writes[idx];
  if (!write.string_id.empty()) return write.string_id;
  return {reinterpret_cast<const char*>(&write.int_id), sizeof(write.int_id)};
}

}  // namespace

PendingCalls::PendingCalls(std::string nonce) : nonce_(std::move(nonce)) {}

PendingCall* PendingCalls::Add(std::unique_ptr<PendingCall> call) {
  call->first_number = next_number_;
  next_number_ += call->writes.size();
  PendingCall* const added = call.get();
  calls_.emplace_hint(calls_.end(), call->first_number, std::move(call));
  return added;
}

std::unique_ptr<PendingCall> PendingCalls::Take(const PendingCall& call) {
  auto node = calls_.extract(call.first_number);
  std::unique_ptr<PendingCall> taken = std::move(node.mapped());
  for (size_t idx = 0; idx < taken->num_sent; ++idx) {
    if (taken->writes[idx].sequence != 0) continue;
    bytes_in_flight_ -= taken->writes[idx].data->size();
    ids_in_flight_.erase(DocumentKey(*taken, idx));
  }
  return taken;
}

PendingCall* PendingCalls::FindUnsent() {
  const auto next = calls_.upper_bound(next_to_send_);
  if (next != calls_.begin()) {
    PendingCall& before = *std::prev(next)->second;
    if (before.num_sent < before.writes.size()) return &before;
  }
  return next == calls_.end() ? nullptr : next->second.get();
}

bool PendingCalls::HasUnansweredBefore(const PendingCall& call, size_t idx) const {
  return ids_in_flight_.find(DocumentKey(call, idx)) != ids_in_flight_.end();
}

void PendingCalls::Visit(const std::function<bool(PendingCall&)>& visit) {
  for (auto& [number, call] : calls_) {
    if (!visit(*call)) return;
  }
}

std::string PendingCalls::IdOf(uint64_t number) const { return Cat(nonce_, "-", number); }

std::optional<PendingCalls::Found> PendingCalls::Find(std::string_view id) {
  if (id.size() <= nonce_.size() + 1 || id.substr(0, nonce_.size()) != nonce_ || id[nonce_.size()] != '-') {
    return std::nullopt;
  }
  const std::string_view digits = id.substr(nonce_.size() + 1);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  auto next = calls_.upper_bound(number);
  if (next == calls_.begin()) return std::nullopt;
  PendingCall& call = *std::prev(next)->second;
  const uint64_t idx = number - call.first_number;
  if (idx >= call.writes.size()) return std::nullopt;
  return Found{&call, static_cast<size_t>(idx)};
}

void PendingCalls::NoteSent(PendingCall& call, size_t idx, absl::Time now) {
  PendingWrite& write = call.writes[idx];
  if (call.num_sent == 0) call.first_sent = now;
  if (idx >= call.num_sent) {
    ids_in_flight_.insert(DocumentKey(call, idx));
    call.num_sent = idx + 1;
    next_to_send_ = call.first_number + call.num_sent;
    bytes_in_flight_ += write.data->size();
  }
  write.sent = now;
}

void PendingCalls::NoteInStream(const Found& found, uint64_t sequence, absl::Time now) {
  PendingCall& call = *found.call;
  PendingWrite& write = call.writes[found.idx];
  if (write.sequence != 0) return;
  write.sequence = sequence;
  if (found.idx < call.num_sent) {
    bytes_in_flight_ -= write.data->size();
    ids_in_flight_.erase(DocumentKey(call, found.idx));
  }
  write.data = nullptr;
  if (++call.num_in_stream == call.writes.size()) call.durable = now;
}

bool PendingCalls::NoteApplied(const Found& found, const store::WriteResult& result, uint64_t sequence,
                               absl::Time now) {
  PendingCall& call = *found.call;
  PendingWrite& write = call.writes[found.idx];
  if (write.is_applied) return false;
  write.is_applied = true;
  write.result = result;
  // A message that came back is in the stream, even if its acknowledgement did not arrive.
  NoteInStream(found, sequence, now);
  return ++call.num_applied == call.writes.size();
}

std::optional<size_t> FindUnanswered(const PendingCall& call, absl::Time before) {
  for (size_t idx = 0; idx < call.num_sent; ++idx) {
    if (call.writes[idx].sequence == 0 && call.writes[idx].sent < before) return idx;
  }
  return std::nullopt;
}

}  // namespace maxsim::live
