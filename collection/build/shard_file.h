// Writes one shard file, document by document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/output_file.h"
#include "collection/build/shard_plan.h"
#include "collection/catalog.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Writes a shard's file: the rows (token vectors) first, then the other sections, payloads last. A payload may be added
// before all rows are: it is written at its final place, and later read back once for the checksum. Takes memory for
// the buffers and four bytes per document. For one thread.
class ShardFile {
 public:
  // Begins the file `folder`/`name`. `plan` must come from PlanShards for `documents`. The catalog and the numbers in
  // `documents` must outlive the object. Allocates a buffer of `buffer_bytes`, and a second one if a payload is added
  // before all rows are.
  static absl::StatusOr<std::unique_ptr<ShardFile>> Create(const std::string& folder, const std::string& name,
                                                           const ShardPlan& plan, const ShardLayout& layout,
                                                           const Catalog& catalog, const DocumentList& documents,
                                                           size_t buffer_bytes = OutputFile::kBufferBytes);

  // Appends rows in their stored form.
  absl::Status AppendRows(const char* rows, int64_t num_rows);
  // Adds the next document's scale, of i8.
  void AddScale(float scale) { scales_.push_back(scale); }
  // Adds the next document's payload; "" if it has none. Returns FAILED_PRECONDITION if the size differs from the
  // catalog's.
  absl::Status AddPayload(std::string_view payload);

  // Returns the bytes written so far, without payloads that were added before all rows were.
  int64_t num_bytes() const { return file_->num_bytes(); }

  // Completes the file: syncs it to disk and gives it its name. Call it after all rows, scales and payloads were added.
  absl::StatusOr<ShardEntry> Finish();

 private:
  ShardFile(std::unique_ptr<OutputFile> file, std::string name, const ShardPlan& plan, const ShardLayout& layout,
            const Catalog& catalog, const DocumentList& documents, size_t buffer_bytes);

  bool has_all_rows() const { return num_rows_ == plan_.num_tokens; }
  int64_t document(int64_t idx) const { return documents_[plan_.first_document + idx]; }
  absl::Status WriteInt64(int64_t value) { return file_->Write(&value, sizeof(value)); }
  template <typename Step>
  absl::Status WriteOffsets(const Step& step);
  template <typename Value>
  absl::Status WriteInts(const Value& value);
  absl::Status WriteMiddle();
  absl::Status WriteStringIds();
  absl::Status FlushEarlyPayloads();

  const std::unique_ptr<OutputFile> file_;
  const std::string name_;
  const ShardPlan plan_;
  const ShardLayout layout_;
  const Catalog& catalog_;
  const DocumentList documents_;
  const size_t buffer_bytes_;
  int64_t num_rows_ = 0;
  int64_t num_payloads_ = 0;
  std::vector<float> scales_;
  bool has_middle_ = false;           // all sections before the payloads are written
  int64_t early_payload_bytes_ = 0;   // written ahead, or in the buffer
  std::vector<char> early_payloads_;  // the last of them
};

}  // namespace maxsim::collection
