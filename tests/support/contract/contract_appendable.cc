// Tests documents to which more documents are appended. A snapshot of them must give the same scores as the same
// documents loaded at once, and must not change when more documents are appended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "tests/support/contract/backend_contract.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {
namespace {

using ::testing::HasSubstr;

// Returns the documents `begin` .. `end` - 1 as a set that owns its memory.
RandomDocuments Slice(const RandomDocuments& documents, int64_t begin, int64_t end) {
  RandomDocuments slice;
  slice.rotation_seed = documents.rotation_seed;
  const int64_t first = documents.offsets[begin];
  for (int64_t document = begin; document <= end; ++document) {
    slice.offsets.push_back(documents.offsets[document] - first);
    if (document < end && !documents.scales.empty()) slice.scales.push_back(documents.scales[document]);
  }
  slice.tokens = TokenMatrix(documents.tokens.type(), documents.tokens.dim(), slice.offsets.back());
  for (int64_t token = 0; token < slice.offsets.back(); ++token) {
    slice.tokens.CopyRow(documents.tokens, first + token, token);
  }
  return slice;
}

std::shared_ptr<AppendableDocuments> MakeAppendable(Backend& backend, const RandomDocuments& like,
                                                    int64_t max_documents, int64_t max_tokens) {
  absl::StatusOr<std::shared_ptr<AppendableDocuments>> made =
      backend.CreateAppendable({.type = like.tokens.type(),
                                .dim = like.tokens.dim(),
                                .max_documents = max_documents,
                                .max_tokens = max_tokens,
                                .rotation_seed = like.view().rotation_seed});
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

// Appends all documents, in views of 1, 2, 3 and so on documents.
void AppendInSteps(AppendableDocuments& appendable, const RandomDocuments& documents) {
  int64_t begin = 0;
  for (int64_t step = 1; begin < documents.num_documents(); ++step) {
    const int64_t end = std::min(begin + step, documents.num_documents());
    const RandomDocuments slice = Slice(documents, begin, end);
    const absl::Status status = appendable.Append(slice.view());
    ASSERT_TRUE(status.ok()) << status;
    begin = end;
  }
}

Results TopKOf(Executor& executor, const Documents& documents, absl::Span<const Query> queries) {
  Results results(queries.size());
  const absl::Status status = executor.TopK(documents, queries, absl::MakeSpan(results), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return results;
}

// Checks that two sets of documents give bit-identical answers: top k of all documents, top k of candidate lists, and
// alignments.
void ExpectSameAnswers(Executor& executor, const Documents& expected, const Documents& actual) {
  ASSERT_EQ(actual.type(), expected.type());
  ASSERT_EQ(actual.dim(), expected.dim());
  ASSERT_EQ(actual.num_documents(), expected.num_documents());
  ASSERT_EQ(actual.num_tokens(), expected.num_tokens());
  std::vector<uint32_t> list(static_cast<size_t>(expected.num_documents()));
  std::iota(list.rbegin(), list.rend(), 0);
  list.push_back(list.front());
  const RandomQuery query = MakeQuery(TestSeed() + 1, expected.type(), expected.dim(), 33);
  const RandomQuery wide = MakeQuery(TestSeed() + 2, expected.type(), expected.dim(), 130);
  const std::vector<std::vector<Query>> calls = {
      {query.view(kMaxTopK)}, {query.view(5, &list)}, {wide.view(kMaxTopK), query.view(3), wide.view(7, &list)}};
  for (const std::vector<Query>& call : calls) {
    const Results wanted = TopKOf(executor, expected, call);
    const Results got = TopKOf(executor, actual, call);
    for (size_t idx = 0; idx < call.size(); ++idx) ExpectSameBits(wanted[idx], got[idx]);
  }
  const auto num_tokens = static_cast<size_t>(query.tokens.num_tokens());
  std::vector<TokenMatch> wanted(list.size() * num_tokens);
  std::vector<TokenMatch> got(wanted.size(), {-7, std::numeric_limits<float>::quiet_NaN()});
  ASSERT_TRUE(executor.Align(expected, query.view(1), list, absl::MakeSpan(wanted)).ok());
  ASSERT_TRUE(executor.Align(actual, query.view(1), list, absl::MakeSpan(got)).ok());
  for (size_t idx = 0; idx < wanted.size(); ++idx) {
    ASSERT_EQ(got[idx].document_token, wanted[idx].document_token);
    ASSERT_EQ(std::bit_cast<uint32_t>(got[idx].similarity), std::bit_cast<uint32_t>(wanted[idx].similarity));
  }
}

std::vector<int64_t> MixedLengths() {
  std::vector<int64_t> lengths = BoundaryLengths();
  for (int64_t length : {1, 300, 7, 257, 1}) lengths.push_back(length);
  return lengths;
}

void SnapshotsAreScoredAsLoaded(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kWritableTypes) {
    for (int32_t dim : {20, 100, 128}) {
      if (kSanitized && dim > 20) continue;
      for (const std::vector<int64_t>& lengths : {MixedLengths(), std::vector<int64_t>(40, 12)}) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << lengths.size() << " documents");
        const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
        const std::shared_ptr<AppendableDocuments> appendable =
            MakeAppendable(backend, documents, documents.num_documents() + 3, documents.offsets.back() + 100);
        AppendInSteps(*appendable, documents);
        ExpectSameAnswers(runner.executor(), runner.Load(documents), *appendable->Snapshot());
      }
    }
  }
}

