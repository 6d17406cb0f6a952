// Encodes writes as messages of a stream, and decodes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collection/field.h"
#include "collection/log/collection_log.h"
#include "collection/slots.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// The first byte of the messages that EncodeMessage makes.
inline constexpr char kMessageVersion = 1;

// Says which messages concern a collection.
struct MessageRules {
  collection::LogFormat format;
  collection::SlotRange slots;  // of the collection's partition
  std::vector<collection::Field> fields = {};
};

// Returns the slot of the document's id.
int32_t SlotOf(const store::Write& write, collection::IdType id_type);

// Returns the message of a write. It consists of a byte 1 (the version of this form); the checksum of the bytes after
// it; a hash of the collection's format; and the write in the log's form (AppendRecordValue). The checksum and the hash
// are 64-bit XXH3. The hash is that of the text Describe(LogFormat), followed by ", fields " and FormatFields if the
// collection has fields. Numbers are little-endian.
std::string EncodeMessage(const store::Write& write, const MessageRules& rules);

// Returns the write of a message, or a write of kind kSkipped with one of two reasons: kOtherPartition if the
// document's slot is not in `rules`; kUnreadable if EncodeMessage cannot have made the message with this format and
// these fields. For kUnreadable, `problem` says why. The result only depends on the message and the rules, so all
// replicas agree.
store::Write DecodeMessage(uint64_t sequence, std::string_view message, const MessageRules& rules,
                           std::string* problem);

// Returns the version of a message that a later version of maxsimd has written, which must not be skipped. Its first
// byte is greater than that of EncodeMessage, and its checksum, which every version has in the same place, is right.
// Returns nullopt for all other messages.
std::optional<int> LaterVersionOf(std::string_view message);

}  // namespace maxsim::live
