// Makes a field file: the file with the values of a shard's fields (field_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collection/field.h"
#include "collection/fields/field_reader.h"

namespace maxsim::collection {

// Collects the values of documents and makes the file. Equal fields and values give equal bytes. For one thread.
class FieldFileMaker {
 public:
  // The fields must have passed CheckFields, and must outlive the object.
  explicit FieldFileMaker(const std::vector<Field>& fields);
  ~FieldFileMaker();
  FieldFileMaker(const FieldFileMaker&) = delete;
  FieldFileMaker& operator=(const FieldFileMaker&) = delete;

  // Adds the next document, with the fields in its payload. If FieldReader::Read fails, returns its error and adds
  // nothing.
  absl::Status Add(std::string_view payload);

  // Returns the bytes of the file.
  std::string Make() const;

 private:
  struct Column;
  const std::vector<Field>& fields_;
  FieldReader reader_;
  int64_t num_documents_ = 0;
  std::vector<Column> columns_;
};

}  // namespace maxsim::collection
