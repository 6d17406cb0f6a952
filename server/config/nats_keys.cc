#include "server/config/nats_keys.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/config/key_kinds.h"

namespace maxsim::config {

using namespace key_kinds;

namespace {

constexpr size_t kMaxPrefixBytes = 32;

// The number of copies of a NATS stream must be odd: a majority must acknowledge a write, so an even number is no safer
// than the odd number below it.
constexpr int kMaxReplicas = 5;

constexpr absl::Duration kMinTimeout = absl::Milliseconds(100);
// Less than the two minutes in which a NATS stream drops repeated writes.
constexpr absl::Duration kMaxTimeout = absl::Minutes(1);

absl::Status CheckPrefix(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  if (!text.empty() && text.size() <= kMaxPrefixBytes && text.find_first_not_of(kAllowed) == std::string_view::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", std::string(text), "\" must be 1 to ", kMaxPrefixBytes, " characters of A-Z a-z 0-9 _ -"));
}

absl::Status CheckUrl(std::string_view text) {
  const std::vector<std::string> urls = absl::StrSplit(std::string(text), ',');
  for (const std::string& url : urls) {
    if (text.empty()) break;
    if ((absl::StartsWith(url, "nats://") || absl::StartsWith(url, "tls://")) && url.find_first_of(" \t") == url.npos) {
      continue;
    }
    // The error does not quote the text, because it may hold a password.
    return absl::InvalidArgumentError("is not a list of nats://HOST:PORT or tls://HOST:PORT with commas between them");
  }
  return absl::OkStatus();
}

Key Checked(Key key, absl::Status (*check)(std::string_view)) {
  key.set = [set = std::move(key.set), check](std::string_view text, Config& config) {
    absl::Status status = check(text);
    return status.ok() ? set(text, config) : status;
  };
  return key;
}

}  // namespace

void AddNatsKeys(std::vector<Key>& keys) {
  keys.push_back(Checked(Text(
                             "nats.url", "list of urls", +[](Config& c) -> std::string& { return c.live.nats.url; },
                             "Servers of NATS JetStream, with commas between; they may hold user:password@."),
                         CheckUrl));
  keys.push_back(Text(
      "nats.credentials_file", "path", +[](Config& c) -> std::string& { return c.live.nats.credentials_file; },
      "Credentials of NATS, a JWT and a seed as nsc writes them; empty: none."));
  keys.push_back(Text(
      "nats.tls_ca_file", "path", +[](Config& c) -> std::string& { return c.live.nats.tls_ca_file; },
      "Authorities that the certificates of the servers of NATS are checked with; TLS is required then."));
  keys.push_back(Count(
      "nats.replicas", +[](Config& c) -> int& { return c.live.nats.replicas; }, 1, kMaxReplicas,
      "Copies, 1, 3 or 5, that a stream or bucket has when a server makes it."));
  keys.push_back(
      Checked(Text(
                  "nats.stream_prefix", "name", +[](Config& c) -> std::string& { return c.live.nats.stream_prefix; },
                  "What the names of streams begin with: that of collection docs is PREFIX-docs. Layouts, and "
                  "the settings of created collections, are in the bucket PREFIX."),
              CheckPrefix));
  keys.push_back(Duration(
      "nats.timeout", +[](Config& c) -> absl::Duration& { return c.live.nats.timeout; }, kMaxTimeout,
      "Until a write must be acknowledged and applied, 100ms at least; then it gets UNAVAILABLE."));
}

absl::Status ValidateNats(const Config& config) {
  if (config.live.log != live::LogKind::kNats) return absl::OkStatus();
  const live::NatsOptions& nats = config.live.nats;
  if (nats.url.empty()) return absl::InvalidArgumentError("live.log is nats, which needs nats.url");
  if (nats.replicas % 2 == 0) {
    return absl::InvalidArgumentError(absl::StrCat("nats.replicas: \"", nats.replicas, "\" is not 1, 3 or 5"));
  }
  if (nats.timeout < kMinTimeout) {
    return absl::InvalidArgumentError(absl::StrCat("nats.timeout: \"", absl::FormatDuration(nats.timeout),
                                                   "\" is less than the limit ", absl::FormatDuration(kMinTimeout)));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::config
