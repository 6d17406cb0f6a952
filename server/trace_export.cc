#include "server/trace_export.h"

#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "maxsim_version.h"
#include "server/observability/logging.h"
#include "server/tracing/endpoint.h"
#include "server/tracing/otlp_exporter.h"

namespace maxsim {
namespace {

class ExportReporter : public tracing::ExportObserver {
 public:
  ExportReporter(Metrics* metrics, std::string endpoint) : metrics_(metrics), endpoint_(std::move(endpoint)) {}

  void OnExported(uint64_t num_spans) override { metrics_->traces().CountExported(num_spans); }
  void OnDropped(tracing::DropReason reason, uint64_t num_spans) override {
    metrics_->traces().CountDropped(reason, num_spans);
  }
  void OnCollector(const absl::Status& status) override {
    if (status.ok()) {
      log::Write(spdlog::level::info, "traces_are_taken", {{"collector", endpoint_}});
    } else {
      log::Write(spdlog::level::warn, "traces_are_not_taken",
                 {{"collector", endpoint_}, {"error", status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
    }
  }

 private:
  Metrics* const metrics_;
  const std::string endpoint_;
};

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::unique_ptr<tracing::Tracer> MakeTracer(const config::Config& config, Metrics* metrics) {
  const auto endpoint = tracing::ParseEndpoint(config.tracing.endpoint);
  if (config.tracing.endpoint.empty() || !endpoint.ok()) return std::make_unique<tracing::Tracer>(nullptr);
  tracing::ExporterOptions options;
  options.endpoint = *endpoint;
  options.service = {
      .name = config.tracing.service_name, .version = kVersion, .host = HostName(), .process_id = getpid()};
  options.max_queued_spans = static_cast<size_t>(config.tracing.max_queued_spans);
  auto reporter = std::make_shared<ExportReporter>(metrics, config.tracing.endpoint);
  return std::make_unique<tracing::Tracer>(std::make_unique<tracing::OtlpExporter>(options, std::move(reporter)),
                                           config.tracing.sample_ratio);
}

}  // namespace maxsim
