// The files that hold a shard's codes.
#include "collection/codes/shard_codes.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collection/codes/code_file.h"
#include "collection/codes/codes_verifier.h"
#include "collection/formats/safetensors.h"
#include "kernels/codes/encode.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/codes/codes_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

std::string Bytes(const void* data, size_t count) { return {static_cast<const char*>(data), count}; }

// Encodes the stored vectors in memory and compares the result with the stored codes.
void ExpectCodesOf(const DocumentsView& documents, const CodesView& view) {
  ASSERT_TRUE(ValidateCodes(view).ok()) << ValidateCodes(view);
  const auto encoded = EncodedDocuments::Encode(view.shape, documents);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  const CodesView expected = encoded->view(view.planes);
  const auto num_tokens = static_cast<size_t>(view.num_tokens());
  const auto num_documents = static_cast<size_t>(view.num_documents);
  const size_t row = PlaneRowBytes(view.shape.dim);
  ASSERT_EQ(view.num_documents, expected.num_documents);
  EXPECT_EQ(Bytes(view.plane0, num_tokens * row), Bytes(expected.plane0, num_tokens * row));
  if (view.planes >= 2) {
    EXPECT_EQ(Bytes(view.plane1, num_tokens * row), Bytes(expected.plane1, num_tokens * row));
  }
  if (view.planes == 4) {
    EXPECT_EQ(Bytes(view.planes23, num_tokens * 2 * row), Bytes(expected.planes23, num_tokens * 2 * row));
  }
  if (view.shape.factors) {
    EXPECT_EQ(Bytes(view.factors, num_tokens), Bytes(expected.factors, num_tokens));
  }
  EXPECT_EQ(Bytes(view.scales, num_documents * sizeof(float)), Bytes(expected.scales, num_documents * sizeof(float)));
  for (const int planes : {1, 2, 4}) {
    const int idx = BoundIndex(planes);
    EXPECT_EQ(view.bounds[idx] == nullptr, planes > view.planes);
    if (planes > view.planes) continue;
    EXPECT_EQ(Bytes(view.bounds[idx], num_documents * sizeof(CodeBound)),
              Bytes(expected.bounds[idx], num_documents * sizeof(CodeBound)));
  }
}

// Dimensions below, at and above a word of a row of codes, and the largest.
std::vector<int32_t> Dims() {
  if (test::kSanitized) return {33, 4096};
  return {8, 33, 96, 128, 4096};
}

class ShardCodesCases : public ::testing::TestWithParam<std::tuple<ScalarType, int32_t, bool>> {};

TEST_P(ShardCodesCases, TheFilesHoldTheCodesOfTheStoredVectors) {
  const auto [storage, dim, norms_differ] = GetParam();
  const RandomDocuments random(dim > 1000 ? 6 : 60, dim, norms_differ);
  for (const int planes : {1, 2, 4}) {
    TemporaryFolder folder;
    const auto manifest = random.Build({.folder = folder.path(),
                                        .name = "x",
                                        .storage = storage,
                                        .rotation_seed = storage == ScalarType::kI8 ? uint64_t{5} : 0,
                                        .max_shard_bytes = 30'000,
                                        .codes = {.planes = planes, .rotation_seed = 6}});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    if (dim >= 96) {
      EXPECT_GT(manifest->shards.size(), 1);
    }
    ASSERT_TRUE(manifest->codes.has_value());
    EXPECT_EQ(*manifest->codes,
              (CodesFormat{planes, norms_differ, storage == ScalarType::kI8 ? uint64_t{5} : uint64_t{6}}));
    for (size_t idx = 0; idx < manifest->shards.size(); ++idx) {
      for (int opened = 1; opened <= planes; opened *= 2) {
        for (const Access access : {Access::kMapped, Access::kCopied}) {
          const OpenedCodes codes = OpenCodes(folder.path(), *manifest, idx, opened, access);
          EXPECT_EQ(codes.view().planes, opened);
          ExpectCodesOf(codes.shard->documents(), codes.view());
          EXPECT_TRUE(codes.codes->Check().ok());
          EXPECT_EQ(codes.codes->num_bytes(), CodeFileBytes(manifest->shards[idx], opened));
          EXPECT_LE(codes.codes->host_bytes(), codes.codes->num_bytes());
        }
      }
    }
    ExpectSound(folder.path());
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ShardCodesCases,
                         ::testing::Combine(::testing::Values(ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32,
                                                              ScalarType::kI8),
                                            ::testing::ValuesIn(Dims()), ::testing::Bool()));

class ShardCodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto manifest =
        random_.Build({.folder = folder_.path(), .name = "x", .codes = {.planes = 4, .rotation_seed = 6}});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *manifest;
    ASSERT_EQ(manifest_.shards.size(), 1);
    ASSERT_TRUE(manifest_.codes->factors);
  }

  std::string PathOf(size_t file) { return folder_.Path(manifest_.shards[0].code_files[file].file); }
  absl::StatusOr<std::shared_ptr<ShardCodes>> Open(int planes, Access access, bool check_checksum = true) {
    return ShardCodes::Open(folder_.path(), manifest_, manifest_.shards[0], planes, access, check_checksum);
  }

  // Writes a file of codes and updates its size and checksum in the manifest.
  void Write(size_t file, const std::string& bytes) {
    WriteBytes(PathOf(file), bytes);
    CodeFileEntry& entry = manifest_.shards[0].code_files[file];
    entry.num_bytes = static_cast<int64_t>(bytes.size());
    Checksum checksum;
    checksum.Update(bytes.data(), bytes.size());
    entry.checksum = checksum.Format();
  }
  // Overwrites bytes of a tensor.
  void Patch(size_t file, std::string_view tensor_name, int64_t at, std::string_view patch) {
    std::string bytes = ReadBytes(PathOf(file));
    const auto header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
    ASSERT_TRUE(header.ok());
    const SafetensorsTensor* tensor = header->Find(tensor_name);
    ASSERT_NE(tensor, nullptr);
    bytes.replace(static_cast<size_t>(tensor->begin + at), patch.size(), patch);
    Write(file, bytes);
  }

  RandomDocuments random_{40, 40, true};
  TemporaryFolder folder_;
  Manifest manifest_;
};

