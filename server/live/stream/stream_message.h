// Encodes writes as messages of a stream, and decodes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collection/field.h"
#include "collection/log/collection_log.h"
#include "collection/slots.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// Says which messages concern a collection.
struct MessageRules {
  collection::LogFormat format;
  collection::SlotRange slots;  // of the collection's partition
  std::vector<collection::Field> fields = {};
};

// Returns the slot of the document's id.
int32_t SlotOf(const store::Write& write, collection::IdType id_type);

// Returns the message of a write: a byte 1, the version of this form; the checksum of what follows (XXH3 of 64 bits);
// the hash (XXH3 of 64 bits) of the format in words, Describe(LogFormat), where the collection has fields with ",
// fields " and their text (FormatFields) after it; the write as the log has it (AppendRecordValue). Numbers are
// little-endian.
std::string EncodeMessage(const store::Write& write, const MessageRules& rules);

// Returns the write of a message, or one of kind kSkipped: kOtherPartition for a document of other slots, kUnreadable
// for bytes that EncodeMessage with this format and these fields cannot have made; `problem` then says why. The result
// depends on the message and the rules alone, so that all replicas agree.
store::Write DecodeMessage(uint64_t sequence, std::string_view message, const MessageRules& rules,
                           std::string* problem);

}  // namespace maxsim::live
