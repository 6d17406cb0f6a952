// Where an encoder is, how it is spoken to, and how much it may be asked at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collection/encoder_identity.h"
#include "server/encoder/dialect.h"

namespace maxsim::encoder {

// "http://host[:port][/base]" or https, taken apart.
struct EncoderUrl {
  bool is_tls = false;
  std::string host;  // without brackets
  std::string port;  // a number
  std::string base;  // "" or "/...", without a slash at the end

  std::string HostHeader() const;
};

// INVALID_ARGUMENT with the value and what is accepted.
absl::StatusOr<EncoderUrl> ParseEncoderUrl(std::string_view text);

struct HttpEncoderOptions {
  std::string url;
  Dialect dialect = Dialect::kMaxsim;
  // What is known of the encoder. The dialect `maxsim` asks it for the rest, and what is here must agree with that. The
  // prefixes stand before each text, except in the dialect `maxsim`, where the encoder adds its own.
  collection::EncoderIdentity identity;
  // Names of prompts of the encoder's model, which the dialect `tei` sends with queries and with documents. "" sends
  // none.
  std::string query_prompt_name;
  std::string document_prompt_name;
  absl::Duration timeout = absl::Seconds(10);       // of one call, from connecting to the last byte
  absl::Duration window = absl::Milliseconds(2);    // for which a text waits for others that go into one call with it
  int max_batch_texts = 32;                         // of one call
  int connections = 4;                              // as many calls at a time
  int64_t queue_texts = 4096;                       // that wait for a call
  uint64_t queue_bytes = uint64_t{64} << 20;        // of all texts that have no answer yet
  uint64_t max_answer_bytes = uint64_t{256} << 20;  // of one call
  int breaker_failures = 5;                         // in a row, after which it is not called; 0: it always is
  absl::Duration breaker_cooldown = absl::Seconds(5);
  int32_t max_query_tokens = 4096;      // an answer with more for one query is an error
  int32_t max_document_tokens = 65536;  // an answer with more for one document is an error
  std::string token_file;               // holds a bearer token; "": none is sent
  std::string tls_ca_file;              // PEM; "": the system's authorities
  std::string tls_cert_file;            // PEM, of this server as a client; "": none
  std::string tls_key_file;
  std::string tls_server_name;  // that the encoder's certificate must have; "": the URL's host
};

// Returns false if the encoder cannot tell a query from a document: the dialect does not send the kind, and both kinds
// have the same prefix and prompt.
bool TellsKindsApart(const HttpEncoderOptions& options);

}  // namespace maxsim::encoder
