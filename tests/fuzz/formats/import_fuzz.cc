// Fuzzes the import of an archive by maxsim-shard build: .npz or safetensors, also with quantised tokens. An accepted
// archive must have as many tokens, ids and payloads as its header says.
#include <algorithm>
#include <cstdint>

#include "collection/build/import.h"
#include "collection/formats/element_type.h"
#include "kernels/limits.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

// Reads all payloads. The import reads payloads here for the first time, so it may still refuse one.
void ReadPayloads(collection::Import& import) {
  for (const int32_t size : import.catalog->payload_sizes) {
    const absl::StatusOr<std::string_view> payload = import.payloads->Next();
    if (!payload.ok()) return RequireRefusal(payload.status());
    Require(static_cast<int32_t>(payload->size()) == size, "a payload has the size that the catalog says");
  }
}

void FuzzImport(std::string_view input) {
  const MemoryFile memory(input);
  collection::ImportOptions options;
  options.inputs = {memory.path()};
  absl::StatusOr<collection::Import> import = collection::OpenImport(options);
  if (!import.ok()) return RequireRefusal(import.status());
  int64_t sum = 0;
  for (const int32_t length : import->catalog->lengths) {
    Require(length >= 1 && length <= kMaxDocumentTokens, "a document's length is in range");
    sum += length;
  }
  Require(sum == import->tokens->num_tokens(), "the lengths sum to the tokens");
  Require(import->catalog->ids.size() == import->catalog->num_documents(), "an id a document");
  Require(import->tokens->dim() >= kMinDim && import->tokens->dim() <= kMaxDim, "the dimension is in range");
  Require(collection::ToScalarType(import->tokens->type()).has_value() ||
              import->tokens->type() == collection::ElementType::kF64,
          "tokens come out in a type that can be stored");
  for (int64_t left = sum; left > 0;) {
    const int64_t rows = std::min<int64_t>(left, 16);
    const absl::StatusOr<const void*> next = import->tokens->Next(rows);
    if (!next.ok()) return RequireRefusal(next.status());
    double total = 0;
    for (int64_t idx = 0; idx < rows * import->tokens->dim(); ++idx) {
      total += collection::LoadFloat(import->tokens->type(), *next, static_cast<size_t>(idx));
    }
    volatile double sink = total;
    static_cast<void>(sink);
    left -= rows;
  }
  if (import->payloads != nullptr) ReadPayloads(*import);
}

const Registration kImportTarget("import", &FuzzImport);

}  // namespace
}  // namespace maxsim::fuzz
