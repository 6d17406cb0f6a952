#include "backup/s3/s3_settings.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/text.h"
#include "collection/partition/snapshot_path.h"

namespace maxsim::backup {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr char kDefaultRegion[] = "us-east-1";
constexpr size_t kMinBucketBytes = 3, kMaxBucketBytes = 63;

std::string ValueOf(const Getenv& getenv, const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// Returns true for printable ASCII without blanks. Other characters in a value could end its HTTP header.
bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

absl::Status CheckBucket(std::string_view bucket) {
  const auto is_allowed = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_islower(byte) || absl::ascii_isdigit(byte) || c == '.' || c == '-';
  };
  if (bucket.size() < kMinBucketBytes || bucket.size() > kMaxBucketBytes ||
      !std::all_of(bucket.begin(), bucket.end(), is_allowed) || bucket.front() == '.' || bucket.front() == '-') {
    return Invalid("URL: the bucket ", Quote(bucket), " must have ", kMinBucketBytes, " to ", kMaxBucketBytes,
                   " of a-z 0-9 . -, and begin with a letter or a digit");
  }
  return absl::OkStatus();
}

absl::StatusOr<S3Credentials> ReadCredentials(const Getenv& getenv) {
  S3Credentials credentials;
  struct Variable {
    const char* name;
    std::string* value;
    bool is_required;
  };
  for (const Variable& variable : {Variable{"AWS_ACCESS_KEY_ID", &credentials.access_key_id, true},
                                   Variable{"AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key, true},
                                   Variable{"AWS_SESSION_TOKEN", &credentials.session_token, false}}) {
    *variable.value = ValueOf(getenv, variable.name);
    if (variable.is_required && variable.value->empty()) {
      return Invalid(variable.name,
                     ": is not set; an s3:// URL needs the environment variables AWS_ACCESS_KEY_ID and "
                     "AWS_SECRET_ACCESS_KEY");
    }
    if (!IsPrintable(*variable.value))
      return Invalid(variable.name, ": has a blank or another character that no key has");
  }
  return credentials;
}

// Returns true for HOST or HOST:PORT. With any other text httplib would connect to another host, or throw an exception.
bool IsHostAndPort(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view host = text.substr(0, colon);
  const auto is_of_name = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; };
  if (host.empty() || !std::all_of(host.begin(), host.end(), is_of_name)) return false;
  if (colon == text.size()) return true;
  const std::string digits(text.substr(colon + 1));
  const auto is_digit = [](unsigned char c) { return absl::ascii_isdigit(c); };
  int port = 0;
  return std::all_of(digits.begin(), digits.end(), is_digit) && absl::SimpleAtoi(digits, &port) && port >= 1 &&
         port <= 65535;
}

// Sets origin, host and path style from the value of AWS_ENDPOINT_URL.
absl::Status SetEndpoint(std::string endpoint, S3Settings& settings) {
  if (endpoint.ends_with('/')) endpoint.pop_back();
  const size_t scheme = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  settings.host = endpoint.substr(scheme);
  if (scheme == 0 || !IsHostAndPort(settings.host)) {
    // A URL may contain a password before an @, so the message does not repeat the URL.
    return Invalid(
        "AWS_ENDPOINT_URL: must be http://HOST[:PORT] or https://HOST[:PORT], without a path; HOST must be a name or "
        "an IPv4 address, and PORT 1 to 65535");
  }
  // HTTP clients omit the scheme's default port from the header Host, and the store checks the signature of that
  // header.
  const std::string_view default_port = scheme == 8 ? ":443" : ":80";
  if (settings.host.ends_with(default_port)) settings.host.resize(settings.host.size() - default_port.size());
  settings.origin = endpoint;
  settings.has_bucket_in_path = true;
  return absl::OkStatus();
}

// AWS's certificate is for *.s3.REGION.amazonaws.com. The asterisk matches no dot, so a bucket whose name has a dot
// must be named in the path and not in the host.
void SetAwsEndpoint(S3Settings& settings) {
  const std::string host = Cat("s3.", settings.region, ".amazonaws.com");
  settings.has_bucket_in_path = settings.bucket.find('.') != std::string::npos;
  settings.host = settings.has_bucket_in_path ? host : Cat(settings.bucket, ".", host);
  settings.origin = Cat("https://", settings.host);
}

}  // namespace

absl::StatusOr<S3Settings> ReadS3Settings(std::string_view url, const Getenv& getenv) {
  if (!url.starts_with(kScheme)) return Invalid("URL: ", Quote(url), " is not s3://BUCKET/PREFIX");
  std::string_view rest = url.substr(kScheme.size());
  S3Settings settings;
  settings.bucket = rest.substr(0, rest.find('/'));
  if (absl::Status status = CheckBucket(settings.bucket); !status.ok()) return status;
  rest.remove_prefix(std::min(rest.size(), settings.bucket.size() + 1));
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty()) return Invalid("URL: ", Quote(url), " has no prefix; must be s3://BUCKET/PREFIX");
  if (const std::string problem = collection::SnapshotPathProblem(rest); !problem.empty()) {
    return Invalid("URL: the prefix ", Quote(rest), " ", problem);
  }
  settings.prefix = rest;
  settings.url = Cat(kScheme, settings.bucket, "/", settings.prefix);
  absl::StatusOr<S3Credentials> credentials = ReadCredentials(getenv);
  if (!credentials.ok()) return credentials.status();
  settings.credentials = *std::move(credentials);
  settings.region = ValueOf(getenv, "AWS_REGION");
  if (settings.region.empty()) settings.region = kDefaultRegion;
  const auto is_region = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; };
  if (!std::all_of(settings.region.begin(), settings.region.end(), is_region)) {
    return Invalid("AWS_REGION: ", Quote(settings.region), " has a character other than A-Z a-z 0-9 - _");
  }
  settings.ca_file = ValueOf(getenv, "AWS_CA_BUNDLE");
  const std::string endpoint = ValueOf(getenv, "AWS_ENDPOINT_URL");
  if (endpoint.empty()) {
    SetAwsEndpoint(settings);
  } else if (absl::Status status = SetEndpoint(endpoint, settings); !status.ok()) {
    return status;
  }
  return settings;
}

}  // namespace maxsim::backup
