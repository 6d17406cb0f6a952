// Codes in host memory that the CPU backend scans without copying them, and its ScanExecutor.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/scan.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/cpu/codes/code_scanner.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"

namespace maxsim::cpu {

class CpuCodes final : public LoadedCodes {
 public:
  // Validates `view` and uses its first 1, 2 or 4 planes. `keep_alive` owns the view's memory, or is null if the caller
  // keeps it valid. Returns INVALID_ARGUMENT if the view has fewer planes.
  static absl::StatusOr<std::unique_ptr<CpuCodes>> Create(const CodesView& view, int planes,
                                                          std::shared_ptr<const void> keep_alive);

  // Uses all planes of `view`, which must be valid. Takes constant time, because it does not check the arrays.
  static std::shared_ptr<const CpuCodes> Borrow(const CodesView& view, std::shared_ptr<const void> keep_alive) {
    return std::shared_ptr<const CpuCodes>(new CpuCodes(view, std::move(keep_alive)));
  }

  const CodesView& view() const { return view_; }

  const CodeShape& shape() const override { return view_.shape; }
  int planes() const override { return view_.planes; }
  int64_t num_documents() const override { return view_.num_documents; }
  bool has_bounds(int planes) const override { return view_.bounds[BoundIndex(planes)] != nullptr; }
  MemoryNeed memory() const override { return {}; }

 private:
  CpuCodes(const CodesView& view, std::shared_ptr<const void> keep_alive)
      : view_(view), keep_alive_(std::move(keep_alive)) {}

  CodesView view_;
  std::shared_ptr<const void> keep_alive_;
};

class CpuScanExecutor final : public ScanExecutor {
 public:
  // `isa` and `pool` must outlive this object.
  CpuScanExecutor(const Isa& isa, ThreadPool& pool) : scanner_(isa, pool) {}

  absl::Status Scan(absl::Span<const ScanCall> calls, CallTimings* timings) override;

 private:
  CodeScanner scanner_;
};

}  // namespace maxsim::cpu
