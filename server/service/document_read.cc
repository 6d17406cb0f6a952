#include "server/service/document_read.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/status.h"
#include "kernels/residual_codes.h"
#include "kernels/scalar_type.h"
#include "server/service/call/status.h"
#include "server/service/document_write.h"
#include "server/service/request/translate.h"

namespace maxsim::service {
namespace {

constexpr absl::Duration kReadRetryDelay = absl::Seconds(1);

// Bytes in the message, rounded up: the numbers of a document, and the overhead of a string.
constexpr uint64_t kDocumentBytes = 64;
constexpr uint64_t kDocumentStringBytes = 6;

absl::Status TooManyReaders(int limit) {
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat(limit, " calls with return_tokens are in progress, which is the limit"));
  client::SetRetryAfter(kReadRetryDelay, status);
  return status;
}

// Reads documents of one collection into one answer.
class Reader {
 public:
  Reader(const v1::GetRequest& request, const store::Collection& collection, const store::LiveDocuments* live,
         const RequestLimits& limits, v1::GetResponse* response)
      : request_(request), collection_(collection), live_(live), limits_(limits), response_(*response) {}

  absl::Status AddStrings(const v1::StringIds& ids) {
    const absl::Span<const std::string* const> all(ids.ids().data(), static_cast<size_t>(ids.ids_size()));
    return AddAll(
        all, [](const std::string* id) -> const std::string& { return *id; },
        [](const std::string& id, v1::StoredDocument& document) { document.set_string_id(id); },
        [this](const std::string& id) { response_.mutable_missing_string_ids()->add_ids(id); });
  }

  absl::Status AddInts(const v1::IntIds& ids) {
    const absl::Span<const int64_t> all(ids.ids().data(), static_cast<size_t>(ids.ids_size()));
    return AddAll(
        all, [](int64_t id) { return id; }, [](int64_t id, v1::StoredDocument& document) { document.set_int_id(id); },
        [this](int64_t id) { response_.mutable_missing_int_ids()->add_ids(id); });
  }

 private:
  // Adds the documents of the ids that the collection holds. `get` returns the id of an element in the list, `name`
  // writes it into a document, and `add_missing` notes an id that the collection does not hold.
  template <typename Element, typename Get, typename NameDocument, typename AddMissing>
  absl::Status AddAll(absl::Span<const Element> ids, Get get, NameDocument name, AddMissing add_missing) {
    std::vector<uint64_t> ordinals(ids.size());
    collection_.FindAll(ids, absl::MakeSpan(ordinals));
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto& id = get(ids[i]);
      if (ordinals[i] == store::IdIndex::kUnknown) {
        add_missing(id);
        continue;
      }
      const absl::StatusOr<uint64_t> version = live_ == nullptr ? 0 : live_->VersionOf(id);
      v1::StoredDocument& document = *response_.add_documents();
      name(id, document);
      if (absl::Status status = Fill(ordinals[i], version, document); !status.ok()) return status;
    }
    return CorrectVersions();
  }

  absl::Status Fill(uint64_t ordinal, const absl::StatusOr<uint64_t>& version, v1::StoredDocument& document) {
    if (!version.ok()) return version.status();
    const auto num_tokens = static_cast<uint64_t>(collection_.num_document_tokens(ordinal));
    const std::string_view payload = collection_.payload(ordinal);
    bytes_ +=
        kDocumentBytes + payload.size() + kDocumentStringBytes + document.string_id().size() + kDocumentStringBytes;
    if (request_.return_tokens()) {
      bytes_ += num_tokens * static_cast<uint64_t>(collection_.dim()) * SizeOf(ReadType(collection_.storage()));
    }
    if (bytes_ > limits_.max_answer_bytes) {
      return InvalidField("ids",
                          absl::StrCat("the first ", response_.documents_size(), " documents take ", bytes_,
                                       " bytes, and an answer has at most ", limits_.max_answer_bytes,
                                       " (limits.max_answer_bytes); ask for fewer, or without return_tokens"),
                          {limits_.max_answer_bytes, bytes_, "limits.max_answer_bytes"});
    }
    document.set_num_tokens(static_cast<uint32_t>(num_tokens));
    document.set_payload(std::string(payload));
    document.set_version(*version);
    document.set_sequence(collection_.sequence_of(ordinal));
    return request_.return_tokens() ? FillTokens(ordinal, document) : absl::OkStatus();
  }

  // Corrects versions that are not those of the documents read: if another write came in between, VersionOf returned
  // the version of that write. ABORTED if the version of a document is no longer known: then the document has been
  // replaced, and a newer snapshot of the collection is there, or soon is.
  absl::Status CorrectVersions() {
    if (live_ == nullptr || response_.documents_size() == 0) return absl::OkStatus();
    std::set<v1::StoredDocument*> written;
    const absl::Status status =
        live_->ReadBehind(collection_.sequence(), [&](const collection::LogRecord& record) -> absl::Status {
          for (v1::StoredDocument& document : *response_.mutable_documents()) {
            const bool is_same = document.has_int_id() ? document.int_id() == record.int_id
                                                       : std::string_view(document.string_id()) == record.string_id;
            if (is_same && record.kind != collection::LogRecord::Kind::kSkipped) written.insert(&document);
          }
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
  void Decode(const store::Collection::StoredDocument& stored, uint32_t num_tokens, std::string& data) const {
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

  absl::Status FillTokens(uint64_t ordinal, v1::StoredDocument& document) {
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

  const v1::GetRequest& request_;
  const store::Collection& collection_;
  const store::LiveDocuments* const live_;
  const RequestLimits& limits_;
  v1::GetResponse& response_;
  uint64_t bytes_ = 0;  // of the answer, but for the ids that are missing, which are those of the request
};

}  // namespace

absl::StatusOr<v1::GetResponse> ReadDocuments(const v1::GetRequest& request, const store::Collection& collection,
                                              const store::LiveDocuments* live, const RequestLimits& limits,
                                              ConcurrencyLimit* readers) {
  if (absl::Status status = CheckSequence(request.min_sequence(), collection); !status.ok()) return status;
  const DocumentRules rules = DocumentRulesOf(collection, limits);
  absl::Status status;
  switch (request.ids_case()) {
    case v1::GetRequest::kStringIds:
      status = CheckIds(request.string_ids(), rules, kMaxGetIds);
      break;
    case v1::GetRequest::kIntIds:
      status = CheckIds(request.int_ids(), rules, kMaxGetIds);
      break;
    case v1::GetRequest::IDS_NOT_SET:
      status = InvalidField("ids", "neither string_ids nor int_ids is set");
      break;
  }
  if (!status.ok()) return status;
  std::shared_ptr<const void> place;
  if (request.return_tokens()) {
    place = readers->TryTake();
    if (place == nullptr) return TooManyReaders(readers->limit());
  }
  v1::GetResponse response;
  response.set_generation(static_cast<uint64_t>(collection.manifest().generation));
  response.set_sequence(collection.sequence());
  Reader reader(request, collection, live, limits, &response);
  status = request.has_string_ids() ? reader.AddStrings(request.string_ids()) : reader.AddInts(request.int_ids());
  if (!status.ok()) return status;
  return response;
}

}  // namespace maxsim::service
