// Parses one line of a JSON Lines file of documents: {"id": "doc-1", "title": "...", ...}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Lines longer than this are refused.
inline constexpr int64_t kMaxLineBytes = int64_t{4} << 20;

// Maximum nesting depth of arrays and objects in a line, counting the outermost object.
inline constexpr int kMaxPayloadDepth = 64;

struct DocumentLine {
  IdType id_type = IdType::kString;
  std::string string_id;
  int64_t int_id = 0;
  // The payload: the JSON object without the member "id" and without white space outside of strings. "" if "id" is the
  // only member.
  std::string payload;
};

// Parses a line: a JSON object in UTF-8 with a top-level "id" (a string or a 64-bit integer), no repeated top-level
// key, and a payload of at most kMaxPayloadBytes. Returns INVALID_ARGUMENT, with the reason, for any other line. The
// caller must check the id's length and that it is unique.
absl::StatusOr<DocumentLine> ParseDocumentLine(std::string_view line);

// Returns the well-formed JSON object `json` without the top-level members whose indices are in `omitted`, and without
// white space outside of strings. Numbers and strings keep their spelling.
std::string CompactObject(std::string_view json, const std::vector<size_t>& omitted);

// Checks that `payload` is a JSON object in UTF-8, nested at most kMaxPayloadDepth levels.
absl::Status CheckPayload(std::string_view payload);

// Checks a new payload: like CheckPayload, but also refuses repeated top-level keys. Use CheckPayload for payloads that
// are already stored, because earlier versions stored repeated keys.
absl::Status CheckNewPayload(std::string_view payload);

}  // namespace maxsim::collection
