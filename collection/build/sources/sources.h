// The sources of a build's token vectors and payloads. A build reads each once, from front to back, in document order.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/formats/element_type.h"

namespace maxsim::collection {

// Gives token vectors, [num_tokens, dim].
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Returns a floating-point type, or i8 if the rows are already rotated and quantised as the collection stores them.
  virtual ElementType type() const = 0;
  virtual int64_t dim() const = 0;
  virtual int64_t num_tokens() const = 0;
  // Returns the next `num_rows` rows, [num_rows, dim], not necessarily aligned; valid until the next call.
  virtual absl::StatusOr<const void*> Next(int64_t num_rows) = 0;
  // Returns the next document's scale. Only for i8 rows. Called once per document, after its rows were read.
  virtual absl::StatusOr<float> NextStoredScale() { return absl::InternalError("these token vectors have no scales"); }
};

// Gives payloads, each a JSON object, or "" if a document has none.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  // Returns the next document's payload, valid until the next call.
  virtual absl::StatusOr<std::string_view> Next() = 0;
};

}  // namespace maxsim::collection
