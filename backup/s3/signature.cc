#include "backup/s3/signature.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "backup/store/sha256.h"
#include "base/text.h"

namespace maxsim::backup {
namespace {

constexpr char kAlgorithm[] = "AWS4-HMAC-SHA256";

// Removes blanks at both ends of the value, and replaces each run of blanks in it by one blank.
std::string WithSingleBlanks(std::string_view value) {
  std::string result;
  for (const char c : value) {
    if (c == ' ' && (result.empty() || result.back() == ' ')) continue;
    result += c;
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::string NamesOf(const SignedHeaders& headers) {
  return absl::StrJoin(headers, ";", [](std::string* out, const auto& header) { out->append(header.first); });
}

std::string CanonicalRequest(const RequestToSign& request) {
  std::string headers;
  for (const auto& [name, value] : request.headers) headers += Cat(name, ":", WithSingleBlanks(value), "\n");
  return Cat(request.method, "\n", request.path, "\n", CanonicalQuery(request.query), "\n", headers, "\n",
             NamesOf(request.headers), "\n", request.body_sha256);
}

}  // namespace

std::string UriEncode(std::string_view text, bool keep_slashes) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/')) {
      result += c;
    } else {
      result += '%';
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    }
  }
  return result;
}

std::string CanonicalQuery(const QueryParameters& query) {
  QueryParameters encoded;
  for (const auto& [name, value] : query) encoded.emplace_back(UriEncode(name, false), UriEncode(value, false));
  std::sort(encoded.begin(), encoded.end());
  return absl::StrJoin(encoded, "&", absl::PairFormatter("="));
}

std::string AmzDate(absl::Time time) { return absl::FormatTime("%Y%m%dT%H%M%SZ", time, absl::UTCTimeZone()); }

std::string Authorization(const RequestToSign& request, const S3Credentials& credentials, std::string_view region,
                          std::string_view service, const std::string& amz_date) {
  const std::string date = amz_date.substr(0, 8);
  const std::string scope = Cat(date, "/", region, "/", service, "/aws4_request");
  const std::string to_sign = Cat(kAlgorithm, "\n", amz_date, "\n", scope, "\n", Sha256Hex(CanonicalRequest(request)));
  std::string key = HmacSha256(Cat("AWS4", credentials.secret_access_key), date);
  for (const std::string_view part : {region, service, std::string_view("aws4_request")}) key = HmacSha256(key, part);
  return Cat(kAlgorithm, " Credential=", credentials.access_key_id, "/", scope,
             ", SignedHeaders=", NamesOf(request.headers), ", Signature=", Hex(HmacSha256(key, to_sign)));
}

}  // namespace maxsim::backup
