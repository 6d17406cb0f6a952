#include "tests/unit/server/live/live_fixture.h"
#include "tests/support/values/eventually.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "collection/compact/create.h"
#include "collection/log/collection_log.h"
#include "kernels/codes/code_layout.h"
#include "kernels/codes/encode.h"
#include "kernels/cpu/cpu_codes.h"
#include "server/live/live_collection.h"

namespace maxsim::live {
namespace {

// Returns FP16 numbers from 1 to 2.
std::vector<std::byte> Rows(int64_t value) {
  std::vector<uint16_t> numbers(static_cast<size_t>(NumTokens(value)) * kDim);
  for (size_t idx = 0; idx < numbers.size(); ++idx) {
    numbers[idx] = static_cast<uint16_t>(0x3c00 | ((static_cast<size_t>(value) * 7919 + idx * 31) & 0x3ff));
  }
  std::vector<std::byte> rows(numbers.size() * sizeof(uint16_t));
  std::memcpy(rows.data(), numbers.data(), rows.size());
  return rows;
}

std::string Payload(int64_t value) { return absl::StrCat("{\"value\":", value, "}"); }

// Returns the part's documents that have no tombstone.
std::vector<uint32_t> AliveIn(const store::Collection& collection, size_t part_idx) {
  const auto count = static_cast<uint32_t>(collection.part(part_idx).num_documents());
  std::vector<uint32_t> all(count);
  for (uint32_t ordinal = 0; ordinal < count; ++ordinal) all[ordinal] = ordinal;
  if (collection.num_tombstones(part_idx) == 0) return all;
  const store::ScanFilter filter = collection.scan_filter(part_idx, 10);
  std::vector<uint32_t> alive;
  for (const uint32_t ordinal : filter.ordinals == nullptr ? all : *filter.ordinals) {
    if (!filter.HasTombstone(ordinal)) alive.push_back(ordinal);
  }
  return alive;
}

// Encodes the document again and expects the same codes as those that the part has for it.
void ExpectCodesOf(const store::Collection& collection, const store::Part& part, uint32_t in_part, int64_t value) {
  const auto* const loaded = dynamic_cast<const cpu::CpuCodes*>(part.CodesOn(0));
  if (loaded == nullptr) return;
  const CodesView& codes = loaded->view();
  ASSERT_EQ(codes.num_documents, part.num_documents());
  ASSERT_TRUE(codes.shape == collection::CodeShapeOf(collection.manifest()));
  const std::vector<std::byte> rows = Rows(value);
  const std::vector<int64_t> offsets = {0, NumTokens(value)};
  const auto encoded = EncodedDocuments::Encode(
      codes.shape,
      {.type = ScalarType::kF16, .dim = kDim, .num_documents = 1, .tokens = rows.data(), .offsets = offsets.data()});
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  const CodesView expected = encoded->view(codes.planes);
  const auto first = static_cast<size_t>(codes.offsets[in_part]);
  const auto num_tokens = static_cast<size_t>(NumTokens(value));
  EXPECT_EQ(codes.offsets[in_part + 1] - codes.offsets[in_part], NumTokens(value));
  const auto expect_rows = [&](const uint8_t* found, const uint8_t* wanted, size_t row_bytes) {
    ASSERT_EQ(found == nullptr, wanted == nullptr);
    if (found == nullptr) return;
    EXPECT_EQ(std::memcmp(found + first * row_bytes, wanted, num_tokens * row_bytes), 0) << in_part;
  };
  expect_rows(codes.plane0, expected.plane0, PlaneRowBytes(kDim));
  if (codes.planes >= 2) expect_rows(codes.plane1, expected.plane1, PlaneRowBytes(kDim));
  if (codes.planes == 4) expect_rows(codes.planes23, expected.planes23, FieldRowBytes(kDim));
  expect_rows(codes.factors, expected.factors, 1);
  EXPECT_EQ(codes.scales[in_part], expected.scales[0]);
  for (int which = 0; which <= BoundIndex(codes.planes); ++which) {
    EXPECT_TRUE(codes.bounds[which][in_part] == expected.bounds[which][0]) << which;
  }
}

}  // namespace

int32_t NumTokens(int64_t value) { return static_cast<int32_t>(1 + value % 5); }

store::Write Upsert(std::string_view id, int64_t value, uint64_t version) {
  store::Write write;
  write.string_id = id;
  write.version = version;
  write.num_tokens = NumTokens(value);
  write.rows = Rows(value);
  write.payload = Payload(value);
  return write;
}

store::Write Delete(std::string_view id, uint64_t version) {
  store::Write write;
  write.kind = collection::LogRecord::Kind::kDelete;
  write.string_id = id;
  write.version = version;
  return write;
}

Documents Contents(const store::Collection& collection) {
  Documents documents;
  uint64_t num_tokens = 0;
  for (size_t part_idx = 0; part_idx < collection.num_parts(); ++part_idx) {
    EXPECT_GE(collection.part(part_idx).code_planes(), collection.code_planes());
    for (const uint32_t in_part : AliveIn(collection, part_idx)) {
      const uint64_t ordinal = collection.part(part_idx).first_ordinal + in_part;
      const std::string id(collection.string_id(ordinal));
      const std::string payload(collection.payload(ordinal));
      int64_t value = 0;
      EXPECT_EQ(std::sscanf(payload.c_str(), "{\"value\":%ld}", &value), 1) << payload;
      const auto stored = collection.ReadDocument(ordinal);
      EXPECT_TRUE(stored.ok()) << stored.status();
      if (stored.ok()) {
        EXPECT_EQ(stored->rows, Rows(value)) << id << " " << value;
      }
      EXPECT_EQ(collection.num_document_tokens(ordinal), NumTokens(value)) << id;
      ExpectCodesOf(collection, collection.part(part_idx), in_part, value);
      EXPECT_EQ(collection.Find(id), ordinal) << id;
      EXPECT_TRUE(documents.emplace(id, value).second) << id << " is there twice";
      num_tokens += static_cast<uint64_t>(NumTokens(value));
    }
  }
  EXPECT_EQ(collection.num_documents(), documents.size());
  EXPECT_EQ(collection.num_tokens(), num_tokens);
  return documents;
}

std::string Outcomes(const store::WriteResults& results) {
  std::string text;
  for (const store::WriteResult& result : results.results) {
    text += result.outcome == Outcome::kApplied ? 'A' : result.outcome == Outcome::kStale ? 'S' : 'N';
  }
  return text;
}

LiveTest::LiveTest(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
  // Compactions run only when a test asks for one. Tests of background compactions override these options.
  options_.segment_bytes = 4096;
  options_.compact_after = absl::InfiniteDuration();
  options_.compact_bytes_per_second = 0;
  options_.max_queue_time = absl::ZeroDuration();  // the machine may be busy
}

LiveTest::~LiveTest() {
  live_.reset();
  store_.reset();
}

void CreateWithMemory(const std::string& path, uint64_t remembered_bytes,
                      const std::optional<collection::CodesFormat>& codes,
                      const std::vector<collection::Field>& fields) {
  using Log = collection::CollectionLog;
  const auto made =
      collection::CreateLiveCollection(path, {.name = "c", .dim = kDim, .codes = codes, .fields = fields});
  ASSERT_TRUE(made.ok()) << made.status();
  std::filesystem::remove_all(std::filesystem::path(path) / "log");
  const auto log = Log::Open(path, collection::LogFormat::Of(*made), Log::Mode::kCreate, 0, remembered_bytes);
  ASSERT_TRUE(log.ok()) << log.status();
}

void LiveTest::Create(uint64_t remembered_bytes) { CreateWithMemory(path_, remembered_bytes, codes_, fields_); }

absl::Status LiveTest::TryOpen(const std::string& path, bool live) {
  live_.reset();
  store_ = std::make_unique<store::CollectionStore>(backend_.get(), store_options_);
  store_->SetOpenLive(
      [this](const store::LiveRequest& request) { return OpenLiveCollection(request, options_, &threads_, nullptr); });
  const auto loaded = store_->Load("c", path, store::Residency::kAuto, store::Replication::kAuto, "", nullptr, live);
  if (!loaded.ok()) return loaded.status();
  live_ = *store_->FindLive("c");
  return absl::OkStatus();
}

void LiveTest::Open() {
  const absl::Status status = TryOpen(path_);
  ASSERT_TRUE(status.ok()) << status;
}

void LiveTest::Reopen() {
  live_.reset();
  store_.reset();
  Open();
}

absl::StatusOr<store::WriteResults> LiveTest::Write(std::vector<store::Write> writes) {
  std::promise<absl::StatusOr<store::WriteResults>> answer;
  live_->Submit(std::move(writes), {},
                [&](absl::StatusOr<store::WriteResults> results) { answer.set_value(std::move(results)); });
  return answer.get_future().get();
}

store::WriteResults LiveTest::MustWrite(std::vector<store::Write> writes) {
  auto results = Write(std::move(writes));
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *std::move(results) : store::WriteResults();
}

void LiveTest::MustCompact() {
  // If a background compaction came first, this one has nothing to do and `changed` is false.
  const uint64_t sequence = live_->state().sequence;
  bool changed = false;
  const absl::Status status = live_->Compact(nullptr, &changed);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_GE(live_->state().compacted_sequence, sequence);
}

bool LiveTest::Eventually(const std::function<bool()>& condition) { return test::Eventually(condition); }

}  // namespace maxsim::live
