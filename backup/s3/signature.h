// AWS Signature Version 4, in the Authorization header. Pure functions. Source:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace maxsim::backup {

// Holds secrets: never print it.
struct S3Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // "" for credentials that do not expire
};

// Pairs of a name and a value, both not encoded yet.
using QueryParameters = std::vector<std::pair<std::string, std::string>>;

// Header values by name. The names are in lower case.
using SignedHeaders = std::map<std::string, std::string>;

struct RequestToSign {
  std::string method;
  std::string path;         // encoded once (UriEncode), begins with a slash
  QueryParameters query;    // in any order
  SignedHeaders headers;    // all that are signed: "host", "x-amz-date" and others
  std::string body_sha256;  // hex
};

// Encodes each byte as %XX, except for A-Z a-z 0-9 - . _ ~ and, if `keep_slashes` is set, slashes.
std::string UriEncode(std::string_view text, bool keep_slashes);

// Returns the encoded parameters as "a=1&b=2", in the order of the encoded names and values. Returns "" if there are
// none.
std::string CanonicalQuery(const QueryParameters& query);

// Returns the time as "20130524T000000Z", for the header x-amz-date.
std::string AmzDate(absl::Time time);

// Returns the value of the header Authorization. `amz_date` is the value of the header x-amz-date.
std::string Authorization(const RequestToSign& request, const S3Credentials& credentials, std::string_view region,
                          std::string_view service, const std::string& amz_date);

}  // namespace maxsim::backup
