#include "server/encoder/dialect.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace maxsim::encoder {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<Dialect, std::string_view>, 4> kNames = {
    {{Dialect::kVllm, "vllm"}, {Dialect::kOpenAi, "openai"}, {Dialect::kTei, "tei"}, {Dialect::kMaxsim, "maxsim"}}};

// Length of the mark that Printable appends to a text that it has cut.
constexpr size_t kMoreBytes = 3;

// Bodies of errors that are longer than this are not parsed.
constexpr size_t kMaxErrorBytes = size_t{64} << 10;

// The text that replaces a secret.
constexpr std::string_view kCut = "***";

// Returns the member of that name if it is a string, else "".
std::string TextMember(const json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string() ? member->get<std::string>() : std::string();
}

std::string MessageIn(const json& body) {
  if (!body.is_object()) return {};
  // The form of vLLM and OpenAI: {"error": {"message": "..."}}.
  if (const auto error = body.find("error"); error != body.end() && error->is_object()) {
    if (std::string text = TextMember(*error, "message"); !text.empty()) return text;
  }
  // TEI writes {"error": "..."}, older vLLM {"message": "..."}, and FastAPI {"detail": "..."}.
  for (const char* name : {"error", "message", "detail"}) {
    if (std::string text = TextMember(body, name); !text.empty()) return text;
  }
  // The form of FastAPI's validation: {"detail": [{"msg": "..."}, ...]}.
  if (const auto detail = body.find("detail"); detail != body.end() && detail->is_array() && !detail->empty()) {
    if (detail->front().is_object()) return TextMember(detail->front(), "msg");
  }
  return {};
}

}  // namespace

std::string_view Name(Dialect dialect) {
  for (const auto& [known, name] : kNames) {
    if (known == dialect) return name;
  }
  return "";
}

std::optional<Dialect> DialectFromName(std::string_view name) {
  for (const auto& [dialect, known] : kNames) {
    if (known == name) return dialect;
  }
  return std::nullopt;
}

std::string_view EncodePath(Dialect dialect) {
  switch (dialect) {
    case Dialect::kVllm:
      return "/pooling";
    case Dialect::kOpenAi:
      return "/v1/embeddings";
    case Dialect::kTei:
      return "/embed_all";
    case Dialect::kMaxsim:
      return "/encode";
  }
  return "";
}

std::string FormatCall(Dialect dialect, const std::string& model, TextKind kind, std::string_view prefix,
                       std::string_view prompt_name, const std::vector<std::string_view>& texts, int32_t max_tokens) {
  const bool is_query = kind == TextKind::kQuery;
  json list = json::array();
  for (const std::string_view text : texts) list.push_back(Cat(prefix, text));
  json body;
  if (!model.empty() && (dialect == Dialect::kVllm || dialect == Dialect::kOpenAi)) body["model"] = model;
  switch (dialect) {
    case Dialect::kVllm:
      body["task"] = "token_embed";
      if (max_tokens > 0) body["truncate_prompt_tokens"] = max_tokens;
      body["input"] = std::move(list);
      break;
    case Dialect::kOpenAi:
      body["encoding_format"] = "float";
      // Set both input_type and PyLate's is_query, because an encoder that treats queries and documents differently
      // knows only one of these.
      body["input_type"] = is_query ? "query" : "document";
      body["is_query"] = is_query;
      body["input"] = std::move(list);
      break;
    case Dialect::kTei:
      body["truncate"] = true;
      if (!prompt_name.empty()) body["prompt_name"] = std::string(prompt_name);
      body["inputs"] = std::move(list);
      break;
    case Dialect::kMaxsim:
      body["kind"] = is_query ? "query" : "document";
      if (max_tokens > 0) body["max_tokens"] = max_tokens;
      if (is_query) body["pieces"] = true;  // the tokens' texts, which alignments show
      body["texts"] = std::move(list);
      break;
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string WithoutSecrets(std::string_view text, std::string_view secret) {
  constexpr std::string_view kScheme = "bearer";
  constexpr std::string_view kEnds = " \t\r\n\"'<>";
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    if (!secret.empty() && text.substr(at).starts_with(secret)) {
      clean += kCut;
      at += secret.size();
      continue;
    }
    if (absl::EqualsIgnoreCase(ForStrCat(text.substr(at, kScheme.size())), ForStrCat(kScheme))) {
      const size_t begin = text.find_first_not_of(" \t", at + kScheme.size());
      if (begin != text.npos && begin > at + kScheme.size()) {
        clean.append(text.substr(at, begin - at)).append(kCut);
        at = std::min(text.find_first_of(kEnds, begin), text.size());
        continue;
      }
    }
    clean += text[at++];
  }
  return clean;
}

std::string SaidInError(std::string_view body, std::string_view secret) {
  std::string message;
  if (body.size() <= kMaxErrorBytes) {
    const json parsed = json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_discarded()) message = MessageIn(parsed);
  }
  if (message.empty()) {
    // JSON may escape the slashes of a secret as "\\/".
    message = absl::StrReplaceAll(ForStrCat(body.substr(0, kMaxErrorBytes)), {{"\\/", "/"}});
    // The body may have been cut within the secret. So remove a beginning of the secret from the end of the message.
    const bool is_cut = body.size() > kMaxErrorBytes;
    for (size_t size = is_cut ? std::min(secret.size(), message.size()) : 0; size > 0; --size) {
      if (!std::string_view(message).ends_with(secret.substr(0, size))) continue;
      message.resize(message.size() - size);
      break;
    }
  }
  message = WithoutSecrets(message, secret);
  absl::StripAsciiWhitespace(&message);
  return Printable(message, kMaxSaidBytes - kMoreBytes);
}

}  // namespace maxsim::encoder
