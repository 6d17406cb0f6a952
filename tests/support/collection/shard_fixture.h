// Makes folders, files and small collections for the tests of collection/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/catalog.h"
#include "collection/manifest.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

// Makes a folder, and removes it with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string Path(std::string_view name) const;

 private:
  std::string path_;
};

void WriteBytes(const std::string& path, std::string_view bytes);
std::string ReadBytes(const std::string& path);

// Returns the bytes of a .npy file. `shape` is the text of a Python tuple, such as "(3, 4)" or "(5,)".
std::string NpyBytes(std::string_view descr, std::string_view shape, std::string_view data, int version = 1);
template <typename T>
std::string AsBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Documents in memory. Document i has lengths[i] tokens. The values are small multiples of 1/16.
struct SmallCollection {
  int32_t dim = 8;
  std::vector<int32_t> lengths = {3, 1, 7, 2};
  IdType id_type = IdType::kString;
  std::vector<std::string> ids = {"alpha", "b", "gamma-\xc3\xa9", "4"};
  std::vector<int64_t> int_ids = {-5, 0, 9'000'000'000, INT64_MAX};
  std::vector<std::string> payloads;  // empty: none

  int64_t num_tokens() const;
  // Returns the value of a token in a column.
  static float Value(int64_t token, int32_t column) {
    return static_cast<float>((token * 7 + column * 3) % 31 - 15) / 16.0f;
  }
  std::vector<float> Values() const;
  std::unique_ptr<Catalog> MakeCatalog() const;
};

// Builds the collection from FP32 values.
absl::StatusOr<Manifest> BuildSmall(const SmallCollection& collection, const BuildOptions& options,
                                    const BuildObserver& observer = nullptr);

// Returns the names of the files in the folder, without the lock.
std::vector<std::string> FilesIn(const std::string& folder);

// Returns the folder with the Cranfield data, or "" if there is none.
std::string CranfieldFolder();

}  // namespace maxsim::collection
