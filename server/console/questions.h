// Reads recorded questions: texts with the token vectors that an encoder once made of them, for the console of a server
// without an encoder. The format is JSON Lines, one question per line:
//
//   {"text": "...", "tokens": ["...", ...], "query": {"dtype": "f16", "shape": [n, d], "data": BASE64}}
//
// "query" is as in /v1/rerank; "tokens" is optional and names its n vectors; other members are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::console {

inline constexpr int64_t kMaxQuestionsBytes = int64_t{16} << 20;

// Returns {"questions": [...]}. Skips blank lines. Returns INVALID_ARGUMENT, naming the line and the member, if a line
// does not have the form above.
absl::StatusOr<std::string> QuestionsJson(std::string_view lines);

// Reads the file at `path` and converts it. Returns INVALID_ARGUMENT if it is larger than kMaxQuestionsBytes. Errors
// name the path.
absl::StatusOr<std::string> ReadQuestions(const std::string& path);

}  // namespace maxsim::console