TEST_F(ShardCodesTest, FilesOfPlanesThatAreNotAskedForNeedNotBeThere) {
  ASSERT_EQ(::unlink(PathOf(2).c_str()), 0);
  for (const Access access : {Access::kMapped, Access::kCopied}) {
    EXPECT_TRUE(Open(1, access).ok());
    EXPECT_TRUE(Open(2, access).ok());
    EXPECT_TRUE(absl::IsNotFound(Open(4, access).status())) << Open(4, access).status();
  }
  ASSERT_EQ(::unlink(PathOf(1).c_str()), 0);
  EXPECT_TRUE(Open(1, Access::kMapped).ok());
  EXPECT_TRUE(absl::IsNotFound(Open(2, Access::kMapped).status()));
}

TEST_F(ShardCodesTest, PlanesThatAreNotStoredAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Open(3, Access::kMapped).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Open(0, Access::kMapped).status()));
  manifest_.codes->planes = 2;
  manifest_.shards[0].code_files.pop_back();
  EXPECT_TRUE(Open(2, Access::kMapped).ok());
  EXPECT_THAT(std::string(Open(4, Access::kMapped).status().message()), HasSubstr("planes: 4"));
  manifest_.codes.reset();
  EXPECT_TRUE(absl::IsInvalidArgument(Open(1, Access::kMapped).status()));
}

TEST_F(ShardCodesTest, ReleasedPlanesAreGoneAndTheRestStays) {
  const OpenedCodes opened = OpenCodes(folder_.path(), manifest_, 0, 4);
  std::string rows(manifest_.num_tokens * PlaneRowBytes(40), '\0');
  ASSERT_TRUE(opened.codes->Read(opened.view().plane1, rows.size(), rows.data()).ok());
  EXPECT_EQ(rows, Bytes(opened.view().plane1, rows.size()));
  const float scale = opened.view().scales[3];
  opened.codes->ReleasePlanes();
  const CodesView view = opened.view();
  EXPECT_EQ(view.plane0, nullptr);
  EXPECT_EQ(view.planes23, nullptr);
  EXPECT_EQ(view.factors, nullptr);
  EXPECT_EQ(view.scales[3], scale);
  EXPECT_NE(view.bounds[2], nullptr);
  WriteBytes(PathOf(0), "x");
  EXPECT_TRUE(opened.codes->Check().ok());
}

TEST_F(ShardCodesTest, AFileThatIsWrittenToWhileItIsMappedIsNoticed) {
  const OpenedCodes mapped = OpenCodes(folder_.path(), manifest_, 0, 4);
  const OpenedCodes copied = OpenCodes(folder_.path(), manifest_, 0, 4, Access::kCopied);
  std::filesystem::resize_file(PathOf(1), 4096);
  volatile uint8_t sink = mapped.view().plane1[0];
  static_cast<void>(sink);
  EXPECT_TRUE(absl::IsDataLoss(mapped.codes->Check())) << mapped.codes->Check();
  EXPECT_THAT(std::string(mapped.codes->Check().message()), HasSubstr("plane1"));
  EXPECT_TRUE(copied.codes->Check().ok());
}

TEST_F(ShardCodesTest, CutFilesAreRefused) {
  for (size_t file = 0; file < 3; ++file) {
    const std::string bytes = ReadBytes(PathOf(file));
    const size_t times = test::kSanitized ? 15 : 1;
    for (size_t size = 0; size < bytes.size(); size += times * (size < 600 || size + 200 > bytes.size() ? 7 : 113)) {
      WriteBytes(PathOf(file), bytes.substr(0, size));
      for (const Access access : {Access::kMapped, Access::kCopied}) {
        const absl::Status status = Open(4, access, false).status();
        EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("but the manifest says"));
      }
      // A manifest that agrees does not help.
      const Manifest before = manifest_;
      Write(file, bytes.substr(0, size));
      for (const Access access : {Access::kMapped, Access::kCopied}) {
        const absl::Status status = Open(4, access).status();
        EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(manifest_.shards[0].code_files[file].file));
      }
      manifest_ = before;
    }
    WriteBytes(PathOf(file), bytes + "x");
    EXPECT_TRUE(absl::IsDataLoss(Open(4, Access::kMapped, false).status()));
    WriteBytes(PathOf(file), bytes);
  }
  EXPECT_TRUE(Open(4, Access::kMapped).ok());
}

