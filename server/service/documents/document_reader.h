// Reads documents into an answer, for Documents.Get and Documents.Scroll.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "kernels/scalar_type.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// The maximum number of calls that read token vectors at the same time. More would take threads from other calls.
inline constexpr int kMaxReaders = 2;

// Returns the type in which a collection's token vectors are returned: its storage type, or F32 for residual codes,
// which are decoded.
constexpr ScalarType ReadType(ScalarType storage) { return IsResidual(storage) ? ScalarType::kF32 : storage; }

// Limits calls that read token vectors to kMaxReaders at a time.
ConcurrencyLimit ReaderLimit();

// Reads documents of one snapshot. For one thread at a time.
class DocumentReader {
 public:
  struct Parts {
    bool payloads = true;
    bool tokens = false;
  };
  using Documents = google::protobuf::RepeatedPtrField<v1::StoredDocument>;

  // All arguments must outlive the reader. `live` gives the versions; if it is null, documents have none. The reader
  // adds documents to `documents`, which must be empty.
  DocumentReader(Parts parts, const store::Collection& collection, const store::LiveDocuments* live,
                 const RequestLimits& limits, Documents* documents)
      : parts_(parts), collection_(collection), live_(live), limits_(limits), documents_(*documents) {}

  // Add the document that has this id and ordinal (number in the collection). If the answer would become larger than
  // limits.max_answer_bytes, they return false and add nothing; num_bytes() is then that size. Call only the method for
  // the collection's type of ids. Errors are those of the log and of Collection::ReadDocument.
  absl::StatusOr<bool> Add(std::string_view id, uint64_t ordinal);
  absl::StatusOr<bool> Add(int64_t id, uint64_t ordinal);

  // Call it after the last document. If a document was written after the snapshot, the version found for it may be that
  // of the later write. Corrects such versions to those of the documents that were read. Returns ABORTED if such a
  // version is no longer known; then read again from a newer snapshot, which comes within milliseconds.
  absl::Status CorrectVersions();

  uint64_t num_bytes() const { return num_bytes_; }  // of the documents in the answer, rounded up

 private:
  template <typename Id, typename SetId>
  absl::StatusOr<bool> AddAs(const Id& id, size_t id_bytes, uint64_t ordinal, SetId set_id);
  absl::Status FillTokens(uint64_t ordinal, v1::StoredDocument& document) const;
  void Decode(const store::Collection::StoredDocument& stored, uint32_t num_tokens, std::string& data) const;

  const Parts parts_;
  const store::Collection& collection_;
  const store::LiveDocuments* const live_;
  const RequestLimits& limits_;
  Documents& documents_;
  uint64_t num_bytes_ = 0;
};

}  // namespace maxsim::service
