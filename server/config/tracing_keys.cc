#include "server/config/tracing_keys.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/config/key_kinds.h"
#include "server/tracing/endpoint.h"

namespace maxsim::config {
namespace {

using namespace key_kinds;

constexpr size_t kMaxServiceNameBytes = 128;

Key CollectorKey(std::string name, Field<std::string> field, std::string help) {
  Key key = Text(std::move(name), "host:port", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (!text.empty()) {
      if (const auto endpoint = tracing::ParseEndpoint(text); !endpoint.ok()) return endpoint.status();
    }
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

Key ServiceNameKey(std::string name, Field<std::string> field, std::string help) {
  Key key = Text(std::move(name), "text", field, std::move(help));
  key.set = [=](std::string_view text, Config& config) {
    if (text.empty() || text.size() > kMaxServiceNameBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a name of ", text.size(), " bytes; must have 1 to ", kMaxServiceNameBytes));
    }
    if (!IsUtf8(text)) return absl::InvalidArgumentError("is not UTF-8");
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  return key;
}

}  // namespace

void AddTracingKeys(std::vector<Key>& keys) {
  keys.push_back(CollectorKey(
      "tracing.endpoint", +[](Config& c) -> std::string& { return c.tracing.endpoint; },
      "Collector of traces (OTLP over gRPC), in plain text, or https://host:port; empty: calls are not traced."));
  keys.push_back(Share(
      "tracing.sample_ratio", +[](Config& c) -> double& { return c.tracing.sample_ratio; }, 0, 1,
      "Share of the calls without a traceparent that are traced. With one, its sampled flag decides."));
  keys.push_back(ServiceNameKey(
      "tracing.service_name", +[](Config& c) -> std::string& { return c.tracing.service_name; },
      "What traces call this server (service.name)."));
  keys.push_back(Count(
      "tracing.max_queued_spans", +[](Config& c) -> int& { return c.tracing.max_queued_spans; }, 1, kMi,
      "Spans that may wait for the collector; one more is dropped. A span takes about 1 KiB."));
}

}  // namespace maxsim::config
