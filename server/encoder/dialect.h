// The HTTP dialects of encoders: the path and body of a request, and the message of an error. Pure.
//
//   vllm    POST /pooling        {"model", "task": "token_embed", "input": [...], "truncate_prompt_tokens": N}
//           {"data": [{"index": I, "data": [[...], ...]}, ...]}
//   openai  POST /v1/embeddings  {"model", "input": [...], "encoding_format": "float", "input_type", "is_query"}
//           {"data": [{"index": I, "embedding": [[...], ...]}, ...]}, as PyLate's server answers
//   tei     POST /embed_all      {"inputs": [...], "truncate": true, "prompt_name"}
//           [[[...], ...], ...]
//   maxsim  POST /encode         {"kind": "query"|"document", "texts": [...], "max_tokens": N, "pieces": true}
//           safetensors: "tokens" F16, BF16 or F32 [total, dim], "lengths" I32 or I64 [texts], metadata "model",
//           "fingerprint", "truncated", a JSON list of the indices of texts whose ends were cut, and, for queries,
//           "pieces", a JSON list of each text's tokens as texts; GET /info gives its identity
//           (collection/encoder_identity.h)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/encoder/encoder.h"

namespace maxsim::encoder {

enum class Dialect { kVllm, kOpenAi, kTei, kMaxsim };

std::string_view Name(Dialect dialect);
std::optional<Dialect> DialectFromName(std::string_view name);

// The path of the URL that follows the encoder's base path.
std::string_view EncodePath(Dialect dialect);

// Returns the body of a call. `prefix` is put before each text; `texts` must be UTF-8. `prompt_name` is for the dialect
// `tei`; if it is "", none is sent. If `max_tokens` is 0, no limit is sent.
std::string FormatCall(Dialect dialect, const std::string& model, TextKind kind, std::string_view prefix,
                       std::string_view prompt_name, const std::vector<std::string_view>& texts, int32_t max_tokens);

// Returns the text with `secret`, and any word after "Bearer", replaced by "***". An encoder, or a proxy in front of
// it, may quote the request in its answer. `secret` may be empty.
std::string WithoutSecrets(std::string_view text, std::string_view secret);

// SaidInError returns the message of an error's body for the log: printable UTF-8 of at most kMaxSaidBytes, without
// secrets. If the body is not JSON in a form that one of these services writes, the body itself is the message.
inline constexpr size_t kMaxSaidBytes = 512;
std::string SaidInError(std::string_view body, std::string_view secret);

}  // namespace maxsim::encoder
