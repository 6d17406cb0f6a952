#include "server/service/documents/document_reader.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "kernels/residual_codes.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

constexpr absl::Duration kReadRetryDelay = absl::Seconds(1);

// Upper bounds of sizes in the answer, in bytes: the numbers of a document, and what a string takes beyond its
// characters.
constexpr uint64_t kDocumentBytes = 64;
constexpr uint64_t kDocumentStringBytes = 6;

// Finds the documents of an answer that have a given id. There may be several, because a Get request may name an id
// more than once. An index, because a log may have many records to look up.
class DocumentsById {
 public:
  explicit DocumentsById(DocumentReader::Documents& documents) {
    for (v1::StoredDocument& document : documents) {
      if (document.has_int_id()) {
        by_int_id_.emplace(document.int_id(), &document);
      } else {
        by_string_id_.emplace(document.string_id(), &document);
      }
    }
  }

  // Adds the documents that have the record's id to `written`.
  void Find(const collection::LogRecord& record, std::set<v1::StoredDocument*>& written) const {
    if (by_int_id_.empty()) {
      Insert(by_string_id_.equal_range(record.string_id), written);
    } else {
      Insert(by_int_id_.equal_range(record.int_id), written);
    }
  }

 private:
  template <typename Range>
  static void Insert(const Range& range, std::set<v1::StoredDocument*>& written) {
    for (auto found = range.first; found != range.second; ++found) written.insert(found->second);
  }

  std::multimap<std::string_view, v1::StoredDocument*> by_string_id_;
  std::multimap<int64_t, v1::StoredDocument*> by_int_id_;
};

}  // namespace

ConcurrencyLimit ReaderLimit() { return {kMaxReaders, "calls with return_tokens", kReadRetryDelay}; }

absl::StatusOr<bool> DocumentReader::Add(std::string_view id, uint64_t ordinal) {
  return AddAs(id, id.size(), ordinal, [&](v1::StoredDocument& document) { document.set_string_id(std::string(id)); });
}

absl::StatusOr<bool> DocumentReader::Add(int64_t id, uint64_t ordinal) {
  return AddAs(id, 0, ordinal, [&](v1::StoredDocument& document) { document.set_int_id(id); });
}

template <typename Id, typename SetId>
absl::StatusOr<bool> DocumentReader::AddAs(const Id& id, size_t id_bytes, uint64_t ordinal, SetId set_id) {
  const absl::StatusOr<uint64_t> version = live_ == nullptr ? 0 : live_->VersionOf(id);
  if (!version.ok()) return version.status();
  const auto num_tokens = static_cast<uint64_t>(collection_.num_document_tokens(ordinal));
  const std::string_view payload = parts_.payloads ? collection_.payload(ordinal) : std::string_view();
  num_bytes_ += kDocumentBytes + payload.size() + kDocumentStringBytes + id_bytes + kDocumentStringBytes;
  if (parts_.tokens) {
    num_bytes_ += num_tokens * static_cast<uint64_t>(collection_.dim()) * SizeOf(ReadType(collection_.storage()));
  }
  if (num_bytes_ > limits_.max_answer_bytes) return false;
  v1::StoredDocument& document = *documents_.Add();
  set_id(document);
  document.set_num_tokens(static_cast<uint32_t>(num_tokens));
  document.set_payload(std::string(payload));
  document.set_version(*version);
  document.set_sequence(collection_.sequence_of(ordinal));
  if (parts_.tokens) {
    if (absl::Status status = FillTokens(ordinal, document); !status.ok()) return status;
  }
  return true;
}

absl::Status DocumentReader::CorrectVersions() {
  if (live_ == nullptr || documents_.empty()) return absl::OkStatus();
  // Made only at the first record: usually the log has no record after the snapshot.
  std::optional<DocumentsById> by_id;
  std::set<v1::StoredDocument*> written;
  absl::Status status =
      live_->ReadBehind(collection_.sequence(), [&](const collection::LogRecord& record) -> absl::Status {
        if (record.kind == collection::LogRecord::Kind::kSkipped) return absl::OkStatus();
        if (!by_id.has_value()) by_id.emplace(documents_);
        by_id->Find(record, written);
        return absl::OkStatus();
      });
  if (absl::IsDataLoss(status)) return absl::AbortedError(status.message());
  if (!status.ok()) return status;
  for (v1::StoredDocument* const document : written) {
    if (document->sequence() == 0) return absl::AbortedError("a document was replaced while it was read");
    const absl::StatusOr<uint64_t> version = live_->VersionOfWrite(document->sequence());
    if (absl::IsDataLoss(version.status())) return absl::AbortedError(version.status().message());
    if (!version.ok()) return version.status();
    document->set_version(*version);
  }
  return absl::OkStatus();
}

// Writes the decoded vectors of a document of residual codes, in FP32.
void DocumentReader::Decode(const store::Collection::StoredDocument& stored, uint32_t num_tokens,
                            std::string& data) const {
  const auto dim = static_cast<size_t>(collection_.dim());
  const ResidualDecoder decoder(collection_.storage(), collection_.dim(), stored.codebook);
  std::vector<float> vector(dim);
  const std::byte* row = stored.rows.data();
  for (uint32_t token = 0; token < num_tokens; ++token) {
    decoder.DecodeRow(row, vector.data());
    data.append(reinterpret_cast<const char*>(vector.data()), dim * sizeof(float));
    row += RowBytes(collection_.storage(), collection_.dim());
  }
}

absl::Status DocumentReader::FillTokens(uint64_t ordinal, v1::StoredDocument& document) const {
  absl::StatusOr<store::Collection::StoredDocument> stored = collection_.ReadDocument(ordinal);
  if (!stored.ok()) return stored.status();
  v1::TokenMatrix& tokens = *document.mutable_tokens();
  tokens.set_dtype(static_cast<v1::DataType>(ReadType(collection_.storage())));
  tokens.set_num_tokens(document.num_tokens());
  tokens.set_dim(static_cast<uint32_t>(collection_.dim()));
  if (IsResidual(collection_.storage())) {
    Decode(*stored, document.num_tokens(), *tokens.mutable_data());
  } else {
    tokens.set_data(stored->rows.data(), stored->rows.size());
  }
  if (collection_.storage() == ScalarType::kI8) document.set_scale(stored->scale);
  return absl::OkStatus();
}

}  // namespace maxsim::service
