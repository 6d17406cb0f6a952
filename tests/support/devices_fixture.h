// A fixture with several fake devices, and lanes over them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/store/collection/changes.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_backend.h"

namespace maxsim::engine {

// Returns devices numbered 0, 1, ... that use these backends. The backends must outlive the result.
inline std::unique_ptr<store::DeviceSet> MakeDeviceSet(const std::vector<Backend*>& backends,
                                                       store::OnDeviceLoss on_loss) {
  std::vector<store::DeviceSet::Member> members;
  for (Backend* backend : backends) members.push_back({backend, static_cast<int>(members.size())});
  return std::make_unique<store::DeviceSet>(std::move(members), on_loss);
}

inline std::shared_ptr<const store::Collection> LoadOn(store::DeviceSet* devices, const std::string& folder,
                                                       store::Replication replication = store::Replication::kOff) {
  store::CollectionStore store(devices, {.memory_reserve_bytes = 0});
  auto loaded = store.Load("corpus", folder, store::Residency::kAuto, replication);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : nullptr;
}

// Returns the collection with the documents of these ordinals deleted. The collection must have string ids and must not
// be live.
inline std::shared_ptr<const store::Collection> WithDeleted(const store::Collection& collection,
                                                            const std::vector<uint64_t>& ordinals) {
  const auto changes = std::make_shared<store::Changes>(collection.shared_generation());
  uint64_t sequence = 0;
  for (const uint64_t ordinal : ordinals) {
    changes->Delete({.kind = collection::LogRecord::Kind::kDelete,
                     .sequence = ++sequence,
                     .string_id = collection.string_id(ordinal)});
  }
  return changes->Snapshot(sequence);
}

inline std::unique_ptr<Engine> MakeEngine(store::DeviceSet* devices, int num_lanes = 1) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create(devices, EngineOptions{.num_lanes = num_lanes, .executor = {}});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

class FakeDevicesTest : public testing::Test {
 protected:
  static constexpr int64_t kNumDocuments = 200;

  FakeDevicesTest() : documents_(test::SmallDocuments(21, kNumDocuments)) {
    test::BuildCorpus(folder_.path(), documents_, {.max_shard_bytes = collection::kMinMaxShardBytes});
  }

  // Makes the devices and an engine, and loads the corpus twice: as a collection spread over the devices, and as one
  // copied to each.
  void Start(size_t num_devices, store::OnDeviceLoss on_loss = store::OnDeviceLoss::kDegrade, int num_lanes = 1) {
    std::vector<Backend*> pointers;
    for (size_t idx = 0; idx < num_devices; ++idx) {
      backends_.push_back(std::make_unique<test::FakeBackend>("cuda"));
      pointers.push_back(backends_.back().get());
    }
    devices_ = MakeDeviceSet(pointers, on_loss);
    spread_ = LoadOn(devices_.get(), folder_.path());
    copied_ = LoadOn(devices_.get(), folder_.path(), store::Replication::kOn);
    engine_ = MakeEngine(devices_.get(), num_lanes);
    ASSERT_GE(spread_->generation().parts().size(), 2 * num_devices);
  }

  test::FakeBackend& backend(size_t device) { return *backends_[device]; }
  size_t num_calls(size_t device) const { return backends_[device]->calls().size(); }

  static JobQuery Query(int32_t num_tokens, CandidatesPtr candidates, bool want_alignments = false) {
    return MakeJobQuery(test::MakeQuery(1, ScalarType::kF16, 16, num_tokens), std::move(candidates), kNumDocuments,
                        want_alignments);
  }
  static std::unique_ptr<Job> OneQuery(std::shared_ptr<const store::Collection> collection, CandidatesPtr candidates,
                                       bool want_alignments = false) {
    std::vector<JobQuery> queries;
    queries.push_back(Query(2, std::move(candidates), want_alignments));
    return MakeJob(std::move(collection), std::move(queries));
  }
  // Scores a job in its own batch.
  absl::StatusOr<JobResult> Run(std::unique_ptr<Job> job, BatchStats* stats = nullptr) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(std::move(job));
    return std::move(Execute(engine_->lane(0), jobs, stats)[0]);
  }

  // Returns the ordinals of the collection's documents that are on a device.
  static std::vector<uint64_t> OrdinalsOn(const store::Collection& collection, uint32_t device) {
    std::vector<uint64_t> ordinals;
    for (const store::Part& part : collection.generation().parts()) {
      if (part.DocumentsOn(device) == nullptr) continue;
      for (int64_t idx = 0; idx < part.num_documents(); ++idx) {
        ordinals.push_back(part.first_ordinal + static_cast<uint64_t>(idx));
      }
    }
    return ordinals;
  }
  static std::vector<uint64_t> SortedOrdinals(const JobQueryResult& result) {
    std::vector<uint64_t> ordinals;
    for (const Hit& hit : result.hits) ordinals.push_back(hit.ordinal);
    std::sort(ordinals.begin(), ordinals.end());
    return ordinals;
  }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  std::vector<std::unique_ptr<test::FakeBackend>> backends_;
  std::unique_ptr<store::DeviceSet> devices_;
  std::shared_ptr<const store::Collection> spread_;
  std::shared_ptr<const store::Collection> copied_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace maxsim::engine
