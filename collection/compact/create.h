// Makes a live collection without documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/encoder_identity.h"
#include "collection/field.h"
#include "collection/manifest.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

struct CreateOptions {
  std::string name;
  int32_t dim = 0;
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8
  IdType id_type = IdType::kString;
  bool has_payloads = true;
  std::string created_by = "maxsim-shard";
  std::optional<EncoderIdentity> encoder = {};  // its dim is that of the collection
  std::optional<SlotRange> partition = {};      // not all slots; nullopt: the collection is whole
  std::optional<CodesFormat> codes = {};        // of every document; of i8 vectors with their rotation_seed
  std::vector<Field> fields = {};               // for filters; needs has_payloads
};

// Creates the folder, publishes generation 1 without shards, creates an empty log, and returns the manifest. Returns
// ALREADY_EXISTS if the folder has a manifest; FAILED_PRECONDITION if it has a log but no manifest, or if another
// process writes to it; INVALID_ARGUMENT for invalid options. A crash may leave a folder without a collection, or a
// collection without a log, which CollectionLog::Open then creates.
absl::StatusOr<Manifest> CreateLiveCollection(const std::string& folder, const CreateOptions& options);

}  // namespace maxsim::collection
