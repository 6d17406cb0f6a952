// Makes the server's tracer, whose exporter counts and logs.
#pragma once

#include <memory>

#include "server/config/config.h"
#include "server/observability/metrics.h"
#include "server/tracing/tracer.h"

namespace maxsim {

// Returns the tracer that the configuration asks for, which is off where it names no collector. Waits for no collector.
// `metrics` must outlive it.
std::unique_ptr<tracing::Tracer> MakeTracer(const config::Config& config, Metrics* metrics);

}  // namespace maxsim
