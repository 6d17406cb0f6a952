// The interface of backends for scans of codes: a backend loads codes as LoadedCodes, and its ScanExecutor scans them.
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

// Codes that a backend can scan. Immutable and thread-safe. Must not outlive the Backend that made them.
class LoadedCodes {
 public:
  virtual ~LoadedCodes() = default;
  virtual const CodeShape& shape() const = 0;
  virtual int planes() const = 0;  // 1, 2 or 4; a scan may read fewer
  virtual int64_t num_documents() const = 0;
  // Returns whether a scan of 1, 2 or 4 planes can select by upper bounds (ScanOrder::kUpperBound).
  virtual bool has_bounds(int planes) const = 0;
  // Returns the memory that this object owns, without memory that it borrows from a CodesView.
  virtual MemoryNeed memory() const = 0;
};

// A scan of the codes of one LoadedCodes object for some queries.
struct ScanCall {
  const LoadedCodes* codes = nullptr;
  absl::Span<const ScanQuery> queries;
  absl::Span<std::vector<Scored>> results;  // one element per query; overwritten
};

// Runs scans one after another with its own workspace, which grows as needed. Not thread-safe: use one executor per
// thread. Must not outlive its Backend.
class ScanExecutor {
 public:
  virtual ~ScanExecutor() = default;

  // Finds the best num_results documents of each query of each call. All backends return the same bits as
  // CodeScanner::Scan (kernels/cpu/codes/code_scanner.h). A GPU's executor enqueues all calls before it waits for the
  // device. Adds the time of the scans to `timings`->kernel_seconds (`timings` may be null). INVALID_ARGUMENT names the
  // field, the value and the limit. Returns RESOURCE_EXHAUSTED if there is too little memory, and UNAVAILABLE if the
  // device is lost, also for every later call. After an error the results are unspecified.
  virtual absl::Status Scan(absl::Span<const ScanCall> calls, CallTimings* timings) = 0;

  // Returns the device memory in bytes that the workspace takes now; 0 for a backend that scans in host memory.
  virtual size_t workspace_bytes() const { return 0; }
};

}  // namespace maxsim
