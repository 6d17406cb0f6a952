// Parses one line of the file that `maxsimctl upsert --documents` reads:
//   {"id": "a", "tokens": [[0.1, ...], ...], "payload": {"title": "A"}, "version": 3}
//   {"id": "b", "text": "how do birds fly"}
//   {"id": "c", "text": "how do fish swim", "title": "C", "year": 1999}
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"

namespace maxsim::ctl {

// Lines longer than this are refused.
inline constexpr size_t kMaxUpsertLineBytes = size_t{16} << 20;

// Returns the document in a JSON object in UTF-8. Its members: "id", a string or a 64-bit integer, which must be of the
// collection's type; "tokens", rows of finite numbers, all equally long, or "text"; optionally "payload", an object
// that is kept as written; optionally "version", an integer of 1 or more. A member that is null counts as absent.
//
// Without "payload", the payload is the one that `maxsim-shard build --ids` makes of the line: "text" and all members
// not named here. If "tokens" begins with a string, its elements are the texts of the tokens, and "tokens" belongs to
// the payload too.
//
// INVALID_ARGUMENT names the member that is wrong.
absl::StatusOr<v1::Document> ParseUpsertLine(std::string_view line, v1::IdType id_type);

}  // namespace maxsim::ctl
