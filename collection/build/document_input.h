// One of the inputs of a build: an archive, a pair of .npy files, or the folder of a collection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/encoder_identity.h"
#include "collection/manifest.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

// Collects the ids of the inputs, in their order, and converts them to one type.
class IdCollector {
 public:
  // If `asked` is set, converts ids of the other type to it, and refuses an id that would change. Without `asked`, the
  // first id sets the type, and ids of the other type are refused. `observer` may be null; it is called now and then
  // with Stage::kReading and with `num_documents` as the total.
  IdCollector(std::optional<IdType> asked, int64_t num_documents, BuildObserver observer)
      : asked_(asked), num_documents_(num_documents), observer_(std::move(observer)) {}

  // Adds an id. Returns INVALID_ARGUMENT if the id cannot be converted, is a duplicate, or is otherwise refused by
  // IdList. Returns the observer's error, if any.
  absl::Status Add(int64_t id);
  absl::Status Add(std::string_view id);

  // Returns the catalog with the ids, or null if no id was added. The collector must not be used after this call.
  std::unique_ptr<Catalog> TakeCatalog() { return std::move(catalog_); }

 private:
  Catalog& CatalogOf(IdType type);
  absl::Status Report(const absl::Status& added) const;

  const std::optional<IdType> asked_;
  const int64_t num_documents_;
  const BuildObserver observer_;
  std::unique_ptr<Catalog> catalog_;
};

// Prefixes an INVALID_ARGUMENT error with `place`, where in the input the id is. Returns any other status unchanged.
absl::Status AtPlace(std::string_view place, const absl::Status& added);

// The documents of one input. Call AddIds, ReadPayloadSizes, MakePayloads and MakeTokens in this order, each at most
// once. Do not call lengths() after MakeTokens.
class DocumentInput {
 public:
  virtual ~DocumentInput() = default;

  // Returns the input's path, for messages.
  virtual const std::string& path() const = 0;
  virtual int64_t dim() const = 0;

  // Returns the number of tokens of each document, already checked: each is 1 .. kMaxDocumentTokens, and their sum is
  // the number of vectors.
  virtual const std::vector<int32_t>& lengths() const = 0;

  virtual bool HasIds() const = 0;
  // Adds an id for each document. Call it only if HasIds().
  virtual absl::Status AddIds(IdCollector& ids) = 0;

  // Returns each document's payload size in bytes, 0 if it has no payload. Returns an empty list if none has one.
  virtual absl::StatusOr<std::vector<int32_t>> ReadPayloadSizes() = 0;

  // Returns the token vectors, of type f16, bf16, f32 or f64.
  virtual absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens() = 0;
  // Returns the payloads. Must not be called if ReadPayloadSizes returned an empty list.
  virtual std::unique_ptr<PayloadSource> MakePayloads() = 0;

  // Return the storage type and the encoder from the manifest if the input is a collection; otherwise nullopt.
  virtual std::optional<ScalarType> storage() const { return std::nullopt; }
  virtual std::optional<EncoderIdentity> encoder() const { return std::nullopt; }
  // If the input is a partition, returns its documents' positions (positions.h), otherwise an empty list. Call it once.
  virtual std::vector<int64_t> TakePositions() { return {}; }
};

// Open an archive, a pair of .npy files, or a collection. Errors name the file and the place in it.
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenArchiveInput(const std::string& path);
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenNpyInput(const std::string& tokens, const std::string& lengths,
                                                            const std::string& scales);
// Opens the collection's shards one after another, and verifies their checksums while the token vectors are read.
// Rotates i8 vectors back. Returns FAILED_PRECONDITION if the log of a live collection has writes that are not in the
// shards.
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenCollectionInput(const std::string& folder, Manifest manifest);

}  // namespace maxsim::collection
