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
  // Each input is an archive, .npz or safetensors, which are told apart by content, or the folder of a collection.
  // Their documents follow one another in this order. Without any, `tokens` and `lengths` name .npy files.
  std::vector<std::string> inputs = {};
  std::string tokens = {};   // [T, d], f16, f32, f64, or i8 with scales
  std::string lengths = {};  // [N], integers
  std::string scales = {};   // of i8 tokens; see quantized_tokens.h
  // A file that has the ids of all documents: JSON Lines, with a document per line, or plain text, with an id per line
  // (see DocumentLineReader). Without it the ids are those of the inputs, or else 0 .. N - 1.
  std::string ids = {};
  // The type of the ids. With nullopt the first id decides, and ids of the other type are refused. A given type
  // converts: an integer to its decimal text, or decimal text to an integer.
  std::optional<IdType> id_type = {};
  // The fields of the build, which lines of `ids` are checked against while they are read: a value that does not fit is
  // found before vectors are written.
  std::vector<Field> fields = {};
};

// INVALID_ARGUMENT if the files that are named do not go together; opens none.
absl::Status CheckImportOptions(const ImportOptions& options);

struct Import {
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<TokenSource> tokens;
  std::unique_ptr<PayloadSource> payloads;  // null when no document has a payload
  // Each is set only if all inputs are collections that agree on it.
  std::optional<ScalarType> storage = {};
  std::optional<EncoderIdentity> encoder = {};
  // FAILED_PRECONDITION if two inputs are collections of different encoders.
  absl::Status one_encoder = absl::OkStatus();
};

// Quantised tokens (i8, F8_E4M3) come out as f32: `tokens` never has another type than f16, bf16, f32 and f64, and
// inputs of different types come out as f32. Reads lengths and ids whole and checks them; tokens and payloads stream
// while the build runs. The files must not change until then. Every error names the file and the place in it.
// `observer` sees Stage::kReading.
absl::StatusOr<Import> OpenImport(const ImportOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
