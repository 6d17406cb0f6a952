// Reads arrays from .npy files, and by name from .npz and safetensors archives.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/build/sources/byte_stream.h"
#include "collection/formats/element_type.h"

namespace maxsim::collection {

struct ArrayInput {
  std::string origin;  // "docs.npz: lengths", for messages
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  std::unique_ptr<ByteStream> bytes;  // stands at the first element
};

// Returns the array of a .npy file.
absl::StatusOr<ArrayInput> OpenNpyArray(const std::string& path);

// Holds an archive of arrays, .npz or safetensors.
class ArrayArchive {
 public:
  virtual ~ArrayArchive() = default;
  virtual bool Has(const std::string& name) const = 0;
  // Returns an entry of a safetensors file's metadata; nullopt if there is no such key, and always for .npz.
  virtual std::optional<std::string> FindMetadata(std::string_view key) const = 0;
  // If there is no array with this name, returns NOT_FOUND with the existing names.
  virtual absl::StatusOr<ArrayInput> Open(const std::string& name) const = 0;
};

absl::StatusOr<std::unique_ptr<ArrayArchive>> OpenArchive(const std::string& path);

// Reads a one-dimensional integer array, and passes each element to `take`. Fails if there are more than `max_count`.
// The first error of `take` ends the reading and is returned.
absl::Status ForEachInteger(ArrayInput& array, int64_t max_count,
                            absl::FunctionRef<absl::Status(int64_t idx, int64_t value)> take);

// Returns a one-dimensional integer array. Fails if it has more than `max_count` elements.
absl::StatusOr<std::vector<int64_t>> ReadIntegers(ArrayInput& array, int64_t max_count);

}  // namespace maxsim::collection