// Takes a snapshot, then appends documents of NaN or extreme values (TokenMatrix::Poison). The scores of the snapshot
// would change if the backend read past its end. The first documents have equal lengths, the appended ones do not.
void SnapshotsKeepTheirAnswers(Backend& backend) {
  ContractRunner runner(backend);
  for (ScalarType type : kWritableTypes) {
    SCOPED_TRACE(std::string(Name(type)));
    std::vector<int64_t> lengths(6, 9);
    for (int64_t length : BoundaryLengths()) lengths.push_back(length);
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 100, lengths);
    RandomDocuments poisoned = MakeDocuments(TestSeed(), type, 100, {3, 70});
    for (int64_t document = 0; document < 2; ++document) poisoned.Poison(document);
    for (int64_t length : {int64_t{1}, int64_t{6}, documents.num_documents()}) {
      const std::shared_ptr<AppendableDocuments> appendable =
          MakeAppendable(backend, documents, documents.num_documents() + 2, documents.offsets.back() + 73);
      const RandomDocuments first = Slice(documents, 0, length);
      AppendInSteps(*appendable, first);
      const std::shared_ptr<const Documents> snapshot = appendable->Snapshot();
      const Documents& loaded = runner.Load(first);
      ExpectSameAnswers(runner.executor(), loaded, *snapshot);
      ASSERT_TRUE(appendable->Append(poisoned.view()).ok());
      ExpectSameAnswers(runner.executor(), loaded, *snapshot);
      EXPECT_EQ(appendable->Snapshot()->num_documents(), length + 2);
    }
  }
}

void SnapshotsKeepTheirMemoryAlive(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kI8, 64, BoundaryLengths());
  std::shared_ptr<AppendableDocuments> appendable =
      MakeAppendable(backend, documents, documents.num_documents(), documents.offsets.back());
  const std::shared_ptr<const Documents> empty = appendable->Snapshot();
  ASSERT_TRUE(appendable->Append(documents.view()).ok());
  const std::shared_ptr<const Documents> snapshot = appendable->Snapshot();
  appendable.reset();
  ExpectSameAnswers(runner.executor(), runner.Load(documents), *snapshot);
  EXPECT_EQ(empty->num_documents(), 0);
  EXPECT_EQ(empty->num_tokens(), 0);
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kI8, 64, 4);
  const Query call = query.view(3);
  EXPECT_TRUE(TopKOf(runner.executor(), *empty, {&call, 1})[0].empty());
}

// Fills the capacity to the last document or the last token. A further append must fail and append nothing.
void FullDocumentsTakeNoMore(Backend& backend) {
  ContractRunner runner(backend);
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 20, {5, 9, 1, 4});
  const RandomDocuments three = Slice(documents, 0, 3), last = Slice(documents, 3, 4);
  const auto expect_full = [&](int64_t max_documents, int64_t max_tokens, const std::string& text) {
    const std::shared_ptr<AppendableDocuments> appendable =
        MakeAppendable(backend, documents, max_documents, max_tokens);
    ASSERT_TRUE(appendable->Append(three.view()).ok());
    const absl::Status status = appendable->Append(last.view());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(appendable->Append(documents.view()).code(), absl::StatusCode::kResourceExhausted);
    ExpectSameAnswers(runner.executor(), runner.Load(three), *appendable->Snapshot());
  };
  expect_full(3, 19, "no room for 1 documents after 3: max_documents is 3");
  expect_full(4, 18, "no room for 4 tokens after 15: max_tokens is 18");
  const std::shared_ptr<AppendableDocuments> appendable = MakeAppendable(backend, documents, 4, 19);
  ASSERT_TRUE(appendable->Append(three.view()).ok());
  EXPECT_TRUE(appendable->Append(last.view()).ok());
  ExpectSameAnswers(runner.executor(), runner.Load(documents), *appendable->Snapshot());
}

