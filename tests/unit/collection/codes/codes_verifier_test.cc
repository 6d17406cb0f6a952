// Tests what verify and inspect report about codes.
#include "collection/codes/codes_verifier.h"

#include <cstring>
#include <string>
#include <vector>

#include "collection/formats/safetensors.h"
#include "collection/inspection/inspect.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/codes/codes_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Damages codes of a collection with two shards and corrects the checksum in the manifest, so that only the verifier's
// comparison of codes with vectors can find the damage.
class CodesVerifierTest : public ::testing::TestWithParam<ScalarType> {
 protected:
  static constexpr int32_t kDim = 40;  // more than a word of 32 bits and less than two, so that rows have padding

  void SetUp() override {
    const auto manifest = random_.Build({.folder = folder_.path(),
                                         .name = "x",
                                         .storage = GetParam(),
                                         .max_shard_bytes = GetParam() == ScalarType::kI8 ? 9'500 : 14'000,
                                         .codes = {.planes = 4}});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *manifest;
    ASSERT_EQ(manifest_.shards.size(), 2);
    ExpectSound(folder_.path());
  }

  // Changes bytes of one tensor in one of the code files of the second shard.
  void Change(size_t file, std::string_view tensor_name, int64_t at, const std::function<void(char*)>& change) {
    CodeFileEntry& entry = manifest_.shards[1].code_files[file];
    std::string bytes = ReadBytes(folder_.Path(entry.file));
    const auto header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
    ASSERT_TRUE(header.ok());
    change(bytes.data() + header->Find(tensor_name)->begin + at);
    WriteBytes(folder_.Path(entry.file), bytes);
    Checksum checksum;
    checksum.Update(bytes.data(), bytes.size());
    entry.checksum = checksum.Format();
    ASSERT_TRUE(PublishManifest(manifest_, folder_.path()).ok());
  }

  std::vector<std::string> Problems() {
    const auto report = VerifyCollection(folder_.path());
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_problems, static_cast<int64_t>(report->problems.size()));
    return report->problems;
  }

  // Returns the document of the second shard that has this row, and the row's number within the document.
  std::pair<int64_t, int64_t> PlaceOf(int64_t row) {
    const OpenedCodes opened = OpenCodes(folder_.path(), manifest_, 1, 1);
    const int64_t* const offsets = opened.shard->documents().offsets;
    int64_t document = 0;
    while (offsets[document + 1] <= row) ++document;
    return {document, row - offsets[document]};
  }

  RandomDocuments random_{30, kDim, true};
  TemporaryFolder folder_;
  Manifest manifest_;
};

TEST_P(CodesVerifierTest, AWrongBitOfEachPlaneIsNamed) {
  constexpr int64_t kRow = 11;
  const auto place_of_row = PlaceOf(kRow);
  const int64_t document = place_of_row.first;
  const int64_t token = place_of_row.second;
  const auto wrong = [&](size_t file, std::string_view tensor, int64_t row_bytes, BitPlace place, int32_t column,
                         int plane) {
    const auto flip = [&](char* byte) { *byte = static_cast<char>(*byte ^ (1 << place.bit)); };
    Change(file, tensor, kRow * row_bytes + place.byte, flip);
    EXPECT_THAT(
        Problems(),
        ElementsAre(AllOf(HasSubstr(Cat("document ", document, ", id")), HasSubstr("codes: "),
                          HasSubstr(Cat("token ", token, ", column ", column, ": plane ", plane, " has the bit ")))));
    Change(file, tensor, kRow * row_bytes + place.byte, flip);
  };
  const auto row_bytes = static_cast<int64_t>(PlaneRowBytes(kDim));
  // The last two columns are padding.
  for (const int32_t column :
       test::kSanitized ? std::vector<int32_t>{39, 40} : std::vector<int32_t>{0, 17, 39, 40, 63}) {
    wrong(0, "plane0", row_bytes, PlaneBit(kDim, column), column, 0);
    wrong(1, "plane1", row_bytes, PlaneBit(kDim, column), column, 1);
    BitPlace field = FieldBit(kDim, column);
    wrong(2, "planes23", 2 * row_bytes, field, column, 3);
    ++field.bit;
    wrong(2, "planes23", 2 * row_bytes, field, column, 2);
  }
  EXPECT_THAT(Problems(), ElementsAre());
}

