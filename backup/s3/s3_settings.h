// Reads the address of a bucket and the credentials for it from a URL and the environment variables that AWS's own
// programs read.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backup/s3/signature.h"

namespace maxsim::backup {

struct S3Settings {
  std::string url;  // s3://BUCKET/PREFIX, for messages
  std::string bucket;
  std::string prefix;               // without slashes at its ends
  std::string origin;               // https://HOST[:PORT], to which requests are sent
  std::string host;                 // the header Host: HOST[:PORT]
  bool has_bucket_in_path = false;  // "path style": the bucket is the first component of the path, not of the host
  std::string region;
  std::string ca_file;  // certificates that are trusted instead of the system's; "" for the system's
  S3Credentials credentials;
};

// Returns the value of an environment variable, or null if it is not set.
using Getenv = std::function<const char*(const char* name)>;

// Takes s3://BUCKET/PREFIX. Reads AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which must be set, AWS_SESSION_TOKEN,
// AWS_REGION (us-east-1 if it is not set), AWS_ENDPOINT_URL (http[s]://HOST[:PORT], for stores other than AWS's; the
// bucket is then in the path) and AWS_CA_BUNDLE. An empty variable counts as unset. INVALID_ARGUMENT names the wrong
// part of the URL, or the wrong variable. Messages never contain the value of a variable that may hold a secret.
absl::StatusOr<S3Settings> ReadS3Settings(std::string_view url, const Getenv& getenv);

}  // namespace maxsim::backup
