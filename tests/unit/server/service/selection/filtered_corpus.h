// A small collection of random documents with fields, for tests that compare answers bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collection/slots.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/engine_fixture.h"
#include "tests/unit/server/service/selection/filtered_requests.h"

namespace maxsim::service {

struct FilteredCase {
  const char* name = "";
  collection::IdType id_type = collection::IdType::kString;
  int planes = 0;
  bool cuts_calls = false;  // The engine takes few documents a call.
};

class FilteredCorpusTest : public testing::TestWithParam<FilteredCase> {
 protected:
  static constexpr int32_t kDim = 16;
  static constexpr int64_t kNumDocuments = 300;

  FilteredCorpusTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        random_(seed_),
        documents_(test::SmallDocuments(seed_, kNumDocuments, ScalarType::kF16, kDim)),
        backend_(engine::MakeCpuBackend()),
        engine_(MakeEngineOf(backend_.get())) {
    for (int64_t idx = 0; idx < kNumDocuments; ++idx) {
      payloads_.push_back(random_.Payload());
    }
    options_.id_type = GetParam().id_type;
    options_.max_shard_bytes = 20'000;
    options_.payload_texts = payloads_;
    options_.fields = collection::RandomFilters::fields();
    if (GetParam().planes > 0) options_.codes = {.planes = GetParam().planes, .rotation_seed = 7, .factors = true};
    test::BuildCorpus(folder_.path(), documents_, options_);
    collection_ = test::LoadCorpus(folder_.path(), backend_.get());
    EXPECT_GE(collection_->num_parts(), 2u);
    known_.collection = collection_;
    for (int64_t idx = 0; idx < kNumDocuments; ++idx) {
      const std::string string_id = test::CorpusId(options_, idx);
      const int64_t int_id = test::CorpusIntId(idx);
      const int32_t slot =
          options_.id_type == collection::IdType::kInt64 ? collection::SlotOf(int_id) : collection::SlotOf(string_id);
      known_.documents.push_back(
          {.string_id = string_id,
           .int_id = int_id,
           .position = static_cast<uint64_t>(idx),
           .meaning = std::make_shared<const collection::FilterMeaning>(payloads_[static_cast<size_t>(idx)], slot)});
    }
  }

  static std::unique_ptr<engine::Engine> MakeEngineOf(Backend* backend) {
    if (!GetParam().cuts_calls) return engine::MakeEngine(backend);
    ExecutorOptions limits;
    limits.max_candidates = 20;
    return engine::MakeEngine(backend, limits, /*max_call_work=*/400);
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  collection::RandomFilters random_;
  const test::RandomDocuments documents_;
  std::vector<std::string> payloads_;
  test::CorpusOptions options_;
  const test::TemporaryFolder folder_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<engine::Engine> engine_;
  std::shared_ptr<const store::Collection> collection_;
  FilteredCollection known_;
};

inline std::vector<FilteredCase> FilteredCases() {
  return {FilteredCase{"plain"},
          FilteredCase{"ints", collection::IdType::kInt64},
          FilteredCase{"coded", collection::IdType::kString, 4},
          FilteredCase{"one_plane", collection::IdType::kInt64, 1},
          FilteredCase{"cut", collection::IdType::kString, 0, true},
          FilteredCase{"coded_cut", collection::IdType::kString, 4, true}};
}

inline std::string NameOfCase(const testing::TestParamInfo<FilteredCase>& one) { return one.param.name; }

}  // namespace maxsim::service
