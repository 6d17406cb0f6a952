// Translates requests to a small collection.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "server/service/request/translate.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {

class TranslateTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 16;

  void Build(collection::IdType id_type, bool payloads = false, ScalarType storage = ScalarType::kF16) {
    documents_ = test::SmallDocuments(1, 20, QueryType(storage), kDim);
    test::CorpusOptions options;
    options.id_type = id_type;
    options.payloads = payloads;
    options.max_shard_bytes = collection::kMinMaxShardBytes;
    options.storage = storage;
    test::BuildCorpus(folder_ / "c", documents_, options);
    collection_ = test::LoadCorpus(folder_ / "c", &backend_);
    ASSERT_NE(collection_, nullptr);
  }

  Translated Accept(const v1::RerankRequest& request) {
    auto translated = Translate(request, collection_, {});
    EXPECT_TRUE(translated.ok()) << translated.status();
    return translated.ok() ? *std::move(translated) : Translated{};
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  test::RandomDocuments documents_;
  std::shared_ptr<const store::Collection> collection_;
};

}  // namespace maxsim::service
