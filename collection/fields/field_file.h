// Parses the file with the values of a shard's fields. The format is described in docs/reference/formats.md.
//
// A field is a column over the shard's documents. A column of keywords has a sorted list of its distinct keywords
// (terms), and stores a keyword as its index in this list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/field.h"
#include "collection/fields/field_reader.h"
#include "collection/shard_contents.h"

namespace maxsim::collection {

inline constexpr std::string_view kFieldFileFormat = "maxsim-fields";
inline constexpr std::string_view kFieldFileFormatVersion = "1";

// The metadata key whose value is the text of the fields (FormatFields).
inline constexpr std::string_view kDeclarationsKey = "fields";

// Tensors are named FIELD.PART; these are the parts. The shard has N documents, a column K terms, and the lists of a
// keywords column L elements together.
inline constexpr std::string_view kFieldValues = "values";        // see FieldColumn
inline constexpr std::string_view kFieldPresent = "present";      // U8 [ceil(N / 8)]: of integer, number, boolean, time
inline constexpr std::string_view kTermOffsets = "term_offsets";  // I64 [K + 1]: of keyword and keywords
inline constexpr std::string_view kTermBytes = "term_bytes";      // U8 [B]: of keyword and keywords
inline constexpr std::string_view kListOffsets = "offsets";       // I64 [N + 1]: of keywords

// One field of a shard's documents. All members point into the parsed bytes, which must outlive this object. In arrays
// of bits, document n has bit n % 8 (0 is the lowest) of byte n / 8.
struct FieldColumn {
  FieldKind kind = FieldKind::kKeyword;
  int64_t num_documents = 0;
  int64_t num_present = 0;  // documents that have a value

  // The terms of a keyword or keywords field, in strictly ascending order of their bytes.
  int64_t num_terms = 0;
  Int64Array term_offsets;
  std::string_view term_bytes;
  // keyword: [N], 0 if the document has no value, else 1 + the index of its term. keywords: [L], the indices of the
  // terms of each document's list, strictly ascending within a list.
  FileArray<uint32_t> terms;
  Int64Array list_offsets;  // [N + 1] of keywords: the list of document n is terms[list_offsets[n] ...]

  Int64Array integers;               // [N] of integer and time; 0 if the document has no value
  FileArray<double> numbers;         // [N] of number; 0 if the document has no value
  const uint8_t* bits = nullptr;     // [N bits] of boolean; 0 if the document has no value
  const uint8_t* present = nullptr;  // [N bits] of integer, number, boolean and time: whether there is a value

  std::string_view term(int64_t idx) const {
    const int64_t begin = term_offsets[idx];
    return term_bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(term_offsets[idx + 1] - begin));
  }
  int64_t num_list_terms() const { return list_offsets[num_documents]; }
  bool has_value(int64_t document) const;
  // Returns the document's value as FieldReader reads it.
  FieldValue value(int64_t document) const;
};

// Parses a whole field file, which must have these fields and `num_documents` documents, and checks its structure. Does
// not check that the values are those in the payloads (fields_verifier.h). Returns a column for each field.
// INVALID_ARGUMENT names the tensor or key, its value and the expected one. Ignores unknown tensors and metadata.
// `stop` may be null; once it is stopped, returns its status.
absl::StatusOr<std::vector<FieldColumn>> ParseFieldFile(std::string_view bytes, const std::vector<Field>& fields,
                                                        int64_t num_documents, const StopSignal* stop = nullptr);

}  // namespace maxsim::collection
