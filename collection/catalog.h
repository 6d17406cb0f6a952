// The token count, id and payload size of every document, which a build needs before it writes the first byte. Takes
// about 30 bytes per document with int64 ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// A growing list of distinct document ids.
class IdList {
 public:
  explicit IdList(IdType type);
  // The set's functors point back into the object.
  IdList(const IdList&) = delete;
  IdList& operator=(const IdList&) = delete;

  IdType type() const { return type_; }
  int64_t size() const;

  // Appends an id, which must be of the list's type. Returns INVALID_ARGUMENT if the id is empty, longer than
  // kMaxIdBytes or not UTF-8. Returns ALREADY_EXISTS, with the number of the first one, for a duplicate. A refused id
  // is not appended.
  absl::Status Add(std::string_view id);
  absl::Status Add(int64_t id);

  std::string_view string_id(int64_t ordinal) const;
  int64_t int_id(int64_t ordinal) const { return ints_[static_cast<size_t>(ordinal)]; }

  // Returns the id for messages: "\"abc\"" or "17".
  std::string Format(int64_t ordinal) const;

  // Returns the bytes of an id as the shard stores it, without its offset.
  int64_t num_bytes(int64_t ordinal) const;

 private:
  struct Hash {
    const IdList* list;
    size_t operator()(int64_t ordinal) const;
  };
  struct Equal {
    const IdList* list;
    bool operator()(int64_t a, int64_t b) const;
  };
  absl::Status Register();

  const IdType type_;
  std::vector<int64_t> ints_;
  std::string bytes_;
  std::vector<int64_t> offsets_ = {0};
  absl::flat_hash_set<int64_t, Hash, Equal> ordinals_;  // hashed by their ids
};

struct Catalog {
  explicit Catalog(IdType type) : ids(type) {}

  std::vector<int32_t> lengths;  // tokens of each document, 1 .. kMaxDocumentTokens
  IdList ids;
  std::vector<int32_t> payload_sizes;  // empty when no document has a payload
  // The documents' positions in the whole collection (positions.h), strictly ascending. Empty for a whole collection,
  // in which a document's position is its number.
  std::vector<int64_t> positions;

  int64_t num_documents() const { return static_cast<int64_t>(lengths.size()); }
  bool has_payloads() const { return !payload_sizes.empty(); }
  int64_t position(int64_t document) const {
    return positions.empty() ? document : positions[static_cast<size_t>(document)];
  }
  // Returns the slot of a document's id.
  int32_t slot(int64_t document) const {
    return ids.type() == IdType::kInt64 ? SlotOf(ids.int_id(document)) : SlotOf(ids.string_id(document));
  }
};

}  // namespace maxsim::collection
