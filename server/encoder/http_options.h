// The options of an encoder: its address, its dialect, and limits on calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collection/encoder_identity.h"
#include "server/encoder/dialect.h"

namespace maxsim::encoder {

// The parts of "http://host[:port][/base]", or of the same with https.
struct EncoderUrl {
  bool is_tls = false;
  std::string host;  // without brackets
  std::string port;  // a number
  std::string base;  // "" or "/...", without a slash at the end

  std::string HostHeader() const;
};

// Returns INVALID_ARGUMENT with the value and what is accepted.
absl::StatusOr<EncoderUrl> ParseEncoderUrl(std::string_view text);

struct HttpEncoderOptions {
  std::string url;
  Dialect dialect = Dialect::kMaxsim;
  // The configured part of the encoder's identity. In the dialect `maxsim` the encoder reports its identity, which must
  // agree with the configured part, and adds its own prefixes to texts. In the other dialects the server puts the
  // configured prefixes before the texts.
  collection::EncoderIdentity identity;
  // Names of the model's prompts for queries and documents, sent in the dialect `tei`. An empty name is not sent.
  std::string query_prompt_name;
  std::string document_prompt_name;
  absl::Duration timeout = absl::Seconds(10);       // of one call, from connecting to the last byte
  absl::Duration window = absl::Milliseconds(2);    // how long a text waits for other texts to share its call
  int max_batch_texts = 32;                         // texts per call
  int connections = 4;                              // maximum number of connections, and thus of calls at a time
  int64_t queue_texts = 4096;                       // limit on the texts that wait for a call
  uint64_t queue_bytes = uint64_t{64} << 20;        // limit on the bytes of all texts that have no answer yet
  uint64_t max_answer_bytes = uint64_t{256} << 20;  // of one call
  int breaker_failures = 5;                         // failures in a row that open the breaker; 0: it never opens
  absl::Duration breaker_cooldown = absl::Seconds(5);
  int32_t max_query_tokens = 4096;      // an answer with more for one query is an error
  int32_t max_document_tokens = 65536;  // an answer with more for one document is an error
  std::string token_file;               // holds a bearer token; "": none is sent
  std::string tls_ca_file;              // PEM; "": the system's authorities
  std::string tls_cert_file;            // PEM, of this server as a client; "": none
  std::string tls_key_file;
  std::string tls_server_name;  // the name in the encoder's certificate; "": the URL's host
};

// Returns false if the encoder cannot tell a query from a document: the dialect does not send the kind, and both kinds
// have the same prefix and prompt.
bool TellsKindsApart(const HttpEncoderOptions& options);

}  // namespace maxsim::encoder
