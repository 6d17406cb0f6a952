// Makes the server's tracer, whose exporter reports to the metrics and the log.
#pragma once

#include <memory>

#include "server/config/config.h"
#include "server/observability/metrics.h"
#include "server/tracing/tracer.h"

namespace maxsim {

// Returns the configured tracer. If no collector is configured, the tracer is off. Does not wait for the collector.
// `metrics` must outlive the tracer.
std::unique_ptr<tracing::Tracer> MakeTracer(const config::Config& config, Metrics* metrics);

}  // namespace maxsim
