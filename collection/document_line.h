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
  // The payload is a JSON object with every field but "id", as written but for the white space between tokens; "" if
  // "id" is alone.
  std::string payload;
};

// `line` is one JSON object in UTF-8 with a top-level "id" that is a string or a 64-bit integer, no key twice at the
// top level, and a payload of at most kMaxPayloadBytes. INVALID_ARGUMENT says what is wrong; ids are not checked
// further.
absl::StatusOr<DocumentLine> ParseDocumentLine(std::string_view line);

// Returns the well-formed JSON object `json` without the members whose numbers, counted from 0, are in `omitted`, and
// without white space between tokens. Numbers and strings keep their spelling.
std::string CompactObject(std::string_view json, const std::vector<size_t>& omitted);

// Checks that `payload` is a JSON object in UTF-8, nested at most kMaxPayloadDepth levels.
absl::Status CheckPayload(std::string_view payload);

// Checks a payload that is about to be stored: as CheckPayload, and no key may appear twice at the top level. Earlier
// versions stored such payloads, so that what is read back is checked by CheckPayload.
absl::Status CheckNewPayload(std::string_view payload);

}  // namespace maxsim::collection