void OtherDocumentsAreRefused(Backend& backend) {
  const auto expect_invalid = [](const absl::Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const AppendableShape shape = {.type = ScalarType::kI8, .dim = 16, .max_documents = 4, .max_tokens = 20};
  const auto create = [&](auto change) {
    AppendableShape changed = shape;
    change(changed);
    return backend.CreateAppendable(changed).status();
  };
  expect_invalid(create([](AppendableShape& s) { s.dim = 7; }), "shape.dim is 7; must be 8 to 4096");
  expect_invalid(create([](AppendableShape& s) { s.max_documents = 0; }), "shape.max_documents is 0; must be 1 to");
  expect_invalid(create([](AppendableShape& s) { s.max_tokens = 0; }), "shape.max_tokens is 0; must be 1 to 262144");
  expect_invalid(create([](AppendableShape& s) { s.max_tokens = 262145; }), "shape.max_tokens is 262145");
  EXPECT_EQ(create([](AppendableShape& s) { s.max_tokens = (s.max_documents = int64_t{1} << 32) - 1; }).code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status too_large = create([](AppendableShape& s) {
    s.dim = kMaxDim;
    s.max_documents = kMaxShardDocuments;
    s.max_tokens = int64_t{1} << 36;
  });
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted) << too_large;

  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kI8, 16, {2, 3});
  const std::shared_ptr<AppendableDocuments> appendable = MakeAppendable(backend, documents, 4, 20);
  expect_invalid(appendable->Append(MakeDocuments(TestSeed(), ScalarType::kF16, 16, {2}).view()),
                 "documents.type is f16; must be i8");
  expect_invalid(appendable->Append(MakeDocuments(TestSeed(), ScalarType::kI8, 17, {2}).view()),
                 "documents.dim is 17; must be 16");
  expect_invalid(appendable->Append(MakeDocuments(TestSeed() + 1, ScalarType::kI8, 16, {2}).view()),
                 "documents.rotation_seed is ");
  DocumentsView view = documents.view();
  view.scales = nullptr;
  expect_invalid(appendable->Append(view), "documents.scales is null for i8");
  view = documents.view();
  view.num_documents = 0;
  EXPECT_TRUE(appendable->Append(view).ok());
  EXPECT_EQ(appendable->Snapshot()->num_documents(), 0);
}

