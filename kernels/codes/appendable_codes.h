// Codes in a backend's memory to which more codes can be appended, like documents to AppendableDocuments
// (kernels/maxsim.h).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/scan_executor.h"

namespace maxsim {

// The format and the capacity of appendable codes, both fixed at creation.
struct AppendableCodesShape {
  CodeShape codes;
  int planes = 1;  // 1, 2 or 4
  int64_t max_documents = 0;
  int64_t max_tokens = 0;
};

// Only one thread at a time may append, but any thread may call Snapshot at any time. Appended codes never move or
// change. The object must not outlive the Backend that made it.
class AppendableCodes {
 public:
  virtual ~AppendableCodes() = default;
  // Copies the codes of all documents of the view: the first AppendableCodesShape::planes planes, factors, scales and
  // bounds. The caller may free the view afterwards. After an error nothing is appended: INVALID_ARGUMENT if the view
  // has another shape, fewer planes or no bounds; RESOURCE_EXHAUSTED beyond max_documents or max_tokens; UNAVAILABLE if
  // the device is lost.
  virtual absl::Status Append(const CodesView& codes) = 0;
  // Returns an immutable view of the codes appended so far, which any ScanExecutor of the backend can scan. Documents
  // are numbered in the order in which they were appended. The snapshot keeps the memory alive.
  virtual std::shared_ptr<const LoadedCodes> Snapshot() const = 0;
};

// Checks the members of a shape. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status ValidateAppendableCodesShape(const AppendableCodesShape& shape);

// Checks a view like ValidateCodes, and that its codes can be appended after `num_documents` documents with
// `num_tokens` tokens. Errors are those of AppendableCodes::Append.
absl::Status ValidateCodesAppend(const AppendableCodesShape& shape, int64_t num_documents, int64_t num_tokens,
                                 const CodesView& codes);

}  // namespace maxsim
