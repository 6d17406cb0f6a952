// Tests codes in device memory to which more codes are appended. A scan of a snapshot must give the same results as a
// scan on the CPU: with one or several queries, with masks and lists, and while another thread appends.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/codes/appendable_codes.h"
#include "tests/gpu/gpu_codes_fixture.h"
#include "tests/gpu/hold.h"
#include "tests/unit/kernels/codes/appendable_codes_case.h"
#include "tests/unit/kernels/codes/codes_fixture.h"

namespace maxsim::test {
namespace {

class GpuAppendableCodesTest : public GpuCodesTest {
 protected:
  std::shared_ptr<AppendableCodes> Make(const CodesView& codes, int planes) {
    auto made = backend().CreateAppendableCodes({.codes = codes.shape,
                                                 .planes = planes,
                                                 .max_documents = codes.num_documents,
                                                 .max_tokens = codes.num_tokens()});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  // Scans a snapshot with all queries together, and with each query alone. Both must give the CPU's results for
  // `codes`.
  void ExpectScannedAsOnCpu(const LoadedCodes& snapshot, const CodesView& codes,
                            const std::vector<ScanQuery>& queries) {
    const auto* const on_device = dynamic_cast<const cuda::CudaCodes*>(&snapshot);
    ASSERT_NE(on_device, nullptr);
    ASSERT_EQ(on_device->num_documents(), codes.num_documents);
    const std::vector<std::vector<Scored>> wanted = OnCpu(codes, queries);
    for (cuda::CudaCodeScanner* scanner : {&*scanner_, &*portable_scanner_}) {
      SCOPED_TRACE(scanner == &*scanner_ ? "the fastest kernels" : "portable kernels");
      Compare(OnGpu(*scanner, *on_device, queries), wanted);
      for (size_t idx = 0; idx < queries.size(); ++idx) {
        SCOPED_TRACE(testing::Message() << "query " << idx << " alone");
        Compare(OnGpu(*scanner, *on_device, {queries[idx]}), {wanted[idx]});
      }
    }
  }
};

TEST_F(GpuAppendableCodesTest, SnapshotsOfAppendedCodesAreScannedAsLoadedCodes) {
  for (const int32_t dim : {33, 96, 128, 200}) {
    for (const bool factors : {false, true}) {
      RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, dim, RandomLengths(seed_, 60, 1, 20));
      if (factors) SpreadNorms(seed_, 7, &documents);
      ExpectSnapshotsAreScannedAsLoaded(backend(), seed_, documents, factors);
    }
  }
}

// The appended codes need several pieces of pinned memory.
TEST_F(GpuAppendableCodesTest, LargeAppendsOfCodesAreScannedAsOnTheCpu) {
  const RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, 128, RandomLengths(seed_, 20'000, 1, 3));
  const EncodedDocuments encoded = Encoded(documents.view(), false);
  const CodesView codes = encoded.view();
  const auto appendable = *backend().CreateAppendableCodes(
      {.codes = codes.shape, .planes = 4, .max_documents = codes.num_documents, .max_tokens = codes.num_tokens()});
  const absl::Status status = appendable->Append(codes);
  ASSERT_TRUE(status.ok()) << status;
  const std::shared_ptr<const LoadedCodes> snapshot = appendable->Snapshot();
  const auto* const on_device = dynamic_cast<const cuda::CudaCodes*>(snapshot.get());
  ASSERT_NE(on_device, nullptr);
  const QueryCodes query = EncodedQuery(codes.shape, 4, MakeQuery(seed_ + 1, ScalarType::kF16, 128, 32));
  const std::vector<ScanQuery> queries = {{.codes = &query, .num_results = 3000, .order = ScanOrder::kUpperBound}};
  Compare(OnGpu(*scanner_, *on_device, queries), OnCpu(codes, queries));
  Compare(OnGpu(*portable_scanner_, *on_device, queries), OnCpu(codes, queries));
}

// Scans for one query use separate kernels (scan_one). The queries scan all documents, a list, or the documents of a
// mask with few or many bits. Appends end inside of words of the masks and inside of chunks of documents.
TEST_F(GpuAppendableCodesTest, SingleQueriesWithMasksAndListsGiveTheBitsOfTheCpu) {
  constexpr int64_t kDocuments = 700;
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    for (const int32_t dim : {48, 96, 128}) {
      const RandomDocuments documents = MakeDocuments(seed_, type, dim, RandomLengths(seed_, kDocuments, 1, 20));
      const DocumentsView view = documents.view();
      const CodeShape shape = ShapeFor(view, false);
      for (const int planes : {1, 2, 4}) {
        const EncodedDocuments all = Encoded(view, false);
        const std::shared_ptr<AppendableCodes> appendable = Make(all.view(), planes);
        ASSERT_NE(appendable, nullptr);
        const QueryCodes query = EncodedQuery(shape, planes, MakeQuery(seed_ + 1, type, dim, 32));
        const QueryCodes wide = EncodedQuery(shape, planes, MakeQuery(seed_ + 2, type, dim, 70));
        int64_t begin = 0;
        for (const int64_t end : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{321}, kDocuments}) {
          SCOPED_TRACE(testing::Message()
                       << Name(type) << ", d " << dim << ", " << planes << " planes, " << end << " documents");
          const absl::Status status = AppendCodes(*appendable, shape, view, begin, end);
          ASSERT_TRUE(status.ok()) << status;
          begin = end;
          std::mt19937_64 generator(seed_);
          const auto num_words = static_cast<size_t>(end + 63) / 64;
          std::vector<uint64_t> few(num_words), most(num_words, ~uint64_t{0});
          for (uint64_t& word : few) word = generator() & generator();
          for (int64_t n = 0; n < end; n += 10) most[static_cast<size_t>(n) / 64] &= ~(uint64_t{1} << (n % 64));
          std::vector<uint32_t> list;
          for (int64_t n = end - 1; n >= 0; n -= 3) list.push_back(static_cast<uint32_t>(n));
          std::vector<ScanQuery> queries;
          for (const QueryCodes* codes : {&query, &wide}) {
            for (const ScanOrder order : {ScanOrder::kEstimate, ScanOrder::kUpperBound}) {
              const ScanQuery plain = {.codes = codes, .num_results = 300, .order = order};
              queries.insert(queries.end(), 4, plain);
              queries[queries.size() - 3].mask = few.data();
              queries[queries.size() - 2].mask = most.data();
              queries.back().mask = few.data();
              queries.back().ordinals = list.data();
              queries.back().num_candidates = static_cast<int64_t>(list.size());
            }
          }
          std::vector<int64_t> offsets;
          const EncodedDocuments encoded = Encoded(PartOf(view, 0, end, offsets), false);
          ExpectScannedAsOnCpu(*appendable->Snapshot(), encoded.view(planes), queries);
        }
      }
    }
  }
}

// Appends codes while a scan of a snapshot waits for the device. The appends must not wait for the scan, and the scan
// must give the same results as without appends.
TEST_F(GpuAppendableCodesTest, AppendsBesideARunningScanChangeNothingOfIt) {
  constexpr int64_t kDocuments = 4000;
  constexpr int64_t kBefore = 1001;
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const RandomDocuments documents = MakeDocuments(seed_, type, 128, RandomLengths(seed_, kDocuments, 1, 20));
    const DocumentsView view = documents.view();
    const CodeShape shape = ShapeFor(view, false);
    const EncodedDocuments all = Encoded(view, false);
    std::vector<int64_t> offsets;
    const EncodedDocuments first = Encoded(PartOf(view, 0, kBefore, offsets), false);
    std::mt19937_64 generator(seed_);
    std::vector<uint64_t> mask(kBefore / 64 + 1);
    for (uint64_t& word : mask) word = generator();
    for (const int planes : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << Name(type) << ", " << planes << " planes");
      const std::shared_ptr<AppendableCodes> appendable = Make(all.view(), planes);
      ASSERT_NE(appendable, nullptr);
      ASSERT_TRUE(AppendCodes(*appendable, shape, view, 0, kBefore).ok());
      const std::shared_ptr<const LoadedCodes> snapshot = appendable->Snapshot();
      const auto* const on_device = dynamic_cast<const cuda::CudaCodes*>(snapshot.get());
      ASSERT_NE(on_device, nullptr);
      const QueryCodes query = EncodedQuery(shape, planes, MakeQuery(seed_ + 1, type, 128, 32));
      const std::vector<ScanQuery> queries = {{.codes = &query,
                                               .mask = planes == 2 ? mask.data() : nullptr,
                                               .num_results = 2000,
                                               .order = ScanOrder::kUpperBound}};
      const std::vector<std::vector<Scored>> wanted = OnCpu(first.view(planes), queries);
      // This first scan allocates the memory for the later scans. An allocation during the test would wait for the
      // device.
      Compare(OnGpu(*scanner_, *on_device, queries), wanted);
      {
        // These thread blocks occupy all shared memory, so that no thread block of the scan can start until they end.
        const DeviceLimits& limits = backend().device()->limits;
        HeldMultiprocessors held(limits.num_sms, limits.shared_bytes_per_block);
        ASSERT_TRUE(held.AllHeld());
        std::future<std::vector<std::vector<Scored>>> scan =
            std::async(std::launch::async, [&] { return OnGpu(*scanner_, *on_device, queries); });
        std::future<absl::Status> appends = std::async(std::launch::async, [&] {
          absl::Status status = AppendCodes(*appendable, shape, view, kBefore, kBefore + 1);         // staged
          if (status.ok()) status = AppendCodes(*appendable, shape, view, kBefore + 1, kDocuments);  // in slots
          return status;
        });
        const bool in_time = appends.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
        const bool scan_is_held = scan.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
        held.Release();
        EXPECT_TRUE(in_time) << "appends wait for the scan";
        EXPECT_TRUE(scan_is_held);
        EXPECT_TRUE(appends.get().ok());
        Compare(scan.get(), wanted);
      }
      // The snapshot is unchanged, and a new snapshot has all documents.
      const std::vector<ScanQuery> everything = {{.codes = &query, .num_results = 5000}};
      ExpectScannedAsOnCpu(*snapshot, first.view(planes), everything);
      ExpectScannedAsOnCpu(*appendable->Snapshot(), all.view(planes), everything);
    }
  }
}

