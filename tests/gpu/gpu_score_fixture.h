// Shared by the tests of the scoring kernels: tilings (sizes of a kernel's tiles), storage types, and calls on each
// Hopper tiling.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {

inline constexpr ScalarType kTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8};

// Returns the Hopper tilings that score several query tiles of `dim` columns at once. If these are the wide tilings,
// also returns stream32. (Other tests cover stream32 with wider rows.)
inline std::vector<ScoreTile> HopperTiles(ScalarType type, int32_t dim) {
  if (DeviceRowBytes(type, dim) <= kWideMaxRowBytes) {
    return {ScoreTile::kWide128, ScoreTile::kWide256, ScoreTile::kStream32};
  }
  if (DeviceRowBytes(type, dim) > kDeepMaxRowBytes) return {};
  return {ScoreTile::kDeep128, ScoreTile::kDeep256};
}

constexpr uint32_t Only(ScoreTile tile) { return 1u << static_cast<uint32_t>(tile); }

using Shape = std::pair<ScalarType, int32_t>;  // a storage type and a number of columns

// The storage types that the Hopper tilings score.
inline constexpr ScalarType kHopperTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

class GpuScoreTest : public GpuTest {
 protected:
  // Checks every candidate's score of one query against FP64.
  void Check(Executor& executor, const Documents& loaded, const RandomDocuments& documents, const Query& query) {
    ExpectMatchesReference(documents, query, TopK(executor, loaded, {query})[0]);
  }

  // Scores six documents on each Hopper tiling: with a long query, with a list, and with a short query.
  void CheckHopperTiles(int32_t dim, const std::vector<int64_t>& lengths) {
    const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
    for (ScalarType type : kHopperTypes) {
      const RandomDocuments documents = MakeDocuments(TestSeed(), type, dim, lengths);
      const std::unique_ptr<Documents> loaded = Load(documents);
      const RandomQuery query = MakeQuery(TestSeed() + 1, type, dim, 300);
      const std::vector<uint32_t> ordinals = {5, 0, 3, 2, 2};
      for (ScoreTile tile : HopperTiles(type, dim)) {
        SCOPED_TRACE(testing::Message() << Name(type) << " d " << dim << ", " << Name(tile));
        executor->tuning().tiles = Only(tile);
        Check(*executor, *loaded, documents, query.view(6));
        EXPECT_EQ(executor->trace().plan.tile, tile);
        Query listed = query.view(5);
        listed.ordinals = ordinals.data();
        listed.num_candidates = static_cast<int64_t>(ordinals.size());
        EXPECT_EQ(TopK(*executor, *loaded, {listed, query.view(1)}).front().size(), 5u);
      }
    }
  }
};

}  // namespace maxsim::test
