// Tests documents in device memory to which more documents are appended. This file has only the tests that are special
// to the GPU. gpu_contract_test runs those that all backends share.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/documents/cuda_appendable.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/hold.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

class GpuAppendableTest : public GpuTest {
 protected:
  std::shared_ptr<AppendableDocuments> Make(ScalarType type, int32_t dim, int64_t max_documents, int64_t max_tokens,
                                            uint64_t rotation_seed = 0) {
    return *backend().CreateAppendable({type, dim, max_documents, max_tokens, rotation_seed});
  }

  static const cuda::CudaDocuments& Resident(const Documents& documents) {
    return *cuda::LoadedDocuments::From(documents)->resident();
  }
};

TEST_F(GpuAppendableTest, SnapshotsKnowTheirLengthsAsLoadedDocumentsDo) {
  std::vector<int64_t> lengths(5, 20);
  lengths.insert(lengths.end(), {1, 300, 20, 77});
  const std::shared_ptr<AppendableDocuments> appendable = Make(ScalarType::kF16, 100, 9, 1000);
  for (size_t count = 1; count <= lengths.size(); ++count) {
    const RandomDocuments one = MakeDocuments(TestSeed() + count, ScalarType::kF16, 100, {lengths[count - 1]});
    ASSERT_TRUE(appendable->Append(one.view()).ok());
    const std::shared_ptr<const Documents> snapshot = appendable->Snapshot();
    const cuda::CudaDocuments& actual = Resident(*snapshot);
    const RandomDocuments all = MakeDocuments(TestSeed(), ScalarType::kF16, 100,
                                              std::vector<int64_t>(lengths.begin(), lengths.begin() + count));
    const auto expected = cuda::CudaDocuments::Shape::Of(all.view());
    EXPECT_EQ(actual.document_tokens(), expected.document_tokens);
    EXPECT_EQ(actual.longest_tokens(), expected.longest_tokens);
    EXPECT_EQ(actual.spread_tokens(), expected.spread_tokens);
    EXPECT_EQ(actual.num_tokens(), expected.num_tokens);
    EXPECT_EQ(actual.memory(), MemoryNeed{}) << "the memory is that of the appendable documents";
    const std::unique_ptr<Documents> loaded = Load(all);
    EXPECT_EQ(actual.maps() == nullptr, Resident(*loaded).maps() == nullptr);
  }
}

// The appends need more pinned memory than there is at once, so documents, offsets and scales are copied in several
// pieces.
TEST_F(GpuAppendableTest, LargeAppendsAreScoredAsLoaded) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 20, RandomLengths(TestSeed(), 300'000, 1, 2));
    const std::shared_ptr<AppendableDocuments> appendable =
        Make(type, 20, documents.num_documents(), documents.offsets.back(), documents.view().rotation_seed);
    ASSERT_TRUE(appendable->Append(documents.view()).ok());
    const std::unique_ptr<Documents> loaded = Load(documents);
    const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 20, 32);
    const std::vector<Scored> expected = TopK(*executor, *loaded, {query.view(kMaxTopK)})[0];
    ExpectSameBits(expected, TopK(*executor, *appendable->Snapshot(), {query.view(kMaxTopK)})[0]);
  }
}

// Appends must not wait for other work on the device, because scoring a call may take a second.
TEST_F(GpuAppendableTest, AppendsAndReadsWaitForNothingElse) {
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kI8, 128, {120, 64});
  const std::shared_ptr<AppendableDocuments> appendable =
      Make(ScalarType::kI8, 128, 4, 400, documents.view().rotation_seed);
  std::vector<uint8_t> rows(184 * 128);
  HeldMultiprocessors held(backend().device()->limits.num_sms, 0);
  ASSERT_TRUE(held.AllHeld());
  std::future<absl::Status> done = std::async(std::launch::async, [&] {
    absl::Status status = appendable->Append(documents.view());
    if (status.ok()) status = appendable->Append(documents.view());
    return status.ok() ? appendable->ReadRows(184, 184, rows.data()) : status;
  });
  const bool in_time = done.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  held.Release();
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(done.get().ok());
  EXPECT_EQ(std::memcmp(rows.data(), documents.tokens.data(), rows.size()), 0);
}

TEST_F(GpuAppendableTest, SmallAppendsAreSoonDone) {
  constexpr int64_t kDocuments = 1000;
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 128, {120});
  const std::shared_ptr<AppendableDocuments> appendable = Make(ScalarType::kF16, 128, kDocuments, 120 * kDocuments);
  std::vector<double> append_us, snapshot_us;
  const auto microseconds = [](auto duration) { return std::chrono::duration<double, std::micro>(duration).count(); };
  for (int64_t n = 0; n < kDocuments; ++n) {
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(appendable->Append(documents.view()).ok());
    const auto appended = std::chrono::steady_clock::now();
    ASSERT_EQ(appendable->Snapshot()->num_documents(), n + 1);
    append_us.push_back(microseconds(appended - begin));
    snapshot_us.push_back(microseconds(std::chrono::steady_clock::now() - appended));
  }
  for (std::vector<double>* times : {&append_us, &snapshot_us}) std::sort(times->begin(), times->end());
  RecordProperty("append_us", std::to_string(append_us[kDocuments / 2]));
  RecordProperty("snapshot_us", std::to_string(snapshot_us[kDocuments / 2]));
  // An append that waited for other work on the device would take a millisecond or more.
  EXPECT_LT(append_us[kDocuments / 2], 200) << "median, us";
  EXPECT_LT(snapshot_us[kDocuments / 2], 200) << "median, us";
}

}  // namespace
}  // namespace maxsim::test