// Reads back several MiB, so that a backend that copies in pieces needs several pieces.
void RowsAreReadBack(Backend& backend) {
  for (ScalarType type : kWritableTypes) {
    for (int32_t dim : {20, 100, 256}) {
      SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim);
      const std::vector<int64_t> lengths(kSanitized ? 6 : 40, 301);
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const int64_t num_tokens = documents.offsets.back();
      const std::shared_ptr<AppendableDocuments> appendable =
          MakeAppendable(backend, documents, documents.num_documents() + 1, num_tokens + 5);
      ASSERT_TRUE(appendable->Append(Slice(documents, 0, 1).view()).ok());
      ASSERT_TRUE(appendable->Append(Slice(documents, 1, documents.num_documents()).view()).ok());
      const size_t row_bytes = static_cast<size_t>(dim) * SizeOf(type);
      for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
               {0, num_tokens}, {0, 1}, {num_tokens - 1, 1}, {300, 2}, {13, 1000}, {num_tokens, 0}}) {
        std::vector<uint8_t> rows(static_cast<size_t>(count) * row_bytes + 1, 0xa5);
        const absl::Status status = appendable->ReadRows(first, count, rows.data());
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(count == 0 ? 0 : std::memcmp(rows.data(), documents.tokens.row(first), rows.size() - 1), 0);
        EXPECT_EQ(rows.back(), 0xa5) << "written beyond the rows";
      }
      uint8_t row = 0;
      for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{
               {-1, 1}, {0, -1}, {0, num_tokens + 1}, {num_tokens, 1}, {num_tokens + 1, 0}}) {
        EXPECT_EQ(appendable->ReadRows(first, count, &row).code(), absl::StatusCode::kInvalidArgument);
      }
      EXPECT_EQ(appendable->ReadRows(0, 1, nullptr).code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

// One thread appends while two threads score and read snapshots of every length.
void ConcurrentAppends(Backend& backend) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    const int64_t kDocuments = kSanitized ? 40 : 150;
    const RandomDocuments documents = MakeDocuments(TestSeed(), type, 40, RandomLengths(TestSeed(), kDocuments, 1, 60));
    const RandomQuery query = MakeQuery(TestSeed() + 1, type, 40, 9);
    ContractRunner runner(backend);
    runner.Load(documents);
    std::vector<float> scores(static_cast<size_t>(kDocuments));
    for (const Scored& scored : runner.TopK(query.view(kMaxTopK))) scores[scored.position] = scored.score;

    const std::shared_ptr<AppendableDocuments> appendable =
        MakeAppendable(backend, documents, kDocuments, documents.offsets.back());
    std::atomic<bool> is_done{false};
    std::atomic<int64_t> num_rounds{0};  // rounds of all readers together
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 2; ++reader) {
      readers.emplace_back([&] {
        absl::StatusOr<std::unique_ptr<Executor>> executor = backend.CreateExecutor({});
        ASSERT_TRUE(executor.ok()) << executor.status();
        std::vector<uint8_t> rows;
        for (bool is_last = false; !is_last;) {
          is_last = is_done.load();
          ++num_rounds;
          const std::shared_ptr<const Documents> snapshot = appendable->Snapshot();
          const Query call = query.view(kMaxTopK);
          const std::vector<Scored> results = TopKOf(**executor, *snapshot, {&call, 1})[0];
          ASSERT_EQ(static_cast<int64_t>(results.size()), snapshot->num_documents());
          for (const Scored& scored : results) {
            ASSERT_EQ(std::bit_cast<uint32_t>(scored.score), std::bit_cast<uint32_t>(scores[scored.position]));
          }
          const int64_t count = std::min<int64_t>(snapshot->num_tokens(), 50);
          rows.resize(static_cast<size_t>(count) * 40 * SizeOf(type));
          ASSERT_TRUE(appendable->ReadRows(snapshot->num_tokens() - count, count, rows.data()).ok());
          if (count == 0) continue;
          ASSERT_EQ(std::memcmp(rows.data(), documents.tokens.row(snapshot->num_tokens() - count), rows.size()), 0);
        }
        EXPECT_EQ(appendable->Snapshot()->num_documents(), kDocuments);
      });
    }
    for (int64_t document = 0; document < kDocuments; ++document) {
      const absl::Status status = appendable->Append(Slice(documents, document, document + 1).view());
      EXPECT_TRUE(status.ok()) << status;
      // Waits until a reader has made a round, at most 100 ms. Otherwise readers would see only the last snapshot.
      const int64_t enough = num_rounds.load() + 1;
      const auto latest = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (document % 4 == 0 && num_rounds.load() < enough && std::chrono::steady_clock::now() < latest) {
        std::this_thread::yield();
      }
    }
    is_done.store(true);
    for (std::thread& reader : readers) reader.join();
  }
}

}  // namespace

std::vector<ContractCase> AppendableCases() {
  return {
      {"SnapshotsOfAppendedDocumentsAreScoredAsLoadedOnes", &SnapshotsAreScoredAsLoaded},
      {"SnapshotsKeepTheirAnswersWhenMoreIsAppended", &SnapshotsKeepTheirAnswers},
      {"SnapshotsKeepTheirMemoryAlive", &SnapshotsKeepTheirMemoryAlive},
      {"FullAppendableDocumentsTakeNoMore", &FullDocumentsTakeNoMore},
      {"DocumentsOfAnotherShapeAreNotAppended", &OtherDocumentsAreRefused},
      {"AppendedRowsAreReadBack", &RowsAreReadBack},
      {"ConcurrentAppendsLeaveSnapshotsAsTheyAre", &ConcurrentAppends},
  };
}

}  // namespace maxsim::test
