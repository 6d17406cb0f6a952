#include "server/encoder/text_queue.h"

#include <algorithm>
#include <utility>

namespace maxsim::encoder {

void TextQueue::Add(std::shared_ptr<WaitingRequest> request, absl::Time now) {
  Line& line = lines_[IndexOf(request->request.kind)];
  if (line.num_texts == 0) line.since = now;
  const size_t count = request->request.texts.size();
  line.num_texts += count;
  num_texts_ += count;
  line.requests.push_back(std::move(request));
}

void TextQueue::Forget(const WaitingRequest& request) {
  const size_t left = request.request.texts.size() - request.num_sent;
  if (left == 0) return;
  Line& line = lines_[IndexOf(request.request.kind)];
  line.num_texts -= left;
  num_texts_ -= left;
  // Remove the request now and not in Take, so that ended requests do not pile up while no call can begin.
  std::erase_if(line.requests, [&](const auto& other) { return other.get() == &request; });
}

absl::Time TextQueue::ReadyAt(const Line& line) const {
  if (line.num_texts == 0) return absl::InfiniteFuture();
  return line.num_texts >= max_texts_ ? absl::InfinitePast() : line.since + window_;
}

absl::Time TextQueue::NextCall() const {
  if (!alone_.empty()) return absl::InfinitePast();
  return std::min(ReadyAt(lines_[0]), ReadyAt(lines_[1]));
}

std::vector<TextRange> TextQueue::Take(absl::Time now) {
  std::vector<TextRange> taken;
  while (taken.empty() && !alone_.empty()) {
    if (!alone_.front().request->is_over()) taken.push_back(std::move(alone_.front()));
    alone_.pop_front();
  }
  if (!taken.empty()) return taken;
  if (ReadyAt(lines_[next_line_]) > now) next_line_ = 1 - next_line_;
  Line& line = lines_[next_line_];
  if (ReadyAt(line) > now) return taken;
  next_line_ = 1 - next_line_;
  size_t room = max_texts_;
  std::deque<std::shared_ptr<WaitingRequest>> longer;
  while (room > 0 && !line.requests.empty()) {
    const std::shared_ptr<WaitingRequest> request = line.requests.front();
    if (!request->is_over()) {
      if (!taken.empty() && taken.front().request->request.max_tokens != request->request.max_tokens) break;
      const size_t begin = request->num_sent;
      const size_t count = std::min(room, request->request.texts.size() - begin);
      request->num_sent += count;
      room -= count;
      line.num_texts -= count;
      num_texts_ -= count;
      if (request->num_sent < request->request.texts.size()) longer.push_back(request);
      taken.push_back({request, begin, count});
    }
    line.requests.pop_front();
  }
  for (std::shared_ptr<WaitingRequest>& request : longer) line.requests.push_back(std::move(request));
  // The texts that remain do not wait for another window: they have waited for this one, or did not fit into this call.
  line.since = absl::InfinitePast();
  return taken;
}

}  // namespace maxsim::encoder
