// Parses one line of the documents that `maxsimctl upsert --documents` writes:
//   {"id": "a", "tokens": [[0.1, ...], ...], "payload": {"title": "A"}, "version": 3}
//   {"id": "b", "text": "how do birds fly"}
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"

namespace maxsim::ctl {

// Lines longer than this are refused.
inline constexpr size_t kMaxUpsertLineBytes = size_t{16} << 20;

// Returns the document of a JSON object in UTF-8: "id", a string or a 64-bit integer, which must be of the collection's
// type; "tokens", rows of finite numbers, all equally long, or "text"; and it may have "payload", an object that is
// kept as it is written, and "version", an integer of 1 or more; a member that is null is none. INVALID_ARGUMENT names
// the member that is wrong.
absl::StatusOr<v1::Document> ParseUpsertLine(std::string_view line, v1::IdType id_type);

}  // namespace maxsim::ctl
