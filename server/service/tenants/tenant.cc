#include "server/service/tenants/tenant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "collection/filters/filter_text.h"
#include "nlohmann/json.hpp"

namespace maxsim::service {
namespace {

using nlohmann::json;

constexpr std::string_view kMembers =
    "tenant, collections, filter, token_pairs_per_second, token_pairs_burst, documents, bytes, requests_in_flight";

// The largest quota. A double holds every integer up to it.
constexpr uint64_t kMaxQuota = uint64_t{1} << 53;

// Returns an error about a member.
template <typename... Args>
absl::Status Wrong(std::string_view member, const Args&... problem) {
  return maxsim::Invalid(member, ": ", problem...);
}

std::string Shown(const json& value) { return Quote(value.dump(-1, ' ', false, json::error_handler_t::replace)); }

absl::Status ReadName(const json& value, TenantSettings& settings) {
  if (!value.is_string()) return Wrong("tenant", "is ", Shown(value), "; must be a string");
  const auto& name = value.get_ref<const std::string&>();
  const bool has_allowed_size = !name.empty() && name.size() <= kMaxTenantNameBytes;
  const bool has_allowed_letters = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
  if (!has_allowed_size || !has_allowed_letters || !absl::ascii_isalnum(static_cast<unsigned char>(name.front()))) {
    return Wrong("tenant", "is ", Quote(name), "; must be 1 to ", kMaxTenantNameBytes,
                 " letters, digits, \".\", \"_\" and \"-\", the first a letter or digit");
  }
  settings.name = name;
  return absl::OkStatus();
}

absl::Status ReadCollections(const json& value, TenantSettings& settings) {
  if (!value.is_array()) return Wrong("collections", "is ", Shown(value), "; must be a list of names");
  if (value.empty() || value.size() > kMaxTenantCollections) {
    return Wrong("collections", "has ", value.size(), " names; must have 1 to ", kMaxTenantCollections);
  }
  for (size_t idx = 0; idx < value.size(); ++idx) {
    const json& name = value[idx];
    if (!name.is_string()) return Wrong("collections", "[", idx, "] is ", Shown(name), "; must be a string");
    const std::string problem = collection::CollectionNameProblem(name.get_ref<const std::string&>());
    if (!problem.empty()) return Wrong("collections", "[", idx, "]: ", problem);
    settings.collections.push_back(name.get<std::string>());
  }
  std::sort(settings.collections.begin(), settings.collections.end());
  const auto repeated = std::adjacent_find(settings.collections.begin(), settings.collections.end());
  if (repeated == settings.collections.end()) return absl::OkStatus();
  return Wrong("collections", "names ", Quote(*repeated), " twice");
}

absl::Status ReadFilter(const json& value, TenantSettings& settings) {
  if (!value.is_string()) return Wrong("filter", "is ", Shown(value), "; must be the text of a filter");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kMaxTenantFilterBytes) {
    return Wrong("filter", "has ", text.size(), " bytes; must have at most ", kMaxTenantFilterBytes);
  }
  absl::StatusOr<collection::Filter> filter = collection::ParseFilter(text);
  if (!filter.ok()) return Wrong("filter", std::string(filter.status().message()));
  settings.filter = *std::move(filter);
  return absl::OkStatus();
}

absl::Status ReadQuota(std::string_view member, const json& value, uint64_t& quota) {
  const auto refuse = [&] {
    return Wrong(member, "is ", Shown(value), "; must be a whole number from 1 to ", kMaxQuota);
  };
  if (!value.is_number()) return refuse();
  // 2e9 is a floating-point number in JSON.
  const auto number = value.get<double>();
  if (!(number >= 1) || number > static_cast<double>(kMaxQuota) || number != std::floor(number)) return refuse();
  quota = static_cast<uint64_t>(number);
  return absl::OkStatus();
}

absl::Status ReadMember(const std::string& member, const json& value, TenantSettings& settings) {
  if (member == "tenant") return ReadName(value, settings);
  if (member == "collections") return ReadCollections(value, settings);
  if (member == "filter") return ReadFilter(value, settings);
  TenantQuotas& quotas = settings.quotas;
  const std::array<std::pair<std::string_view, uint64_t*>, 5> numbers = {
      {{"token_pairs_per_second", &quotas.token_pairs_per_second},
       {"token_pairs_burst", &quotas.token_pairs_burst},
       {"documents", &quotas.documents},
       {"bytes", &quotas.bytes},
       {"requests_in_flight", &quotas.requests_in_flight}}};
  for (const auto& [name, quota] : numbers) {
    if (member == name) return ReadQuota(name, value, *quota);
  }
  return maxsim::Invalid("unknown member ", Quote(member), "; known are ", kMembers);
}

// Parses a JSON object, and returns an error if it has a key twice. Otherwise the last value would count, and an
// operator might look at the first one only.
absl::StatusOr<json> ParseObject(std::string_view text) {
  std::set<std::string> keys;
  std::string repeated;
  const json object = json::parse(
      text.begin(), text.end(),
      [&](int depth, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
          repeated = parsed.get<std::string>();
        }
        return true;
      },
      /*allow_exceptions=*/false);
  if (object.is_discarded() || !object.is_object()) return maxsim::Invalid("a JSON object must follow the token");
  if (!repeated.empty()) return Wrong(repeated, "is repeated");
  return object;
}

}  // namespace

absl::StatusOr<TenantSettings> ParseTenant(std::string_view json_text) {
  const absl::StatusOr<json> object = ParseObject(json_text);
  if (!object.ok()) return object.status();
  TenantSettings settings;
  for (const auto& [member, value] : object->items()) {
    if (absl::Status status = ReadMember(member, value, settings); !status.ok()) return status;
  }
  if (settings.name.empty()) return Wrong("tenant", "is missing");
  TenantQuotas& quotas = settings.quotas;
  if (quotas.token_pairs_burst > 0 && quotas.token_pairs_per_second == 0) {
    return Wrong("token_pairs_burst", "is set, but token_pairs_per_second is not");
  }
  if (quotas.token_pairs_burst == 0) quotas.token_pairs_burst = quotas.token_pairs_per_second;
  return settings;
}

bool Tenant::MayUse(std::string_view collection) const {
  if (settings_.collections.empty()) return true;
  return std::binary_search(settings_.collections.begin(), settings_.collections.end(), collection);
}

}  // namespace maxsim::service