// Repeatedly scans the first and the newest snapshot while another thread appends one document at a time.
TEST_F(GpuAppendableCodesTest, ScansBesideAThreadThatAppendsSeeTheirSnapshot) {
  constexpr int64_t kDocuments = 600;
  const RandomDocuments documents =
      MakeDocuments(seed_, ScalarType::kF16, 128, RandomLengths(seed_, kDocuments, 1, 20));
  const DocumentsView view = documents.view();
  const CodeShape shape = ShapeFor(view, false);
  const EncodedDocuments all = Encoded(view, false);
  const std::shared_ptr<AppendableCodes> appendable = Make(all.view(), 2);
  ASSERT_NE(appendable, nullptr);
  ASSERT_TRUE(AppendCodes(*appendable, shape, view, 0, 7).ok());
  const QueryCodes query = EncodedQuery(shape, 2, MakeQuery(seed_ + 1, ScalarType::kF16, 128, 32));
  const std::vector<ScanQuery> queries = {{.codes = &query, .num_results = 1000, .order = ScanOrder::kUpperBound}};
  std::future<absl::Status> appends = std::async(std::launch::async, [&] {
    absl::Status status;
    for (int64_t n = 7; n < kDocuments && status.ok(); ++n) status = AppendCodes(*appendable, shape, view, n, n + 1);
    return status;
  });
  const std::shared_ptr<const LoadedCodes> first = appendable->Snapshot();
  int64_t count = 0;
  do {
    const bool done = appends.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    const std::shared_ptr<const LoadedCodes> latest = appendable->Snapshot();
    for (const LoadedCodes* codes : {first.get(), latest.get()}) {
      std::vector<int64_t> offsets;
      const EncodedDocuments encoded = Encoded(PartOf(view, 0, codes->num_documents(), offsets), false);
      const auto* const on_device = dynamic_cast<const cuda::CudaCodes*>(codes);
      ASSERT_NE(on_device, nullptr);
      Compare(OnGpu(*scanner_, *on_device, queries), OnCpu(encoded.view(2), queries));
    }
    count = latest->num_documents();
    if (done) break;
  } while (!HasFatalFailure());
  EXPECT_TRUE(appends.get().ok());
  EXPECT_EQ(count, kDocuments);
}

}  // namespace
}  // namespace maxsim::test
