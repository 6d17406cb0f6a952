// Keeps the spans of a test.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/tracing/span.h"

namespace maxsim::cluster {

// Keeps the spans that have ended, in their order.
class SpanKeeper : public tracing::SpanSink {
 public:
  using Spans = std::vector<std::unique_ptr<tracing::SpanData>>;
  explicit SpanKeeper(Spans* spans) : spans_(spans) {}
  void Add(std::unique_ptr<tracing::SpanData> span) override {
    const MutexLock lock(&mutex_);
    spans_->push_back(std::move(span));
  }
  void Shutdown(absl::Time) override {}

 private:
  Mutex mutex_;
  Spans* const spans_;
};

}  // namespace maxsim::cluster
