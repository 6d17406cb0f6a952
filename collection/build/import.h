// Opens a user's input files (.npy, .npz, safetensors, collections, JSON Lines, plain text) as the catalog and the
// sources of a build.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/encoder_identity.h"
#include "collection/field.h"
#include "collection/manifest.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

struct ImportOptions {
  // Paths of archives (.npz or safetensors, recognised by content) or of collections' folders. The result has their
  // documents in this order. If `inputs` is empty, `tokens` and `lengths` must name .npy files.
  std::vector<std::string> inputs = {};
  std::string tokens = {};   // [T, d], f16, f32, f64, or i8 with scales
  std::string lengths = {};  // [N], integers
  std::string scales = {};   // of i8 tokens; see quantized_tokens.h
  // A file with the ids of all documents: JSON Lines (one document per line) or plain text (one id per line); see
  // DocumentLineReader. If "", the inputs' own ids are used or, if they have none, 0 .. N - 1.
  std::string ids = {};
  // The type of the ids. Ids of the other type are converted: integers to decimal text, or decimal text to integers.
  // With nullopt, the first id sets the type, and ids of the other type are refused.
  std::optional<IdType> id_type = {};
  // The fields of the build. Their values in the file `ids` are checked early, before any vectors are written.
  std::vector<Field> fields = {};
};

// Returns INVALID_ARGUMENT if the named files cannot be combined. Opens no file.
absl::Status CheckImportOptions(const ImportOptions& options);

struct Import {
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<PayloadSource> payloads;  // null when no document has a payload
  // The inputs' storage type and encoder. Each is set only if all inputs are collections and have the same one.
  std::optional<ScalarType> storage = {};
  std::optional<EncoderIdentity> encoder = {};
  // FAILED_PRECONDITION if two inputs are collections of different encoders.
  absl::Status one_encoder = absl::OkStatus();
};

// Opens the input files. Reads and checks all lengths and ids, but leaves tokens and payloads for the build. The files
// must not change until the build ends. Import::tokens has type f16, bf16, f32 or f64: quantised tokens (i8, F8_E4M3)
// and inputs of different types become f32. Errors name the file and the place in it. `observer` sees Stage::kReading.
absl::StatusOr<Import> OpenImport(const ImportOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
