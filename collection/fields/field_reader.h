// Reads the values of a collection's fields from a document's payload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/field.h"

namespace maxsim::collection {

// A document's value of a field; std::monostate if it has none. Lists of keywords are sorted by bytes and have no
// duplicates. Times are microseconds since 1970 (time_text.h).
using FieldValue = std::variant<std::monostate, std::string, std::vector<std::string>, int64_t, double, bool>;

// For one thread.
class FieldReader {
 public:
  // The fields must have passed CheckFields, and must outlive the object.
  explicit FieldReader(const std::vector<Field>& fields);

  // Returns a value for each field; valid until the next call. `payload` is a JSON object, or "" if the document has no
  // payload. A document has no value of a field if a key of the path is missing or null, or the list is empty. Returns
  // INVALID_ARGUMENT, naming field and value, for a value of another kind, a text or list that is too long, a repeated
  // key on the path, or malformed JSON.
  absl::StatusOr<const std::vector<FieldValue>*> Read(std::string_view payload);

  // One key of the fields' paths, as a node of a tree whose root is the payload. A node has either children or fields.
  struct Node {
    std::string key;
    std::vector<size_t> children = {};  // numbers of nodes
    std::vector<size_t> fields = {};    // whose paths end here
    uint64_t seen_in = 0;               // number of the last payload that had the key
  };

 private:
  const std::vector<Field>& fields_;
  std::vector<Node> nodes_;  // the root first
  uint64_t num_payloads_ = 0;
  std::vector<FieldValue> values_;
};

}  // namespace maxsim::collection
