// Which encoder made token vectors. A manifest may hold one, and an encoder that the server calls has one: texts are
// only scored against vectors of the same encoder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::collection {

// Every member may be unknown: "" or 0.
struct EncoderIdentity {
  std::string model = {};        // its name, such as "lightonai/GTE-ModernColBERT-v1"
  std::string fingerprint = {};  // of its weights and settings; two encoders with one fingerprint give the same vectors
  int32_t dim = 0;               // values of one token vector
  std::string query_prefix = {};
  std::string document_prefix = {};
  int32_t query_length = 0;      // tokens that a query is cut to
  int32_t document_length = 0;   // tokens that a document is cut to
  bool query_expansion = false;  // whether a short query is filled up with mask tokens to query_length

  friend bool operator==(const EncoderIdentity&, const EncoderIdentity&) = default;
};

// The longest text member of an identity, in bytes.
inline constexpr size_t kMaxEncoderTextBytes = 1024;

// The largest query_length or document_length.
inline constexpr int64_t kMaxEncoderLength = 65536;

// Checks lengths and UTF-8 of the texts and the ranges of the numbers. INVALID_ARGUMENT names the member, its value and
// the limit.
absl::Status CheckEncoderIdentity(const EncoderIdentity& identity);

// Reads one JSON object with members named as above. `model` and `dim` must be there, unknown members are errors.
// INVALID_ARGUMENT says what is wrong, `origin` first.
absl::Status ParseEncoderIdentity(std::string_view json, std::string_view origin, EncoderIdentity* identity);

// Returns "model (fingerprint ...)", printable and bounded, for messages.
std::string DescribeEncoder(const EncoderIdentity& identity);

// Returns FAILED_PRECONDITION, with both names, if these cannot be the same encoder. Equal fingerprints mean the same
// encoder. If one has no fingerprint, compares model, dimension, prefixes and query expansion where both are known.
absl::Status CheckSameEncoder(const EncoderIdentity& of_collection, const EncoderIdentity& of_server);

}  // namespace maxsim::collection
