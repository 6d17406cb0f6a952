// The metrics of scans of codes (compressed token vectors), and of scoring the documents that the scans choose. These
// metrics are part of Metrics (metrics.h), and documented in docs/reference/metrics.md.
#pragma once

#include <array>
#include <cstdint>

namespace prometheus {
class Counter;
class Histogram;
class Registry;
}  // namespace prometheus

namespace maxsim {

// The class is thread-safe, and cheap enough for the hot path. Its series exist from the start, at zero.
class ScanMetrics {
 public:
  // `registry` must outlive it.
  explicit ScanMetrics(prometheus::Registry& registry);

  // The counts and times of one batch with scans. Each scan is for one query.
  struct Batch {
    std::array<uint64_t, 3> scans{};  // queries, by planes: 1, 2 and 4
    uint64_t token_pairs = 0;         // scanned
    uint64_t documents = 0;           // chosen by the scans, and scored
    uint64_t proofs = 0;              // queries whose answer is proven
    double scan_seconds = 0;
    double refine_seconds = 0;
  };
  // Observes a batch with scans.
  void Observe(const Batch& batch);

 private:
  std::array<prometheus::Counter*, 3> scans_{};
  prometheus::Counter* proven_ = nullptr;
  prometheus::Counter* not_proven_ = nullptr;
  prometheus::Counter* token_pairs_ = nullptr;
  prometheus::Counter* documents_ = nullptr;
  prometheus::Histogram* scan_duration_ = nullptr;
  prometheus::Histogram* refine_duration_ = nullptr;
};

}  // namespace maxsim
