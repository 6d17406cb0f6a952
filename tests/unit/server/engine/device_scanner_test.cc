// Tests that a DeviceScanner scans all parts (loaded shards) on its device in one call, and keeps the limits of a call.
#include "server/engine/device_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/rank_order.h"
#include "tests/support/collection/live_documents.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/values/clustered_documents.h"
#include "tests/unit/server/engine/recording_scans.h"

namespace maxsim::engine {
namespace {

class DeviceScannerTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 32;
  static constexpr int64_t kNumDocuments = 400;
  static constexpr int kPlanes = 4;
  static constexpr uint64_t kNoBound = uint64_t{1} << 62;
  using FoundByTask = std::vector<std::vector<std::pair<uint64_t, float>>>;

  DeviceScannerTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        clustered_(seed_, kNumDocuments, kDim, ScalarType::kF16),
        cpu_(MakeCpuBackend()),
        backend_(*cpu_) {
    const test::CorpusOptions options = {.max_shard_bytes = 60'000,
                                         .codes = {.planes = kPlanes, .rotation_seed = 5, .factors = false}};
    test::BuildCorpus(folder_.path(), clustered_.documents, options);
    base_ = test::LoadCorpus(folder_.path(), cpu_.get());
    EXPECT_GE(base_->num_parts(), 4u);
    live_ = std::make_unique<test::LiveCorpus>(cpu_.get(), base_, clustered_.documents, options, 70);
    for (int64_t n = 0; n < 200; ++n) {
      const std::string id = "doc-" + std::to_string(clustered_.generator() % (kNumDocuments + 100));
      if (n % 3 == 0) {
        live_->Delete(id);
      } else {
        live_->Upsert(id, clustered_.documents, n);
      }
    }
    changed_ = live_->Snapshot();
    EXPECT_GE(changed_->num_parts(), base_->num_parts() + 2);
  }

  JobQuery Query(CandidatesPtr candidates = WholeCollection()) {
    return MakeJobQuery(clustered_.Query(), std::move(candidates), 5);
  }
  // Returns three of every four documents in the snapshot.
  CandidatesPtr List(const store::Collection& collection) const {
    std::vector<uint64_t> ordinals;
    size_t count = 0;
    for (const std::string& id : live_->expected().ids()) {
      const std::optional<uint64_t> ordinal = collection.Find(id);
      if (ordinal.has_value() && ++count % 4 != 0) ordinals.push_back(*ordinal);
    }
    return Ordinals(std::move(ordinals), 2);
  }

  // Makes a job for each query, and a scan task for each job.
  void Begin(std::shared_ptr<const store::Collection> collection, const std::vector<JobQuery>& queries,
             int32_t num_results) {
    collection_ = std::move(collection);
    jobs_.clear();
    pointers_.clear();
    tasks_.clear();
    for (const JobQuery& query : queries) {
      jobs_.push_back(MakeJob(collection_, {query}));
      pointers_.push_back(jobs_.back().get());
    }
    batch_ = std::make_unique<BatchQueries>();
    batch_->Assign(pointers_, {}, nullptr);
    for (const BatchQuery& query : batch_->queries()) {
      const JobQuery& job_query = *query.job_query;
      std::vector<float> tokens(static_cast<size_t>(job_query.num_tokens) * kDim);
      ConvertElements(ScalarType::kF16, job_query.tokens.data(), ScalarType::kF32, tokens.data(), tokens.size());
      tasks_.push_back({.query = &query,
                        .codes = *EncodeQuery(collection_->part(0).CodesOn(0)->shape(), kPlanes, tokens, {}),
                        .order = query.job_idx % 2 == 0 ? ScanOrder::kUpperBound : ScanOrder::kEstimate,
                        .num_results = num_results});
    }
  }

  // Scans all parts with these two limits of a call.
  std::unique_ptr<DeviceScanner> Scan(uint64_t max_call_work = kNoBound,
                                      int64_t max_call_results = kMaxScanCallResults) {
    backend_.calls.clear();
    auto scanner = std::make_unique<DeviceScanner>(0, &devices_, max_call_work, max_call_results);
    scanner->BeginBatch(batch_.get(), tasks_);
    for (size_t idx = 0; idx < collection_->num_parts(); ++idx) scanner->AddPart(static_cast<uint32_t>(idx));
    scanner->Scan();
    return scanner;
  }

