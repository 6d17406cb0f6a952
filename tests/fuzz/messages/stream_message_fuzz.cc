// Fuzzes what servers read from NATS: messages of a stream, raw and with a valid head; JetStream's answers to published
// messages; and whole messages of the NATS library with subjects and headers. The first byte chooses the kind of input
// and the collection.
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/live/stream/nats_library.h"
#include "server/live/stream/stream_message.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using Kind = collection::LogRecord::Kind;

void AppendHash(std::string_view bytes, std::string& message) {
  const uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  message.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
}

// Returns a message with a valid head and these bytes as its record.
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
  Require(live::EncodeMessage(write, rules) == message, "what is read is what was written");
}

void CheckAnswer(std::string_view data) {
  const absl::StatusOr<uint64_t> sequence = live::nats::ParseAcknowledgement(data, "NATS");
  Require(!sequence.ok() || *sequence > 0, "a sequence begins with 1");
  Require(sequence.ok() || IsUtf8(std::string(sequence.status().message())), "a message is text");
}

// Removes the input's bytes up to the first NUL byte, and returns them without the NUL. (A header cannot contain NUL.)
std::string TakeField(std::string& input) {
  const size_t end = std::min(input.find('\0'), input.size());
  std::string field = input.substr(0, end);
  input.erase(0, end + 1);
  return field;
}

// Returns a message as the NATS library delivers it. The input has the subject, the reply subject, four headers, and
// the data. Returns null if the library refuses to make the message.
live::nats::Message MakeMessage(std::string input, std::string* reply, std::string* id, std::string* data) {
  const std::string subject = TakeField(input);
  *reply = TakeField(input);
  std::vector<std::pair<const char*, std::string>> headers;
  for (const char* key : {"Status", "Nats-Consumer-Stalled", "Nats-Last-Consumer", live::nats::kIdHeader}) {
    headers.emplace_back(key, TakeField(input));
  }
  *id = headers.back().second;
  *data = input;
  natsMsg* made = nullptr;
  const char* const answer_to = reply->empty() ? nullptr : reply->c_str();
  if (natsMsg_Create(&made, subject.c_str(), answer_to, input.data(), static_cast<int>(input.size())) != NATS_OK) {
    return nullptr;
  }
  live::nats::Message message(made);
  for (const auto& [key, value] : headers) {
    if (!value.empty() && natsMsgHeader_Set(made, key, value.c_str()) != NATS_OK) return nullptr;
  }
  return message;
}

void CheckArrival(const std::string& input) {
  // Starts the thread on which the library frees messages.
  static const natsStatus opened = nats_Open(-1);
  Require(opened == NATS_OK, "the library opens");
  std::string reply;
  std::string id;
  std::string data;
  const live::nats::Message message = MakeMessage(input, &reply, &id, &data);
  if (message == nullptr) return;
  const live::nats::Arrival arrival = live::nats::ReadArrival(message.get());
  if (arrival.kind == live::nats::Arrival::Kind::kMessage) {
    const std::optional<live::nats::Delivery> delivery = live::nats::ParseDelivery(reply);
    Require(delivery.has_value(), "a message of the stream says where it stands");
    Require(arrival.message.sequence == delivery->sequence && arrival.last_sequence >= delivery->sequence,
            "no message comes after the stream's last one");
    Require(arrival.message.data == data && arrival.message.id == id, "data and id are as they came");
  }
  const auto prefix_bytes = static_cast<size_t>(input.size() % 8);
  live::nats::Acknowledgements to;
  to.prefix_bytes = prefix_bytes;
  int num_told = 0;
  to.listener = [&](std::string_view of, const absl::StatusOr<uint64_t>& sequence) {
    ++num_told;
    Require(!of.empty() && input.substr(prefix_bytes, of.size()) == of, "the id is the end of the subject");
    Require(!sequence.ok() || *sequence > 0, "a sequence begins with 1");
  };
  live::nats::TakeAnswer(message.get(), to);
  Require(num_told <= 1, "one message is one answer");
}

void FuzzStreamMessage(std::string_view input) {
  if (input.empty()) return;
  const auto how = static_cast<unsigned char>(input[0]);
  const std::string bytes(input.substr(1));
  if ((how & 16) != 0) return CheckArrival(bytes);
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
