// Parses one line of a JSON Lines file of documents: {"id": "doc-1", "title": "...", ...}. The parser is pure.
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
  // The payload: a JSON object with all members but "id", without white space between tokens, otherwise unchanged. ""
  // if there are no other members.
  std::string payload;
};

// Parses a line, which must be one JSON object in UTF-8 with a top-level "id" that is a string or a 64-bit integer, no
// repeated top-level key, and a payload of at most kMaxPayloadBytes. Otherwise returns INVALID_ARGUMENT with the
// reason. Does not check the id further.
absl::StatusOr<DocumentLine> ParseDocumentLine(std::string_view line);

// Returns the JSON object `json`, which must be well-formed, without the members whose indices are in `omitted`, and
// without white space between tokens. Does not change the spelling of numbers and strings.
std::string CompactObject(std::string_view json, const std::vector<size_t>& omitted);

// Checks that `payload` is a JSON object in UTF-8, nested at most kMaxPayloadDepth levels.
absl::Status CheckPayload(std::string_view payload);

// Checks a payload before it is stored: like CheckPayload, but also refuses repeated top-level keys. Earlier versions
// stored payloads with repeated keys, so use CheckPayload for stored payloads.
absl::Status CheckNewPayload(std::string_view payload);

}  // namespace maxsim::collection
