#include "collection/build/shard_file.h"

#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

absl::StatusOr<std::unique_ptr<ShardFile>> ShardFile::Create(const std::string& folder, const std::string& name,
                                                             const ShardPlan& plan, const ShardLayout& layout,
                                                             const Catalog& catalog, const DocumentList& documents,
                                                             size_t buffer_bytes) {
  absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(JoinPath(folder, name), buffer_bytes);
  if (!output.ok()) return output.status();
  if (absl::Status status = (*output)->Write(FormatShardHeader(plan, layout)); !status.ok()) return status;
  return std::unique_ptr<ShardFile>(
      new ShardFile(*std::move(output), name, plan, layout, catalog, documents, buffer_bytes));
}

ShardFile::ShardFile(std::unique_ptr<OutputFile> file, std::string name, const ShardPlan& plan,
                     const ShardLayout& layout, const Catalog& catalog, const DocumentList& documents,
                     size_t buffer_bytes)
    : file_(std::move(file)),
      name_(std::move(name)),
      plan_(plan),
      layout_(layout),
      catalog_(catalog),
      documents_(documents),
      buffer_bytes_(buffer_bytes) {}

absl::Status ShardFile::AppendRows(const char* rows, int64_t num_rows) {
  num_rows_ += num_rows;
  return file_->Write(rows, static_cast<size_t>(num_rows * layout_.dim) * SizeOf(layout_.storage));
}

absl::Status ShardFile::AddPayload(std::string_view payload) {
  const int64_t number = document(num_payloads_++);
  if (static_cast<int64_t>(payload.size()) != catalog_.payload_sizes[static_cast<size_t>(number)]) {
    return absl::FailedPreconditionError(Cat("the payload of document ", number, ", id ", catalog_.ids.Format(number),
                                             ", is not what was read first: ", "the input changed during the build"));
  }
  if (has_all_rows()) {
    absl::Status status = WriteMiddle();
    return status.ok() ? file_->Write(payload) : status;
  }
  if (early_payloads_.size() + payload.size() > buffer_bytes_) {
    if (absl::Status status = FlushEarlyPayloads(); !status.ok()) return status;
  }
  early_payloads_.insert(early_payloads_.end(), payload.begin(), payload.end());
  early_payload_bytes_ += static_cast<int64_t>(payload.size());
  return absl::OkStatus();
}

// Writes the buffered payloads to their place at the end of the file.
absl::Status ShardFile::FlushEarlyPayloads() {
  const int64_t end = plan_.num_bytes - plan_.payload_bytes + early_payload_bytes_;
  absl::Status status = file_->WriteAhead(end - static_cast<int64_t>(early_payloads_.size()), early_payloads_.data(),
                                          early_payloads_.size());
  early_payloads_.clear();
  return status;
}

template <typename Step>
absl::Status ShardFile::WriteOffsets(const Step& step) {
  int64_t offset = 0;
  absl::Status status = WriteInt64(offset);
  for (int64_t idx = 0; idx < plan_.num_documents && status.ok(); ++idx) {
    offset += step(document(idx));
    status = WriteInt64(offset);
  }
  return status;
}

template <typename Value>
absl::Status ShardFile::WriteInts(const Value& value) {
  absl::Status status;
  for (int64_t idx = 0; idx < plan_.num_documents && status.ok(); ++idx) status = WriteInt64(value(document(idx)));
  return status;
}

absl::Status ShardFile::WriteStringIds() {
  absl::Status status;
  for (int64_t idx = 0; idx < plan_.num_documents && status.ok(); ++idx) {
    status = file_->Write(catalog_.ids.string_id(document(idx)));
  }
  return status;
}

// Writes the sections between the token rows and the payloads, in the order of FormatShardHeader.
absl::Status ShardFile::WriteMiddle() {
  if (std::exchange(has_middle_, true)) return absl::OkStatus();
  const bool has_string_ids = layout_.id_type == IdType::kString;
  absl::Status status =
      WriteOffsets([&](int64_t document) { return int64_t{catalog_.lengths[static_cast<size_t>(document)]}; });
  if (status.ok() && layout_.has_ordinals) {
    status = WriteInts([&](int64_t document) { return catalog_.position(document); });
  }
  if (status.ok() && !has_string_ids)
    status = WriteInts([&](int64_t document) { return catalog_.ids.int_id(document); });
  if (status.ok() && has_string_ids) {
    status = WriteOffsets([&](int64_t document) { return catalog_.ids.num_bytes(document); });
  }
  if (status.ok() && layout_.has_payloads) {
    // The manifest may declare payloads although no document has one (BuildOptions::has_payloads).
    status = WriteOffsets([&](int64_t document) {
      return catalog_.has_payloads() ? int64_t{catalog_.payload_sizes[static_cast<size_t>(document)]} : 0;
    });
  }
  if (status.ok()) status = file_->Write(scales_.data(), scales_.size() * sizeof(float));
  if (status.ok() && has_string_ids) status = WriteStringIds();
  if (!status.ok() || early_payload_bytes_ == 0) return status;
  status = FlushEarlyPayloads();
  return status.ok() ? file_->TakeAhead(early_payload_bytes_) : status;
}

absl::StatusOr<ShardEntry> ShardFile::Finish() {
  if (absl::Status status = WriteMiddle(); !status.ok()) return status;
  if (file_->num_bytes() != plan_.num_bytes) {
    return absl::InternalError(Cat(name_, ": ", file_->num_bytes(), " bytes written, ", plan_.num_bytes, " planned"));
  }
  ShardEntry entry{name_, plan_.num_documents, plan_.num_tokens, plan_.num_bytes, file_->checksum()};
  if (absl::Status status = file_->Commit(); !status.ok()) return status;
  return entry;
}

}  // namespace maxsim::collection
