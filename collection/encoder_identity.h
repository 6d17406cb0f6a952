// Identifies the encoder (model) that makes token vectors. A collection's manifest may store the identity of its
// encoder. The server then refuses to score texts that another encoder would encode.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::collection {

// Every member may be unknown: "" or 0.
struct EncoderIdentity {
  std::string model = {};        // its name, such as "lightonai/GTE-ModernColBERT-v1"
  std::string fingerprint = {};  // encoders with equal fingerprints give the same vectors
  int32_t dim = 0;               // values of one token vector
  std::string query_prefix = {};
  std::string document_prefix = {};
  int32_t query_length = 0;      // longer queries are cut to this many tokens
  int32_t document_length = 0;   // longer documents are cut to this many tokens
  bool query_expansion = false;  // whether a short query is filled up with mask tokens to query_length

  friend bool operator==(const EncoderIdentity&, const EncoderIdentity&) = default;
};

// The longest text member of an identity, in bytes.
inline constexpr size_t kMaxEncoderTextBytes = 1024;

// The largest query_length or document_length.
inline constexpr int64_t kMaxEncoderLength = 65536;

// Checks that texts are UTF-8 and not too long, and that numbers are in range. INVALID_ARGUMENT names the bad member.
absl::Status CheckEncoderIdentity(const EncoderIdentity& identity);

// Parses a JSON object with the members of EncoderIdentity. "model" and "dim" are required, and unknown members are
// errors. The message of INVALID_ARGUMENT begins with `origin`.
absl::Status ParseEncoderIdentity(std::string_view json, std::string_view origin, EncoderIdentity* identity);

// Returns "model (fingerprint ...)", printable and bounded, for messages.
std::string DescribeEncoder(const EncoderIdentity& identity);

// Returns FAILED_PRECONDITION, with both names, if the two are different encoders. If both have a fingerprint, compares
// only these. Otherwise compares model, dimension, prefixes and query expansion, each if it is known for both.
absl::Status CheckSameEncoder(const EncoderIdentity& of_collection, const EncoderIdentity& of_server);

}  // namespace maxsim::collection
