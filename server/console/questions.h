// Reads recorded questions: texts with the token vectors that an encoder once made of them, so that the console of a
// server without an encoder has something to ask. JSON Lines, one question a line:
//
//   {"text": "...", "tokens": ["...", ...], "query": {"dtype": "f16", "shape": [n, d], "data": BASE64}}
//
// "query" is what /v1/rerank takes; "tokens", which may be left out, names its n vectors; other members do not count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::console {

inline constexpr int64_t kMaxQuestionsBytes = int64_t{16} << 20;

// Returns {"questions": [...]}. INVALID_ARGUMENT, naming the line and the member, for what is no such question. Lines
// without text are passed over.
absl::StatusOr<std::string> QuestionsJson(std::string_view lines);

// Reads the file at `path`, at most kMaxQuestionsBytes of it, and converts it. Errors name the path.
absl::StatusOr<std::string> ReadQuestions(const std::string& path);

}  // namespace maxsim::console
