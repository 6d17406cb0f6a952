// The interface of backends for scans of codes: a backend loads codes as LoadedCodes, and a ScanExecutor scans them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/maxsim.h"

namespace maxsim {

struct ScanQuery;  // kernels/codes/scan.h

// Codes that a backend can scan. An object is immutable and safe to use from any thread, and must not outlive the
// Backend that made it.
class LoadedCodes {
 public:
  virtual ~LoadedCodes() = default;
  virtual const CodeShape& shape() const = 0;
  virtual int planes() const = 0;  // 1, 2 or 4; a scan may read fewer
  virtual int64_t num_documents() const = 0;
  // Returns whether a scan of 1, 2 or 4 planes can select by upper bounds (ScanOrder::kUpperBound).
  virtual bool has_bounds(int planes) const = 0;
  // Returns the memory that this object owns; borrowed memory of a view does not count.
  virtual MemoryNeed memory() const = 0;
};

// A scan of one object's codes for some queries.
struct ScanCall {
  const LoadedCodes* codes = nullptr;
  absl::Span<const ScanQuery> queries;
  absl::Span<std::vector<Scored>> results;  // one element per query; overwritten
};

// Runs scans one after another with its own workspace, which grows with the scans. Not thread-safe: use one executor
// per thread; a backend can have several. Must not outlive its Backend.
class ScanExecutor {
 public:
  virtual ~ScanExecutor() = default;

  // Finds the best num_results documents of each query of each call. The results have the same bits as those of
  // CodeScanner::Scan (kernels/cpu/codes/code_scanner.h). On a GPU the executor enqueues the work of all calls before
  // it waits for the device. Adds the time of the scans to the kernel_seconds of `timings`, which may be null.
  // INVALID_ARGUMENT names the field, the value and the limit; RESOURCE_EXHAUSTED if there is too little memory;
  // UNAVAILABLE when the device is lost, and again for every later call. After an error the results are unspecified.
  virtual absl::Status Scan(absl::Span<const ScanCall> calls, CallTimings* timings) = 0;

  // Returns the device memory that the workspace takes now. A backend that scans in host memory returns 0.
  virtual size_t workspace_bytes() const { return 0; }
};

}  // namespace maxsim