  // Returns the best candidates that were found for a task, in rank order.
  static std::vector<std::pair<uint64_t, float>> Best(std::vector<ScannedCandidate> found, int32_t num_results) {
    std::sort(found.begin(), found.end(), RanksBefore);
    if (found.size() > static_cast<size_t>(num_results)) found.resize(static_cast<size_t>(num_results));
    std::vector<std::pair<uint64_t, float>> best;
    for (const ScannedCandidate& one : found) best.emplace_back(one.position, one.score);
    return best;
  }
  FoundByTask Found(const DeviceScanner& scanner) const {
    FoundByTask found;
    for (size_t task = 0; task < tasks_.size(); ++task) {
      found.push_back(Best(scanner.found(task), tasks_[task].num_results));
    }
    return found;
  }

  // Computes what each task must find, by scanning each of its documents alone. Tasks of failed jobs must find nothing.
  FoundByTask Expected() const {
    FoundByTask expected;
    const auto executor = *cpu_->CreateScanExecutor();
    for (const ScanTask& task : tasks_) {
      if (!batch_->Alive(*task.query)) {
        expected.emplace_back();
        continue;
      }
      const CandidateSet& set = *task.query->job_query->candidates;
      std::vector<ScannedCandidate> scores;
      const auto scan = [&](uint64_t ordinal, uint64_t position) {
        const store::Location location = collection_->Locate(ordinal);
        const ScanQuery query = {.codes = &task.codes,
                                 .ordinals = &location.ordinal,
                                 .num_candidates = 1,
                                 .num_results = 1,
                                 .order = task.order};
        std::vector<Scored> result;
        const ScanCall call = {
            .codes = collection_->part(location.part).CodesOn(0), .queries = {&query, 1}, .results = {&result, 1}};
        EXPECT_TRUE(executor->Scan({&call, 1}, nullptr).ok());
        scores.push_back({.score = result.at(0).score, .position = position});
      };
      if (set.kind == CandidateSet::Kind::kOrdinals) {
        // In a list, a document's position is its index in the list.
        for (size_t idx = 0; idx < set.ordinals.size(); ++idx) scan(set.ordinals[idx], idx);
      } else {
        for (uint64_t ordinal = 0; ordinal < collection_->num_ordinals(); ++ordinal) {
          const bool is_alive = collection_->Find(collection_->string_id(ordinal)) == ordinal;
          if (is_alive) scan(ordinal, ordinal);
        }
      }
      expected.push_back(Best(std::move(scores), task.num_results));
    }
    return expected;
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  test::ClusteredDocuments clustered_;
  const test::TemporaryFolder folder_;
  const std::unique_ptr<Backend> cpu_;
  RecordingBackend backend_;
  store::DeviceSet devices_{&backend_};
  std::shared_ptr<const store::Collection> base_;
  std::shared_ptr<const store::Collection> changed_;  // with segments and tombstones
  std::unique_ptr<test::LiveCorpus> live_;
  std::shared_ptr<const store::Collection> collection_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Job*> pointers_;
  std::unique_ptr<BatchQueries> batch_;
  std::vector<ScanTask> tasks_;
};

TEST_F(DeviceScannerTest, OneCallScansAllPartsAndEachResultIsOfItsPart) {
  for (const auto& collection : {base_, changed_}) {
    for (const bool listed : {false, true}) {
      SCOPED_TRACE(testing::Message() << collection->num_parts() << " parts, listed " << listed);
      const CandidatesPtr candidates = listed ? List(*collection) : WholeCollection();
      for (const int32_t num_results : {1, 7, 10'000}) {
        Begin(collection, {Query(candidates), Query(candidates), Query(candidates)}, num_results);
        const auto scanner = Scan();
        EXPECT_EQ(Found(*scanner), Expected());
        // The scanner keeps only the best results of all parts together, and those with the same score as the last one.
        for (size_t task = 0; task < tasks_.size(); ++task) {
          EXPECT_LE(scanner->found(task).size(), static_cast<size_t>(num_results) + 3);
        }
        ASSERT_EQ(backend_.calls.size(), 1u);
        ASSERT_EQ(backend_.calls[0].size(), collection->num_parts());
        for (size_t idx = 0; idx < collection->num_parts(); ++idx) {
          EXPECT_EQ(backend_.calls[0][idx].codes, collection->part(idx).CodesOn(0));
          EXPECT_EQ(backend_.calls[0][idx].num_queries, 3u);
          EXPECT_EQ(backend_.calls[0][idx].has_list, listed);
          EXPECT_EQ(backend_.calls[0][idx].has_mask, !listed && collection->num_tombstones(idx) > 0);
        }
      }
    }
  }
}

TEST_F(DeviceScannerTest, QueriesOfOtherCandidatesHaveCallsOfTheirOwn) {
  const CandidatesPtr list = List(*changed_);
  Begin(changed_, {Query(), Query(list), Query(), Query(list)}, 9);
  const auto scanner = Scan();
  EXPECT_EQ(Found(*scanner), Expected());
  EXPECT_EQ(backend_.calls.size(), 2u);
  EXPECT_EQ(scanner->token_pairs(), 2 * 8 * (changed_->num_tokens() + changed_->num_tokens(list->ordinals)));
}

TEST_F(DeviceScannerTest, CallsKeepToTheTokenPairsAndFindTheSame) {
  for (const auto& collection : {base_, changed_}) {
    for (const CandidatesPtr& candidates : {WholeCollection(), List(*collection)}) {
      Begin(collection, {Query(candidates), Query(candidates)}, 20);
      const FoundByTask expected = Expected();
      int64_t most = 0;  // tokens of a part
      for (size_t idx = 0; idx < collection->num_parts(); ++idx) {
        most = std::max(most, collection->part(idx).num_tokens());
      }
      for (const int64_t max_tokens : {int64_t{1}, int64_t{100}, most - 1, most, 2 * most}) {
        SCOPED_TRACE(max_tokens);
        const auto scanner = Scan(static_cast<uint64_t>(max_tokens) * 16);
        EXPECT_EQ(Found(*scanner), expected);
        EXPECT_EQ(scanner->token_pairs(),
                  16 * (candidates->kind == CandidateSet::Kind::kOrdinals ? collection->num_tokens(candidates->ordinals)
                                                                          : collection->num_tokens()));
        for (const std::vector<RecordingBackend::Part>& call : backend_.calls) {
          int64_t tokens = 0, documents = 0;
          for (const RecordingBackend::Part& part : call) {
            documents += part.num_candidates;
            // A document has 4 tokens or more.
            tokens += 4 * part.num_candidates;
            EXPECT_TRUE(part.has_list || part.codes->num_documents() <= max_tokens);
          }
          EXPECT_TRUE(documents == 1 || tokens <= max_tokens) << documents << " documents";
        }
      }
      EXPECT_LE(backend_.calls.size(), (collection->num_parts() + 1) / 2) << "any two parts fit into the last calls";
    }
  }
}

TEST_F(DeviceScannerTest, CallsOfSeveralPartsKeepToTheResults) {
  Begin(changed_, {Query(), Query()}, 20);
  const FoundByTask expected = Expected();
  for (const int64_t max_results : {1, 39, 40, 85, 200}) {
    SCOPED_TRACE(max_results);
    const int64_t num_together = max_results < 40 ? 1 : 2;
    size_t num_calls = 1;
    int64_t pending = 0;
    for (size_t idx = 0; idx < changed_->num_parts(); ++idx) {
      const int64_t results = num_together * std::min<int64_t>(20, changed_->part(idx).num_documents());
      if (pending > 0 && results > max_results - pending) {
        ++num_calls;
        pending = 0;
      }
      pending += results;
    }
    const auto scanner = Scan(kNoBound, max_results);
    EXPECT_EQ(Found(*scanner), expected);
    EXPECT_EQ(backend_.calls.size(), static_cast<size_t>(2 / num_together) * num_calls);
    for (const std::vector<RecordingBackend::Part>& call : backend_.calls) {
      int64_t results = 0;
      for (const RecordingBackend::Part& part : call) results += part.num_results;
      const bool is_single = call.size() == 1 && call[0].num_queries == 1;
      EXPECT_TRUE(is_single || results <= max_results) << call.size() << " parts, " << results << " results";
    }
  }
}

TEST_F(DeviceScannerTest, TellsTheDevicesWhatItsWorkspaceTakes) {
  Begin(base_, {Query()}, 3);
  backend_.workspace_bytes = 1000;
  const auto first = Scan();
  EXPECT_EQ(devices_.scan_bytes(0), 1000u);
  {
    const auto second = Scan();
    EXPECT_EQ(devices_.scan_bytes(0), 2000u);
  }
  EXPECT_EQ(devices_.scan_bytes(0), 1000u);
  // A failed scan may also have changed the size of the workspace, so the scanner must report the size again.
  backend_.workspace_bytes = 600;
  backend_.on_scan = [](const ScanCall&) { return absl::ResourceExhaustedError("no memory"); };
  first->BeginBatch(batch_.get(), tasks_);
  first->AddPart(0);
  first->Scan();
  EXPECT_EQ(devices_.scan_bytes(0), 600u);
}

TEST_F(DeviceScannerTest, ACallHasNoMorePartsThanItSays) {
  Begin(base_, {Query()}, 3);
  DeviceScanner scanner(0, &devices_, kNoBound);
  scanner.BeginBatch(batch_.get(), tasks_);
  for (size_t idx = 0; idx < DeviceScanner::kMaxCallParts + 1; ++idx) scanner.AddPart(0);
  scanner.Scan();
  ASSERT_EQ(backend_.calls.size(), 2u);
  EXPECT_EQ(backend_.calls[0].size(), DeviceScanner::kMaxCallParts);
  EXPECT_EQ(backend_.calls[1].size(), 1u);
}

TEST_F(DeviceScannerTest, AnErrorOfAnyPartFailsTheJob) {
  for (size_t part = 0; part < changed_->num_parts(); ++part) {
    SCOPED_TRACE(part);
    Begin(changed_, {Query()}, 10);
    const LoadedCodes* const bad = changed_->part(part).CodesOn(0);
    backend_.on_scan = [bad](const ScanCall& call) {
      return call.codes == bad ? absl::InternalError("this part is bad") : absl::OkStatus();
    };
    const auto scanner = Scan();
    EXPECT_EQ(batch_->StatusOf(0), absl::InternalError("this part is bad"));
    EXPECT_TRUE(scanner->lost().ok());
    EXPECT_EQ(scanner->token_pairs(), 0u) << "of calls that succeeded";
  }
}

TEST_F(DeviceScannerTest, AQueryThatIsRefusedFailsItsOwnJob) {
  const std::vector<JobQuery> queries = {Query(), Query(), Query()};
  Begin(changed_, queries, 10);
  const FoundByTask expected = Expected();
  for (size_t part = 0; part < changed_->num_parts(); ++part) {
    for (size_t refused = 0; refused < 3; ++refused) {
      SCOPED_TRACE(testing::Message() << "part " << part << ", query " << refused);
      Begin(changed_, queries, 10);
      const LoadedCodes* const bad = changed_->part(part).CodesOn(0);
      const QueryCodes* const codes = &tasks_[refused].codes;
      backend_.on_scan = [bad, codes](const ScanCall& call) {
        const bool has_it = std::any_of(call.queries.begin(), call.queries.end(),
                                        [codes](const ScanQuery& query) { return query.codes == codes; });
        return call.codes == bad && has_it ? absl::InvalidArgumentError("refused") : absl::OkStatus();
      };
      const auto scanner = Scan();
      const FoundByTask found = Found(*scanner);
      for (size_t task = 0; task < 3; ++task) {
        const absl::Status status = batch_->StatusOf(tasks_[task].query->job_idx);
        if (task == refused) {
          EXPECT_EQ(status, absl::InvalidArgumentError("refused"));
        } else {
          EXPECT_TRUE(status.ok()) << status;
          EXPECT_EQ(found[task], expected[task]);
        }
      }
    }
  }
}

TEST_F(DeviceScannerTest, ADeviceThatIsLostAtAnyPartIsLost) {
  for (size_t part = 0; part < changed_->num_parts(); ++part) {
    Begin(changed_, {Query(), Query()}, 10);
    const LoadedCodes* const bad = changed_->part(part).CodesOn(0);
    backend_.on_scan = [bad](const ScanCall& call) {
      return call.codes == bad ? absl::UnavailableError("Xid 79") : absl::OkStatus();
    };
    const auto scanner = Scan();
    EXPECT_EQ(scanner->lost(), absl::UnavailableError("Xid 79"));
    EXPECT_EQ(backend_.calls.size(), 1u) << "it is not asked again";
    EXPECT_TRUE(batch_->StatusOf(0).ok()) << "other devices may have the documents";
  }
}

// The candidate list of failed queries is not split by parts. A scan for them would read an empty list, or the list of
// an earlier batch.
TEST_F(DeviceScannerTest, JobsThatFailedAreNotScanned) {
  Begin(changed_, {Query(List(*changed_)), Query(), Query(Ordinals({changed_->num_ordinals()}))}, 10);
  ASSERT_FALSE(batch_->StatusOf(2).ok());
  batch_->Fail(0, absl::CancelledError("gone"));
  const auto scanner = Scan();
  EXPECT_EQ(Found(*scanner), Expected());
  EXPECT_EQ(backend_.calls.size(), 1u);
}

}  // namespace
}  // namespace maxsim::engine
