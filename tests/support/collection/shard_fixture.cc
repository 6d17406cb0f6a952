#include "tests/support/collection/shard_fixture.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/sources/memory_sources.h"
#include "gtest/gtest.h"

namespace maxsim::collection {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "maxsim-shard-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Path(std::string_view name) const { return JoinPath(path_, name); }

void WriteBytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  EXPECT_TRUE(file.good()) << path;
  if (!file.good()) return "";
  // Reads the whole file at once. Reading byte by byte took a third of the time of some tests in unoptimised builds.
  std::string bytes(static_cast<size_t>(file.tellg()), '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
  return bytes;
}

std::string NpyBytes(std::string_view descr, std::string_view shape, std::string_view data, int version) {
  std::string text = Cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }");
  const size_t fixed = version == 1 ? 10 : 12;
  text.append(63 - (fixed + text.size()) % 64, ' ');
  text += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (size_t idx = 0; idx < fixed - 8; ++idx) bytes += static_cast<char>(text.size() >> (8 * idx) & 0xff);
  return Cat(bytes, text, data);
}

int64_t SmallCollection::num_tokens() const {
  int64_t sum = 0;
  for (const int32_t length : lengths) sum += length;
  return sum;
}

std::vector<float> SmallCollection::Values() const {
  std::vector<float> values;
  for (int64_t token = 0; token < num_tokens(); ++token) {
    for (int32_t column = 0; column < dim; ++column) values.push_back(Value(token, column));
  }
  return values;
}

std::unique_ptr<Catalog> SmallCollection::MakeCatalog() const {
  auto catalog = std::make_unique<Catalog>(id_type);
  catalog->lengths = lengths;
  for (size_t idx = 0; idx < lengths.size(); ++idx) {
    const absl::Status added =
        id_type == IdType::kString ? catalog->ids.Add(std::string_view(ids[idx])) : catalog->ids.Add(int_ids[idx]);
    EXPECT_TRUE(added.ok()) << added;
  }
  for (const std::string& payload : payloads) catalog->payload_sizes.push_back(static_cast<int32_t>(payload.size()));
  return catalog;
}

absl::StatusOr<Manifest> BuildSmall(const SmallCollection& collection, const BuildOptions& options,
                                    const BuildObserver& observer) {
  const std::vector<float> values = collection.Values();
  MemoryTokens tokens(ElementType::kF32, collection.dim, collection.num_tokens(), values.data());
  MemoryPayloads payloads(collection.payloads);
  return BuildCollection(options, *collection.MakeCatalog(), tokens, collection.payloads.empty() ? nullptr : &payloads,
                         observer);
}

std::vector<std::string> FilesIn(const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> files = ListFiles(folder);
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return {};
  return *std::move(files);
}

std::string CranfieldFolder() {
  const char* root = std::getenv("MAXSIM_SHARED_DATA");
  for (const std::string& folder : {std::string(root != nullptr ? root : ""), std::string("../shared/data")}) {
    if (folder.empty()) continue;
    std::string path = JoinPath(folder, "cranfield");
    if (std::filesystem::exists(JoinPath(path, "tokens.npy"))) return path;
  }
  return "";
}

}  // namespace maxsim::collection
