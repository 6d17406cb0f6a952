// Fuzzes what comes from a stream: messages, as they are and with a head that is right, and what JetStream says of
// them. The first byte says which, and of which collection.
#include <xxhash.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/live/nats_library.h"
#include "server/live/stream_message.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using Kind = collection::LogRecord::Kind;

void AppendHash(std::string_view bytes, std::string& message) {
  const uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  message.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
}

// Returns a message of these bytes as the record.
std::string WithHead(std::string_view record, const collection::LogFormat& format) {
  std::string checked;
  AppendHash(Describe(format), checked);
  checked.append(record);
  std::string message(1, '\1');
  AppendHash(checked, message);
  return message + checked;
}

void CheckMessage(const std::string& message, const live::MessageRules& rules) {
  std::string problem;
  const store::Write write = live::DecodeMessage(5, message, rules, &problem);
  if (write.kind == Kind::kSkipped) {
    const bool is_foreign = write.skip_reason == collection::SkipReason::kOtherPartition;
    Require(is_foreign == problem.empty(), "what nobody can apply has a reason, and nothing else has");
    return;
  }
  Require(problem.empty(), "a write has no problem");
  Require(rules.slots.contains(live::SlotOf(write, rules.format.id_type)), "a write is of the collection's slots");
  Require(live::EncodeMessage(write, rules.format) == message, "what is read is what was written");
}

void CheckAnswer(std::string_view data) {
  const absl::StatusOr<uint64_t> sequence = live::nats::ParseAcknowledgement(data, "NATS");
  Require(!sequence.ok() || *sequence > 0, "a sequence begins with 1");
  Require(sequence.ok() || IsUtf8(std::string(sequence.status().message())), "a message is text");
}

void FuzzStreamMessage(std::string_view input) {
  if (input.empty()) return;
  const auto how = static_cast<unsigned char>(input[0]);
  const std::string bytes(input.substr(1));
  live::MessageRules rules;
  rules.format.id_type = (how & 4) != 0 ? collection::IdType::kInt64 : collection::IdType::kString;
  rules.format.dim = 8;
  if ((how & 8) != 0) rules.slots = {0, collection::kNumSlots / 2};
  switch (how & 3) {
    case 0:
      return CheckMessage(bytes, rules);
    case 1:
      return CheckMessage(WithHead(bytes, rules.format), rules);
    case 2:
      live::nats::ParseDelivery(bytes);
      return;
    default:
      return CheckAnswer(bytes);
  }
}

const Registration kStreamMessageTarget("stream_message", &FuzzStreamMessage);

}  // namespace
}  // namespace maxsim::fuzz
