#include <gtest/gtest.h>

#include <cmath>

#include "kernels/maxsim.h"
#include "kernels/reference.h"
#include "tests/support/random_documents.h"

namespace maxsim {
namespace {

TEST(Smoke, Scores) {
  for (const std::string& isa : CpuIsas()) {
    auto backend = *CreateCpuBackend({.num_threads = 2, .isa = isa});
    auto executor = *backend->CreateExecutor({});
    for (ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
      for (int dim : {8, 9, 128, 129, 300}) {
        auto docs = test::MakeDocuments(1, type, dim, {1, 2, 3, 15, 16, 17, 100, 300});
        auto loaded = *backend->Load(docs.view(), nullptr);
        for (int lq : {1, 8, 31, 32, 33, 70}) {
          auto query = test::MakeQuery(2, type, dim, lq);
          std::vector<std::vector<Scored>> results(1);
          ASSERT_TRUE(executor->TopK(*loaded, {query.view(100)}, absl::MakeSpan(results), nullptr).ok());
          auto ref = ReferenceScores(docs.view(), query.view(100));
          ASSERT_EQ(results[0].size(), 8u);
          for (auto& hit : results[0]) {
            EXPECT_NEAR(hit.score, ref[hit.position].score, 1e-6 * ref[hit.position].magnitude) << isa << dim << lq;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace maxsim