TEST_F(ShardCodesTest, FlippedBitsAreFoundByTheChecksumAndNeverCrash) {
  std::mt19937 random(3);
  ThreadPool pool(1);
  const std::shared_ptr<Shard> shard = OpenCodes(folder_.path(), manifest_, 0, 4).shard;
  for (size_t file = 0; file < 3; ++file) {
    const std::string bytes = ReadBytes(PathOf(file));
    for (int round = 0; round < (test::kSanitized ? 20 : 200); ++round) {
      std::string changed = bytes;
      // Every second round changes one of the first 900 bytes. These hold the header and, before it, its length.
      const size_t at = random() % (round % 2 == 0 ? 900 : bytes.size());
      changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
      WriteBytes(PathOf(file), changed);
      for (const Access access : {Access::kMapped, Access::kCopied}) {
        const absl::Status found = Open(4, access).status();
        EXPECT_TRUE(absl::IsDataLoss(found)) << "byte " << at << ": " << found;
        const auto opened = Open(4, access, false);
        if (!opened.ok()) {
          EXPECT_TRUE(absl::IsDataLoss(opened.status())) << opened.status();
          continue;
        }
        const DocumentsView& documents = shard->documents();
        EXPECT_TRUE(ValidateCodes((*opened)->view(documents)).ok());
        FindWrongCodes((*opened)->view(documents), documents, 1, pool);  // reads every byte
      }
    }
    WriteBytes(PathOf(file), bytes);
  }
}

TEST_F(ShardCodesTest, ScalesAndBoundsThatNoDocumentHasAreRefused) {
  const auto as_bytes = [](auto value) { return Bytes(&value, sizeof(value)); };
  const auto refused = [&](size_t file, std::string_view tensor, int64_t at, const std::string& patch,
                           std::string_view expected) {
    const std::string bytes = ReadBytes(PathOf(file));
    Patch(file, tensor, at, patch);
    for (const Access access : {Access::kMapped, Access::kCopied}) {
      const absl::Status status = Open(4, access).status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(expected)));
    }
    Write(file, bytes);
  };
  refused(0, "scales", 8, as_bytes(-1.0f), "scales[2]: -1");
  refused(0, "scales", 8, as_bytes(std::nanf("")), "scales[2]: nan");
  refused(0, "scales", 0, as_bytes(std::numeric_limits<float>::infinity()), "scales[0]: inf");
  for (size_t file = 0; file < 3; ++file) {
    for (int64_t number = 0; number < 4; ++number) {
      refused(file, "bounds", 5 * 8 + number * 2, as_bytes(uint16_t{0x7c00}), "bounds[5]: (");
      refused(file, "bounds", 5 * 8 + number * 2, as_bytes(uint16_t{0x7e00}), "bounds[5]: (");
      refused(file, "bounds", 5 * 8 + number * 2, as_bytes(uint16_t{0xbc00}), "bounds[5]: (");
    }
  }
  EXPECT_TRUE(Open(4, Access::kMapped).ok());
}

TEST_F(ShardCodesTest, FilesOfOtherCodesAreRefused) {
  const auto refused = [&](const std::function<void(Manifest&)>& change, std::string_view expected) {
    const Manifest before = manifest_;
    change(manifest_);
    const absl::Status status = Open(manifest_.codes->planes, Access::kMapped).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(expected)));
    manifest_ = before;
  };
  refused([](Manifest& manifest) { manifest.codes->rotation_seed = 7; }, "rotation_seed: \"6\", expected \"7\"");
  refused([](Manifest& manifest) { manifest.codes->factors = false; }, "factors: the codes of this file have none");
  refused([](Manifest& manifest) { manifest.storage = ScalarType::kF32; }, "originals: \"f16\", expected \"f32\"");
  refused([](Manifest& manifest) { manifest.dim = 39; }, "dim: \"40\", expected \"39\"");
  refused([](Manifest& manifest) { manifest.shards[0].num_tokens += 1; }, "plane0: shape [");
  refused([](Manifest& manifest) { manifest.shards[0].num_documents += 1; }, "scales: shape [");
  refused([](Manifest& manifest) { std::swap(manifest.shards[0].code_files[0], manifest.shards[0].code_files[1]); },
          "tensor \"plane0\" is missing");
  refused(
      [](Manifest& manifest) {
        manifest.shards[0].code_files[1] = {manifest.shards[0].file, manifest.shards[0].num_bytes,
                                            manifest.shards[0].checksum};
      },
      "__metadata__.format: \"maxsim-shard\", expected \"maxsim-codes\"");
}

}  // namespace
}  // namespace maxsim::collection
