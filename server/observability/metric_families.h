// Registers families of metrics.
#pragma once

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace maxsim {

// Return a new family of the registry, which owns it. `name` and `help` are what /metrics shows.
inline prometheus::Family<prometheus::Counter>& AddCounter(prometheus::Registry& registry, const char* name,
                                                           const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
inline prometheus::Family<prometheus::Gauge>& AddGauge(prometheus::Registry& registry, const char* name,
                                                       const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
inline prometheus::Family<prometheus::Histogram>& AddHistogram(prometheus::Registry& registry, const char* name,
                                                               const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace maxsim
