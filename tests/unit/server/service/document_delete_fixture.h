// A service with fake live collections, for tests of Documents.Delete with a filter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "server/service/documents.h"
#include "server/service/documents/document_delete.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {

// More documents than versions are looked up between two checks of the deadline.
inline constexpr int kManyDocuments = 3'000;

class DocumentDeleteTest : public testing::Test {
 protected:
  DocumentDeleteTest() {
    Build("docs", 12, collection::IdType::kString);
    Build("ints", 12, collection::IdType::kInt64);
    Build("many", kManyDocuments, collection::IdType::kInt64);
    Build("fixed", 12, collection::IdType::kString);
    store_.SetOpenLive(
        [this](const store::LiveRequest& request) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
          return lives_.emplace_back(std::make_shared<test::FakeLiveDocuments>());
        });
    for (const char* const name : {"docs", "ints", "many", "fixed"}) {
      const auto loaded = store_.Load(name, folder_ / name, store::Residency::kAuto, store::Replication::kAuto, "",
                                      nullptr, /*live=*/std::string(name) != "fixed");
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
    service_.SetState(ServingState::kServing);
    request_.set_collection("docs");
    request_.set_filter_text("year >= 2004");
  }

  // Builds a collection whose documents have the years 2000, 2001 and so on.
  void Build(const std::string& name, int num_documents, collection::IdType id_type) {
    const test::RandomDocuments documents = test::SmallDocuments(1, num_documents, ScalarType::kF16, 16);
    test::CorpusOptions options;
    options.id_type = id_type;
    options.fields = *collection::ParseFields("year:integer");
    for (int i = 0; i < num_documents; ++i) {
      options.payload_texts.push_back("{\"year\":" + std::to_string(2000 + i) + "}");
    }
    test::BuildCorpus(folder_ / name, documents, options);
  }

  test::FakeLiveDocuments& live() { return *lives_.at(0); }
  test::FakeLiveDocuments& live_of_ints() { return *lives_.at(1); }
  test::FakeLiveDocuments& live_of_many() { return *lives_.at(2); }

  absl::StatusOr<v1::DeleteResponse> Delete(CallContext context = {.method = "Delete"}) {
    std::optional<absl::StatusOr<v1::DeleteResponse>> answer;
    service_.Delete(request_, std::move(context),
                    [&](absl::StatusOr<v1::DeleteResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  // Expects that Delete returns INVALID_ARGUMENT about this field of the request, and that nothing is written.
  void ExpectRefused(const std::string& field) {
    const absl::Status status = Delete().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(client::FieldOf(status), field) << status;
    EXPECT_THAT(live().written, testing::IsEmpty());
  }

  absl::StatusOr<MatchingDeletes> Find(const store::LiveDocuments& live, size_t max_documents,
                                       const StopCheck& check = nullptr, uint64_t max_versions = kMaxVersionsRead) {
    return FindMatchingDeletes(request_, **store_.Find(request_.collection()), live, max_documents, max_versions,
                               check);
  }

  static std::vector<int64_t> IntIds(const absl::StatusOr<MatchingDeletes>& deletes) {
    std::vector<int64_t> ids;
    EXPECT_TRUE(deletes.ok()) << deletes.status();
    if (!deletes.ok()) return ids;
    for (const store::Write& write : deletes->writes) ids.push_back(write.int_id);
    return ids;
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  std::vector<std::shared_ptr<test::FakeLiveDocuments>> lives_;
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  DocumentService service_{&store_, &texts_, &metrics_, {}};
  v1::DeleteRequest request_;
};

}  // namespace maxsim::service
