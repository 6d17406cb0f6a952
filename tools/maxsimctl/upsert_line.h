// Parses one line of the documents that `maxsimctl upsert --documents` writes:
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

// Returns the document of a JSON object in UTF-8: "id", a string or a 64-bit integer, which must be of the collection's
// type; "tokens", rows of finite numbers, all equally long, or "text"; and it may have "payload", an object that is
// kept as it is written, and "version", an integer of 1 or more. One of these members that is null counts as absent.
// Without "payload" the payload is what `maxsim-shard build --ids` makes of the line: "text", and all members that are
// not named here. "tokens" that begin with a string are such a member, too: the text of each token. INVALID_ARGUMENT
// names the member that is wrong.
absl::StatusOr<v1::Document> ParseUpsertLine(std::string_view line, v1::IdType id_type);

}  // namespace maxsim::ctl