TEST_P(CodesVerifierTest, WrongFactorsAndScalesAreNamed) {
  const auto [document, token] = PlaceOf(9);
  Change(0, "factors", 9, [](char* factor) { *factor = static_cast<char>(*factor ^ 1); });
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr(Cat("document ", document, ", id")),
                                            HasSubstr(Cat("token ", token, ": factor ")))));
  Change(0, "factors", 9, [](char* factor) { *factor = static_cast<char>(*factor ^ 1); });
  Change(0, "scales", 8, [](char* scale) { *scale = static_cast<char>(*scale ^ 1); });
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("document 2, id"), HasSubstr("codes: scale "))));
}

TEST_P(CodesVerifierTest, BoundsThatAreTooSmallOrTooLargeAreNamed) {
  const std::string names[] = {"slope", "residual", "length", "norm"};
  const std::string planes[] = {"bound of 1 plane: ", "bound of 2 planes: ", "bound of 4 planes: "};
  for (size_t file = 0; file < 3; ++file) {
    for (size_t number = 0; number < 4; ++number) {
      for (const int step : {-1, 1}) {
        const auto move = [&](int by) {
          Change(file, "bounds", 3 * 8 + static_cast<int64_t>(number) * 2, [&](char* at) {
            uint16_t bits = 0;
            std::memcpy(&bits, at, sizeof(bits));
            bits = static_cast<uint16_t>(bits + by);
            std::memcpy(at, &bits, sizeof(bits));
          });
        };
        move(step);
        EXPECT_THAT(Problems(),
                    ElementsAre(AllOf(HasSubstr("document 3, id"), HasSubstr(planes[file] + names[number] + " "))))
            << step;
        move(-step);
      }
    }
  }
  EXPECT_THAT(Problems(), ElementsAre());
}

TEST_P(CodesVerifierTest, MissingAndDamagedFilesAreNamed) {
  const std::string name = manifest_.shards[0].code_files[1].file;
  const std::string bytes = ReadBytes(folder_.Path(name));
  std::string changed = bytes;
  changed.back() = static_cast<char>(changed.back() ^ 1);
  WriteBytes(folder_.Path(name), changed);
  const auto report = VerifyCollection(folder_.path());
  ASSERT_TRUE(report.ok());
  ASSERT_GE(report->problems.size(), 2);
  EXPECT_THAT(report->problems[0], AllOf(HasSubstr(name), HasSubstr("checksum")));
  EXPECT_THAT(report->problems[1], HasSubstr("bound of 2 planes: norm"));
  EXPECT_TRUE(Inspect(folder_.path()).ok());
  std::filesystem::remove(folder_.Path(name));
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr(name)));
  EXPECT_TRUE(absl::IsNotFound(Inspect(folder_.path()).status()));
  WriteBytes(folder_.Path(name), bytes);
  EXPECT_THAT(Problems(), ElementsAre());
}

TEST_P(CodesVerifierTest, InspectShowsThem) {
  const auto summary = Inspect(folder_.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(FormatTable(*summary), HasSubstr("codes         4 planes, with factors, rotation seed 0, "));
  EXPECT_THAT(FormatJson(*summary), AllOf(HasSubstr("\"code_bytes\": "), HasSubstr("\"planes\": 4")));
  int64_t num_bytes = 0;
  for (const std::string& name : CodeFilesOf(manifest_)) num_bytes += std::filesystem::file_size(folder_.Path(name));
  EXPECT_EQ(summary->code_bytes, num_bytes);
}

INSTANTIATE_TEST_SUITE_P(Storages, CodesVerifierTest, ::testing::Values(ScalarType::kF16, ScalarType::kI8),
                         [](const auto& one) { return std::string(Name(one.param)); });

}  // namespace
}  // namespace maxsim::collection
