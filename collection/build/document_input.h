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
  // With `asked`, converts ids to that type, if nothing is lost. Without it the first id decides, and ids of the other
  // type are refused. `observer` (may be null) sees Stage::kReading of `num_documents`.
  IdCollector(std::optional<IdType> asked, int64_t num_documents, BuildObserver observer)
      : asked_(asked), num_documents_(num_documents), observer_(std::move(observer)) {}

  // INVALID_ARGUMENT for an id that cannot be converted or that IdList refuses, a duplicate among them; or the
  // observer's error.
  absl::Status Add(int64_t id);
  absl::Status Add(std::string_view id);

  // Hands over the catalog that holds the ids; the collector must not be used after that. Null if no id was
  // added.
  std::unique_ptr<Catalog> TakeCatalog() { return std::move(catalog_); }

 private:
  Catalog& CatalogOf(IdType type);
  absl::Status Report(const absl::Status& added) const;

  const std::optional<IdType> asked_;
  const int64_t num_documents_;
  const BuildObserver observer_;
  std::unique_ptr<Catalog> catalog_;
};

// Adds the place in the input to the error for a refused id. Leaves other errors as they are, such as the observer's.
absl::Status AtPlace(std::string_view place, const absl::Status& added);

// Call AddIds, ReadPayloadSizes, MakePayloads and MakeTokens in this order, each at most once. Do not call lengths()
// after MakeTokens.
class DocumentInput {
 public:
  virtual ~DocumentInput() = default;

  // Returns the input's path, for messages.
  virtual const std::string& path() const = 0;
  virtual int64_t dim() const = 0;

  // Returns the tokens of each document, checked: 1 .. kMaxDocumentTokens, and as many together as there are vectors.
  virtual const std::vector<int32_t>& lengths() const = 0;

  virtual bool HasIds() const = 0;
  // Adds as many ids as there are lengths. Only where HasIds().
  virtual absl::Status AddIds(IdCollector& ids) = 0;

  // Returns the size of each document's payload, 0 for none; empty if no document has one.
  virtual absl::StatusOr<std::vector<int32_t>> ReadPayloadSizes() = 0;

  // Returns the token vectors, of type f16, bf16, f32 or f64.
  virtual absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens() = 0;
  // Returns the payloads. Call it only if ReadPayloadSizes returned some.
  virtual std::unique_ptr<PayloadSource> MakePayloads() = 0;

  // Return the storage type and the encoder that a collection's manifest names; nullopt if none, and for other inputs.
  virtual std::optional<ScalarType> storage() const { return std::nullopt; }
  virtual std::optional<EncoderIdentity> encoder() const { return std::nullopt; }
  // Returns the positions of a partition's documents (positions.h), once; empty for other inputs.
  virtual std::vector<int64_t> TakePositions() { return {}; }
};

// These open the three kinds of inputs. Errors name the file and the place in it.
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenArchiveInput(const std::string& path);
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenNpyInput(const std::string& tokens, const std::string& lengths,
                                                            const std::string& scales);
// The collection's checksums are verified while its token vectors are read, and i8 vectors come out rotated back. Its
// files are opened one after another. FAILED_PRECONDITION for a live collection whose log has writes that the shards
// lack.
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenCollectionInput(const std::string& folder, Manifest manifest);

}  // namespace maxsim::collection
