// What a write is as a message of a stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collection/log/collection_log.h"
#include "collection/slots.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// Says which messages concern a collection.
struct MessageRules {
  collection::LogFormat format;
  collection::SlotRange slots;  // of the collection's partition
};

// Returns the slot of the document's id.
int32_t SlotOf(const store::Write& write, collection::IdType id_type);

// Returns the message of a write: a byte 1, the version of this form; the checksum of what follows (XXH3 of 64 bits);
// the hash (XXH3 of 64 bits) of the format in words, Describe(LogFormat); the write as the log has it
// (AppendRecordValue). Numbers are little-endian.
std::string EncodeMessage(const store::Write& write, const collection::LogFormat& format);

// Returns the write of a message, or one of kind kSkipped: kOtherPartition for a document of other slots, kUnreadable
// for what EncodeMessage of the format did not make, of which `problem` says why. The result depends on the message and
// the rules alone, so that all replicas agree.
store::Write DecodeMessage(uint64_t sequence, std::string_view message, const MessageRules& rules,
                           std::string* problem);

}  // namespace maxsim::live
