// Codes in a backend's memory to which more codes can be appended: the counterpart of AppendableDocuments
// (kernels/maxsim.h).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/scan_executor.h"

namespace maxsim {

// The format and the capacity of appendable codes. They are fixed when the codes are created.
struct AppendableCodesShape {
  CodeShape codes;
  int planes = 1;  // 1, 2 or 4
  int64_t max_documents = 0;
  int64_t max_tokens = 0;
};

// Appended codes never move or change. Only one thread at a time may append, but any thread may call Snapshot during
// an append. The object must not outlive the Backend that made it.
class AppendableCodes {
 public:
  virtual ~AppendableCodes() = default;
  // Appends the first `planes` planes of all documents of the view, which must have the same shape, with their factors,
  // scales and bounds. After OK the codes are in the backend's memory, and the caller may free the view. After an error
  // nothing is appended: INVALID_ARGUMENT for another shape, fewer planes or missing bounds; RESOURCE_EXHAUSTED, with
  // the numbers, beyond max_documents or max_tokens; UNAVAILABLE when the device is lost.
  virtual absl::Status Append(const CodesView& codes) = 0;
  // Returns a snapshot of the codes appended so far. Any ScanExecutor of the backend can scan it. Documents are
  // numbered in the order in which they were appended. The snapshot is immutable and keeps the memory alive.
  virtual std::shared_ptr<const LoadedCodes> Snapshot() const = 0;
};

// Checks the shape of codes that will be appended: dimension, type, planes, documents and tokens. INVALID_ARGUMENT
// names the field, the value and the limit.
absl::Status ValidateAppendableCodesShape(const AppendableCodesShape& shape);

// Checks the codes of a view as ValidateCodes does, and that they can be appended to `num_documents` documents of
// `num_tokens` tokens. Errors are those of AppendableCodes::Append.
absl::Status ValidateCodesAppend(const AppendableCodesShape& shape, int64_t num_documents, int64_t num_tokens,
                                 const CodesView& codes);

}  // namespace maxsim
