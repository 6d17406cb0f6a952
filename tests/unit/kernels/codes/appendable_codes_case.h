// Checks of AppendableCodes that the tests of every backend run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/codes/appendable_codes.h"
#include "kernels/codes/scan.h"
#include "kernels/maxsim.h"
#include "tests/support/values/random_documents.h"
#include "tests/unit/kernels/codes/codes_fixture.h"

namespace maxsim::test {

// Returns a view of documents `begin` .. `end` - 1. `offsets` receives the view's offsets and must outlive the view.
inline DocumentsView PartOf(const DocumentsView& documents, int64_t begin, int64_t end, std::vector<int64_t>& offsets) {
  const int64_t first = documents.offsets[begin];
  offsets.clear();
  for (int64_t n = begin; n <= end; ++n) offsets.push_back(documents.offsets[n] - first);
  DocumentsView part = documents;
  part.num_documents = end - begin;
  part.offsets = offsets.data();
  part.tokens = static_cast<const std::byte*>(documents.tokens) +
                static_cast<size_t>(first) * static_cast<size_t>(documents.dim) * SizeOf(documents.type);
  if (documents.scales != nullptr) part.scales = documents.scales + begin;
  return part;
}

// Encodes and appends documents `begin` .. `end` - 1.
inline absl::Status AppendCodes(AppendableCodes& appendable, const CodeShape& shape, const DocumentsView& documents,
                                int64_t begin, int64_t end) {
  std::vector<int64_t> offsets;
  absl::StatusOr<EncodedDocuments> encoded = EncodedDocuments::Encode(shape, PartOf(documents, begin, end, offsets));
  if (!encoded.ok()) return encoded.status();
  return appendable.Append(encoded->view());
}

// Scans all codes twice, ordered by estimate and ordered by upper bound. Returns both results in this order.
inline std::vector<std::vector<Scored>> ScanBothWays(ScanExecutor& executor, const LoadedCodes& codes,
                                                     const QueryCodes& query) {
  std::vector<std::vector<Scored>> results(2);
  const std::vector<ScanQuery> queries = {{.codes = &query, .num_results = 1000, .order = ScanOrder::kEstimate},
                                          {.codes = &query, .num_results = 1000, .order = ScanOrder::kUpperBound}};
  const ScanCall call = {.codes = &codes, .queries = queries, .results = absl::MakeSpan(results)};
  const absl::Status status = executor.Scan({&call, 1}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return results;
}

// Appends documents in steps of 1, 2, 3, ... After each step, scans a snapshot. Expects the same bits as from codes
// that were made and loaded at once from the same documents. At the end, scans all snapshots again.
inline void ExpectSnapshotsAreScannedAsLoaded(Backend& backend, uint64_t seed, const RandomDocuments& documents,
                                              bool factors) {
  const DocumentsView view = documents.view();
  const CodeShape shape = ShapeFor(view, factors);
  const RandomQuery random = MakeQuery(seed + 1, view.type, view.dim, 20);
  auto executor = backend.CreateScanExecutor();
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (const int planes : {1, 2, 4}) {
    SCOPED_TRACE(testing::Message() << "d " << view.dim << ", " << planes << " planes, factors " << factors);
    auto appendable = backend.CreateAppendableCodes(
        {.codes = shape, .planes = planes, .max_documents = view.num_documents, .max_tokens = view.num_tokens()});
    ASSERT_TRUE(appendable.ok()) << appendable.status();
    const QueryCodes query = EncodedQuery(shape, planes, random);
    std::vector<std::pair<std::shared_ptr<const LoadedCodes>, std::vector<std::vector<Scored>>>> snapshots;
    EXPECT_EQ((*appendable)->Snapshot()->num_documents(), 0);
    int64_t begin = 0;
    for (int64_t step = 1; begin < view.num_documents; ++step) {
      const int64_t end = std::min(begin + step, view.num_documents);
      const absl::Status status = AppendCodes(**appendable, shape, view, begin, end);
      ASSERT_TRUE(status.ok()) << status;
      begin = end;
      std::vector<int64_t> offsets;
      const EncodedDocuments encoded = Encoded(PartOf(view, 0, end, offsets), factors);
      auto loaded = backend.LoadCodes(encoded.view(), planes, nullptr);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      const std::shared_ptr<const LoadedCodes> snapshot = (*appendable)->Snapshot();
      EXPECT_EQ(snapshot->num_documents(), end);
      EXPECT_EQ(snapshot->planes(), planes);
      EXPECT_TRUE(snapshot->shape() == shape);
      EXPECT_TRUE(snapshot->has_bounds(planes));
      EXPECT_EQ(snapshot->memory(), MemoryNeed{}) << "the memory is that of the appendable codes";
      const std::vector<std::vector<Scored>> expected = ScanBothWays(**executor, **loaded, query);
      EXPECT_EQ(ScanBothWays(**executor, *snapshot, query), expected);
      snapshots.emplace_back(snapshot, expected);
    }
    appendable->reset();  // the snapshots must keep the memory
    for (const auto& [snapshot, expected] : snapshots) EXPECT_EQ(ScanBothWays(**executor, *snapshot, query), expected);
  }
}

}  // namespace maxsim::test
