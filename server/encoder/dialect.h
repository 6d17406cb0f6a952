// How encoders are spoken to over HTTP: where a request goes, its body, and what an error says. Pure.
//
//   vllm    POST /pooling        {"model", "task": "token_embed", "input": [...]}
//           {"data": [{"index": I, "data": [[...], ...]}, ...]}
//   openai  POST /v1/embeddings  {"model", "input": [...], "encoding_format": "float", "input_type", "is_query"}
//           {"data": [{"index": I, "embedding": [[...], ...]}, ...]}, as PyLate's server answers
//   tei     POST /embed_all      {"inputs": [...], "truncate": true, "prompt_name"}
//           [[[...], ...], ...]
//   maxsim  POST /encode         {"kind": "query"|"document", "texts": [...], "max_tokens": N, "pieces": true}
//           safetensors: "tokens" F16, BF16 or F32 [total, dim], "lengths" I32 or I64 [texts], metadata "model",
//           "fingerprint" and, for queries, "pieces", a JSON list of each text's tokens as texts; GET /info gives its
//           identity (collection/encoder_identity.h)
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

// Returns the body of a call. `prefix` stands before each text; `texts` are UTF-8. `prompt_name` is for the dialect
// `tei`;
// "": none is sent. `max_tokens` 0: no bound is sent.
std::string FormatCall(Dialect dialect, const std::string& model, TextKind kind, std::string_view prefix,
                       std::string_view prompt_name, const std::vector<std::string_view>& texts, int32_t max_tokens);

// Returns the text with `secret` and whatever follows "Bearer" replaced by "***". An encoder, or a proxy in front of
// it, may quote the request in an answer. `secret` may be empty.
std::string WithoutSecrets(std::string_view text, std::string_view secret);

// Returns what the body of an error says, in printable UTF-8 of at most kMaxSaidBytes and without secrets, for the log:
// the message where the body is JSON as one of these services writes it, else the body.
inline constexpr size_t kMaxSaidBytes = 512;
std::string SaidInError(std::string_view body, std::string_view secret);

}  // namespace maxsim::encoder
