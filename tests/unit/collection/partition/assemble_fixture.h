// Makes servers of one stream and snapshots of them, for the tests of assemblies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collection/partition/assemble.h"
#include "tests/unit/collection/partition/following_server.h"

namespace maxsim::collection {

inline CreateOptions OptionsWithCodesAndFields(ScalarType storage = ScalarType::kF16) {
  return {.name = "live",
          .dim = 8,
          .storage = storage,
          .rotation_seed = storage == ScalarType::kI8 ? uint64_t{77} : 0,
          .codes = CodesFormat{.planes = 2, .factors = true, .rotation_seed = 0},
          .fields = {{.name = "n", .kind = FieldKind::kInteger, .path = "n"}}};
}

// Returns the versions of the ids whose slots are in `slots`.
inline std::map<std::string, uint64_t> VersionsOfSlots(const std::map<std::string, uint64_t>& versions,
                                                       const SlotRange& slots) {
  std::map<std::string, uint64_t> some;
  for (const auto& [id, version] : versions) {
    if (slots.contains(SlotOf(id))) some[id] = version;
  }
  return some;
}

class AssembleTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  // Makes a server of `slots` that has applied the messages up to `through`, and returns the folder of a snapshot.
  std::string SnapshotOf(const std::string& name, const SlotRange& slots, uint64_t through,
                         const std::optional<LogStream>& stream = TestStream(), uint64_t compacted_at = 0) {
    FollowingServer server = FollowingServer::Create(Path(name), slots, OptionsWithCodesAndFields(), stream);
    if (compacted_at > 0) {
      server.Apply(writes_, compacted_at);
      server.CompactAll(0.9);
    }
    server.Apply(writes_, through);
    return server.SnapshotTo(Path(name + "-copy"));
  }

  // Assembles, expects an error, and returns it.
  absl::Status Refused(const std::vector<std::string>& folders, const SlotRange& slots) const {
    absl::Status status = AssembleLive(folders, {.output = Path("out"), .slots = slots}).status();
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
    return status;
  }

  TemporaryFolder folder_;
  const std::vector<StreamedWrite> writes_ = RandomWrites(400, 90, ScalarType::kF16, 5);
};

}  // namespace maxsim::collection
