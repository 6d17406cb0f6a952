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

// Takes the ids of one input after the other, and makes them of one type.
class IdCollector {
 public:
  // With `asked` ids are converted to that type, where nothing is lost. Without it the first id decides, and one of the
  // other type is refused. `observer` (may be null) sees Stage::kReading of `num_documents`.
  IdCollector(std::optional<IdType> asked, int64_t num_documents, BuildObserver observer)
      : asked_(asked), num_documents_(num_documents), observer_(std::move(observer)) {}

  // INVALID_ARGUMENT for an id that cannot be converted or that IdList refuses, a duplicate among them; or the
  // observer's error.
  absl::Status Add(int64_t id);
  absl::Status Add(std::string_view id);

  // Returns the catalog that holds the ids; it is handed over, and the collector is used no more. Null before the
  // first.
  std::unique_ptr<Catalog> TakeCatalog() { return std::move(catalog_); }

 private:
  Catalog& CatalogOf(IdType type);
  absl::Status Report(const absl::Status& added) const;

  const std::optional<IdType> asked_;
  const int64_t num_documents_;
  const BuildObserver observer_;
  std::unique_ptr<Catalog> catalog_;
};

// Names the place of an id that was refused, and leaves other errors alone, such as the observer's.
absl::Status AtPlace(std::string_view place, const absl::Status& added);

// AddIds, ReadPayloadSizes, MakePayloads and MakeTokens are called in this order, each at most once. lengths() is not
// called behind MakeTokens.
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

  // Returns the bytes of each document's payload, 0 for none; empty when no document has one.
  virtual absl::StatusOr<std::vector<int32_t>> ReadPayloadSizes() = 0;

  // Returns the token vectors, of type f16, bf16, f32 or f64.
  virtual absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens() = 0;
  // Returns the payloads; only where ReadPayloadSizes returned some.
  virtual std::unique_ptr<PayloadSource> MakePayloads() = 0;

  // What a collection says of its vectors; nullopt for other inputs, and for what it does not say.
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
// files are opened one after the other. FAILED_PRECONDITION for a live collection whose log has writes that the shards
// lack.
absl::StatusOr<std::unique_ptr<DocumentInput>> OpenCollectionInput(const std::string& folder, Manifest manifest);

}  // namespace maxsim::collection
