// A backend that records its scans for a test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codes/scan.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/maxsim.h"
#include "tests/support/fake_backend.h"

namespace maxsim::engine {

// Scans on the CPU backend and records each call. A test can decide the outcome of each scan.
class RecordingBackend final : public test::FakeBackend {
 public:
  // Records one ScanCall.
  struct Part {
    const LoadedCodes* codes = nullptr;
    size_t num_queries = 0;
    int64_t num_candidates = 0;
    int64_t num_results = 0;  // of all queries
    bool has_list = false;
    bool has_mask = false;
  };

  explicit RecordingBackend(Backend& cpu) : cpu_(cpu) {}

  std::vector<std::vector<Part>> calls;
  size_t workspace_bytes = 0;  // of each executor
  std::function<absl::Status(const ScanCall&)> on_scan = [](const ScanCall&) { return absl::OkStatus(); };

  absl::StatusOr<std::unique_ptr<ScanExecutor>> CreateScanExecutor() override {
    return std::make_unique<RecordingScans>(*this, *cpu_.CreateScanExecutor());
  }

 private:
  class RecordingScans final : public ScanExecutor {
   public:
    RecordingScans(RecordingBackend& owner, std::unique_ptr<ScanExecutor> cpu) : owner_(owner), cpu_(std::move(cpu)) {}

    absl::Status Scan(absl::Span<const ScanCall> scans, CallTimings* timings) override {
      owner_.calls.emplace_back();
      for (const ScanCall& call : scans) {
        const ScanQuery& first = call.queries.front();
        Part part{.codes = call.codes,
                  .num_queries = call.queries.size(),
                  .num_candidates = first.ordinals == nullptr ? call.codes->num_documents() : first.num_candidates,
                  .has_list = first.ordinals != nullptr,
                  .has_mask = first.mask != nullptr};
        for (const ScanQuery& query : call.queries) {
          part.num_results += std::min<int64_t>(query.num_results, part.num_candidates);
        }
        owner_.calls.back().push_back(part);
      }
      for (const ScanCall& call : scans) {
        if (absl::Status status = owner_.on_scan(call); !status.ok()) return status;
      }
      return cpu_->Scan(scans, timings);
    }
    size_t workspace_bytes() const override { return owner_.workspace_bytes; }

   private:
    RecordingBackend& owner_;
    const std::unique_ptr<ScanExecutor> cpu_;
  };

  Backend& cpu_;
};

}  // namespace maxsim::engine
