// Decodes the messages of the stream, and counts them by outcome.
#include <array>

#include "server/live/stream/streamed_collection.h"
#include "server/observability/live_metrics.h"
#include "server/observability/log_event.h"
#include "server/observability/metrics.h"

namespace maxsim::live {
namespace {

using collection::LogRecord;

StreamOutcome StreamOutcomeOf(collection::SkipReason reason) {
  switch (reason) {
    case collection::SkipReason::kOtherPartition:
      return StreamOutcome::kOtherPartition;
    case collection::SkipReason::kStale:
      return StreamOutcome::kStale;
    case collection::SkipReason::kNotFound:
      return StreamOutcome::kNotFound;
    case collection::SkipReason::kUnreadable:
      break;
  }
  return StreamOutcome::kUnreadable;
}

StreamOutcome StreamOutcomeOf(store::WriteResult::Outcome outcome) {
  switch (outcome) {
    case store::WriteResult::Outcome::kApplied:
      return StreamOutcome::kApplied;
    case store::WriteResult::Outcome::kStale:
      return StreamOutcome::kStale;
    case store::WriteResult::Outcome::kNotFound:
      break;
  }
  return StreamOutcome::kNotFound;
}

}  // namespace

// Decodes messages. Adds one outcome per message to `outcomes`: for a skipped message the reason, and kApplied for a
// message that the collection is still to accept or refuse.
std::vector<store::Write> StreamedCollection::Decode(absl::Span<const StreamMessage> messages,
                                                     std::vector<StreamOutcome>* outcomes) const {
  std::vector<store::Write> writes;
  writes.reserve(messages.size());
  for (const StreamMessage& message : messages) {
    std::string problem;
    store::Write& write = writes.emplace_back(DecodeMessage(message.sequence, message.data, rules_, &problem));
    const bool is_skipped = write.kind == LogRecord::Kind::kSkipped;
    if (message.is_late && !is_skipped) {
      write = store::Write();
      write.kind = LogRecord::Kind::kSkipped;
      write.skip_reason = collection::SkipReason::kStale;
      outcomes->push_back(StreamOutcome::kLate);
      continue;
    }
    outcomes->push_back(is_skipped ? StreamOutcomeOf(write.skip_reason) : StreamOutcome::kApplied);
    if (problem.empty()) continue;
    log::Write(spdlog::level::warn, "message_skipped",
               {{"name", name_}, {"sequence", message.sequence}, {"error", problem}});
  }
  return writes;
}

void StreamedCollection::CountMessages(absl::Span<const StreamOutcome> decoded, const store::WriteResults& results) {
  if (metrics_ == nullptr) return;
  std::array<uint64_t, kNumStreamOutcomes> counts{};
  for (size_t idx = 0; idx < results.results.size(); ++idx) {
    const StreamOutcome outcome =
        decoded[idx] == StreamOutcome::kApplied ? StreamOutcomeOf(results.results[idx].outcome) : decoded[idx];
    ++counts[static_cast<size_t>(outcome)];
  }
  metrics_->live().CountMessages(name_, counts);
}

}  // namespace maxsim::live
