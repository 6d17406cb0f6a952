#include "server/config/encoder_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "collection/encoder_identity.h"
#include "server/config/key_kinds.h"
#include "server/encoder/http_options.h"

namespace maxsim::config {
namespace {

using namespace key_kinds;

Key UrlKey(std::string name, Field<std::string> field, std::string help) {
  Key key = Text(std::move(name), "URL", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (!text.empty()) {
      if (const auto url = encoder::ParseEncoderUrl(text); !url.ok()) return url.status();
    }
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

// Makes a key for a text that determines the encoder's vectors, such as a prefix or a model name: UTF-8 of limited
// length.
Key EncoderText(std::string name, Field<std::string> field, std::string help) {
  Key key = Text(std::move(name), "text", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (text.size() > collection::kMaxEncoderTextBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a text of ", text.size(), " bytes is more than the limit ", collection::kMaxEncoderTextBytes));
    }
    if (!IsUtf8(text)) return absl::InvalidArgumentError("is not UTF-8");
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

void AddEncoderCallKeys(std::vector<Key>& keys) {
  using encoder::Dialect;
  keys.push_back(UrlKey(
      "encoder.url", +[](Config& c) -> std::string& { return c.encoder.http.url; },
      "Where texts are encoded, http://host:port[/path] or https://; empty: the server takes no texts."));
  keys.push_back(Choice<Dialect>(
      "encoder.dialect", {"maxsim", "vllm", "openai", "tei"},
      {Dialect::kMaxsim, Dialect::kVllm, Dialect::kOpenAi, Dialect::kTei},
      +[](Config& c) -> Dialect& { return c.encoder.http.dialect; },
      "How the encoder is asked: POST /encode, /pooling, /v1/embeddings or /embed_all."));
  keys.push_back(Duration(
      "encoder.timeout", +[](Config& c) -> absl::Duration& { return c.encoder.http.timeout; }, absl::Hours(1),
      "Time of one call to the encoder, from connecting to its last byte."));
  keys.push_back(Duration(
      "encoder.window", +[](Config& c) -> absl::Duration& { return c.encoder.http.window; }, absl::Seconds(1),
      "How long a text waits for texts of other requests to go into one call; 0 never waits."));
  keys.push_back(Count(
      "encoder.max_batch_texts", +[](Config& c) -> int& { return c.encoder.http.max_batch_texts; }, 1, 4096,
      "Texts of one call; longer requests are cut into several."));
  keys.push_back(Count(
      "encoder.connections", +[](Config& c) -> int& { return c.encoder.http.connections; }, 1, 1024,
      "Connections to the encoder, and so calls at a time."));
  keys.push_back(Count(
      "encoder.queue_texts", +[](Config& c) -> int64_t& { return c.encoder.http.queue_texts; }, 1, 10'000'000,
      "Texts that may wait for a call; a request beyond it gets RESOURCE_EXHAUSTED."));
  keys.push_back(Bytes(
      "encoder.queue_bytes", +[](Config& c) -> uint64_t& { return c.encoder.http.queue_bytes; }, kKi, 64 * kGi,
      "Texts that have no answer yet, in bytes; a request beyond it gets RESOURCE_EXHAUSTED."));
  keys.push_back(Bytes(
      "encoder.max_answer_bytes", +[](Config& c) -> uint64_t& { return c.encoder.http.max_answer_bytes; }, kKi,
      16 * kGi, "One answer of the encoder; a longer one is not read."));
  keys.push_back(Count(
      "encoder.breaker_failures", +[](Config& c) -> int& { return c.encoder.http.breaker_failures; }, 0, 1'000'000,
      "Failed calls in a row after which the encoder is not called for breaker_cooldown; 0 always calls it."));
  keys.push_back(Duration(
      "encoder.breaker_cooldown", +[](Config& c) -> absl::Duration& { return c.encoder.http.breaker_cooldown; },
      absl::Hours(1), "Time after which one call tries an encoder that has failed."));
  keys.push_back(Bytes(
      "encoder.cache_bytes", +[](Config& c) -> uint64_t& { return c.encoder.cache_bytes; }, 0, kHuge,
      "Memory for the token vectors of query texts that are asked again; 0 keeps none."));
}

void AddEncoderIdentityKeys(std::vector<Key>& keys) {
  keys.push_back(EncoderText(
      "encoder.model", +[](Config& c) -> std::string& { return c.encoder.http.identity.model; },
      "Name of the model, which calls carry and collections are compared with; empty: what the encoder says of "
      "itself."));
  keys.push_back(EncoderText(
      "encoder.fingerprint", +[](Config& c) -> std::string& { return c.encoder.http.identity.fingerprint; },
      "What tells two versions of the model apart; empty: what the encoder says of itself."));
  keys.push_back(Count(
      "encoder.dim", +[](Config& c) -> int32_t& { return c.encoder.http.identity.dim; }, 0, 4096,
      "Width of its token vectors; 0 takes that of its first answer."));
  keys.push_back(EncoderText(
      "encoder.query_prefix", +[](Config& c) -> std::string& { return c.encoder.http.identity.query_prefix; },
      "Text before each query; the dialect maxsim adds its own."));
  keys.push_back(EncoderText(
      "encoder.document_prefix", +[](Config& c) -> std::string& { return c.encoder.http.identity.document_prefix; },
      "Text before each document; the dialect maxsim adds its own."));
  keys.push_back(EncoderText(
      "encoder.query_prompt_name", +[](Config& c) -> std::string& { return c.encoder.http.query_prompt_name; },
      "Name of the model's prompt for queries, which the dialect tei sends; empty: none."));
  keys.push_back(EncoderText(
      "encoder.document_prompt_name", +[](Config& c) -> std::string& { return c.encoder.http.document_prompt_name; },
      "Name of the model's prompt for documents, which the dialect tei sends; empty: none."));
  keys.push_back(Count(
      "encoder.max_query_tokens", +[](Config& c) -> int32_t& { return c.encoder.http.max_query_tokens; }, 1, 4096,
      "Token vectors of one query; a text that gives more is refused."));
  keys.push_back(Count(
      "encoder.max_document_tokens", +[](Config& c) -> int32_t& { return c.encoder.http.max_document_tokens; }, 1,
      65536, "Token vectors of one document; a text that gives more is refused."));
  keys.push_back(Text(
      "encoder.token_file", "path", +[](Config& c) -> std::string& { return c.encoder.http.token_file; },
      "File with the bearer token that calls to the encoder carry; empty: none."));
  keys.push_back(Text(
      "encoder.tls_ca_file", "path", +[](Config& c) -> std::string& { return c.encoder.http.tls_ca_file; },
      "Authorities of the encoder's certificate, PEM; empty: the system's."));
  keys.push_back(Text(
      "encoder.tls_cert_file", "path", +[](Config& c) -> std::string& { return c.encoder.http.tls_cert_file; },
      "Certificate chain that is shown to the encoder, PEM; empty: none."));
  keys.push_back(Text(
      "encoder.tls_key_file", "path", +[](Config& c) -> std::string& { return c.encoder.http.tls_key_file; },
      "Private key of encoder.tls_cert_file, PEM."));
  keys.push_back(Text(
      "encoder.tls_server_name", "name", +[](Config& c) -> std::string& { return c.encoder.http.tls_server_name; },
      "Name that the encoder's certificate must have; empty: the host of encoder.url."));
}

}  // namespace

void AddEncoderKeys(std::vector<Key>& keys) {
  AddEncoderCallKeys(keys);
  AddEncoderIdentityKeys(keys);
}

}  // namespace maxsim::config
