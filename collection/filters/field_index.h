// In-memory indexes that find the documents of a shard by the values of their fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/fields/field_reader.h"
#include "collection/filters/ordinal_bitmap.h"

namespace maxsim::collection {

// Values in ascending order, each with the document that has it. A value's place is its index in this order. For every
// 1,024 values (or num_documents / 16 if that is more), a mask with one bit per document has the documents of all
// values up to there. So the documents of a long range are the difference of two masks, plus some single bits.
template <typename T>
class SortedValues {
 public:
  // `values` has a pair (value, ordinal) for each document with a value. The shard has `num_documents` documents.
  SortedValues(std::vector<std::pair<T, uint32_t>> values, int64_t num_documents);
  SortedValues() = default;

  // One end of a range of values.
  struct Bound {
    T value;
    bool inclusive = true;
  };
  // The places begin .. end - 1.
  struct Places {
    size_t begin = 0;
    size_t end = 0;
    size_t size() const { return end - begin; }
  };
  // Returns the places of the values in a range. nullopt means no bound on that side.
  Places InRange(const std::optional<Bound>& low, const std::optional<Bound>& high) const;

  // Returns the documents at these places, in the order of their values.
  absl::Span<const uint32_t> Ordinals(Places places) const;
  // Adds the documents at these places to a mask of the shard. The mask must not have any of them yet.
  void AddTo(Places places, absl::Span<uint64_t> mask) const;

  int64_t memory_bytes() const;

 private:
  // Flips the bits of the documents that have the first `place` values. AddTo calls it for both ends of a range;
  // together this changes only the bits of the range's documents.
  void FlipBefore(size_t place, absl::Span<uint64_t> mask) const;

  std::vector<T> values_;
  std::vector<uint32_t> ordinals_;
  size_t step_ = 1;                 // places from one prefix to the next
  size_t num_mask_words_ = 0;       // of a mask
  std::vector<uint64_t> prefixes_;  // masks; the i-th one has the documents at the places before (i + 1) * step_
};

// Terms in ascending order, each with the documents that have it: a bitmap for a frequent term, a list of ascending
// ordinals for a rare one.
class TermLists {
 public:
  explicit TermLists(const FieldColumn& column);
  TermLists() = default;

  // Adds to `set` the documents that have at least one of the terms. Ignores unknown terms.
  void AddTo(absl::Span<const std::string_view> terms, OrdinalBitmap& set) const;

  size_t size() const { return term_offsets_.empty() ? 0 : term_offsets_.size() - 1; }
  // Returns the term with index `idx` in ascending order, valid as long as this object lives.
  std::string_view term(size_t idx) const;
  // Counts the documents that have term `idx` and whose bit in `mask` is set. A document's bit is bit `first` +
  // ordinal.
  uint64_t CountIn(size_t idx, absl::Span<const uint64_t> mask, uint32_t first) const;

  int64_t memory_bytes() const;

 private:
  std::optional<size_t> Find(std::string_view term) const;
  // Returns the bitmap of a term that many documents have; null for other terms.
  const OrdinalBitmap* BitmapOf(size_t idx) const;

  std::vector<int64_t> term_offsets_;  // [terms + 1]
  std::string term_bytes_;
  std::vector<int64_t> list_offsets_;  // [terms + 1], in `lists_`; a term with a bitmap has an empty list
  std::vector<uint32_t> lists_;
  std::vector<uint32_t> frequent_terms_;  // ascending
  std::vector<OrdinalBitmap> bitmaps_;    // of frequent_terms_
};

// The index of one field of a shard. Immutable and thread-safe.
class FieldIndex {
 public:
  // Copies the column's values.
  explicit FieldIndex(const FieldColumn& column);

  FieldKind kind() const { return kind_; }
  // Returns the documents that have a value.
  const OrdinalBitmap& present() const { return present_; }
  // Returns the documents whose value is true, for a boolean field.
  const OrdinalBitmap& is_true() const { return is_true_; }
  const TermLists& terms() const { return terms_; }                    // of keyword and keywords
  const SortedValues<int64_t>& integers() const { return integers_; }  // of integer and time
  const SortedValues<double>& numbers() const { return numbers_; }     // of number

  int64_t memory_bytes() const;

 private:
  FieldKind kind_;
  OrdinalBitmap present_;
  OrdinalBitmap is_true_;
  TermLists terms_;
  SortedValues<int64_t> integers_;
  SortedValues<double> numbers_;
};

// The indexes of all fields of a shard. Thread-safe.
class ShardIndex {
 public:
  // `columns` has one column of `num_documents` documents for each field. `fields` must outlive the object.
  ShardIndex(const std::vector<Field>& fields, const std::vector<FieldColumn>& columns, int64_t num_documents);

  int64_t num_documents() const { return num_documents_; }
  const std::vector<Field>& fields() const { return fields_; }
  // Returns the index of a field, or null.
  const FieldIndex* Find(std::string_view name) const;

  int64_t memory_bytes() const;

 private:
  const std::vector<Field>& fields_;
  const int64_t num_documents_;
  std::vector<FieldIndex> indexes_;
};

// Returns an upper bound of the bytes that a document with these values adds to ShardIndex::memory_bytes(). An empty
// index takes at most kMaxIndexBytesPerField per field.
int64_t MaxIndexBytes(const std::vector<FieldValue>& values);
inline constexpr int64_t kMaxIndexBytesPerField = 1024;

// Returns an upper bound of ShardIndex::memory_bytes() for a shard whose field file has `file_bytes` (FieldFileBytes).
int64_t MaxIndexBytes(const std::vector<Field>& fields, int64_t num_documents, int64_t file_bytes);

}  // namespace maxsim::collection
