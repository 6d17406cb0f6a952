// Tests that collections which clients have created are served again after a restart.
#include "server/service/creation/created_collections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/manifest.h"
#include "server/observability/metrics.h"
#include "server/service/collection_admin.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A server from its start to its end. Its clients may create collections in the folder `root`.
struct ServerRun {
  explicit ServerRun(const std::string& root) : store(&devices, {}), admin(&store, &devices, &metrics, {root}) {
    store.SetOpenLive([](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
      return std::make_shared<test::FakeLiveDocuments>();
    });
  }
  absl::StatusOr<v1::CollectionInfo> Create(const std::string& name) {
    v1::CreateCollectionRequest request;
    request.set_name(name);
    request.set_dim(8);
    request.set_storage(v1::DATA_TYPE_F16);
    return admin.CreateForClient(request, {});
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const v1::CollectionInfo& info : admin.List()) names.push_back(info.name());
    return names;
  }

  test::FakeBackend backend;
  store::DeviceSet devices{{{&backend, 0}}, store::OnDeviceLoss::kExit};
  store::CollectionStore store;
  Metrics metrics;
  CollectionAdmin admin;
};

TEST(CreatedCollectionsTest, ComeBackAfterARestartUntilTheyAreUnloaded) {
  const test::TemporaryFolder folder;
  {
    ServerRun run(folder.path());
    for (const char* name : {"a", "b"}) {
      const auto created = run.Create(name);
      ASSERT_TRUE(created.ok()) << created.status();
    }
  }
  {
    ServerRun run(folder.path());
    EXPECT_THAT(run.Names(), IsEmpty());
    run.admin.LoadCreated();
    EXPECT_THAT(run.Names(), ElementsAre("a", "b"));
    ASSERT_TRUE(run.admin.Unload("a", /*remove_settings=*/false, {}).ok());
  }
  ServerRun run(folder.path());
  run.admin.LoadCreated();
  EXPECT_THAT(run.Names(), ElementsAre("b"));
}

TEST(CreatedCollectionsTest, HaveTheCodesThatTheRequestNames) {
  const test::TemporaryFolder folder;
  ServerRun run(folder.path());
  v1::CreateCollectionRequest request;
  request.set_dim(8);
  for (const uint32_t planes : {0U, 1U, 2U, 4U}) {
    for (const v1::DataType storage : {v1::DATA_TYPE_F16, v1::DATA_TYPE_I8}) {
      for (const bool factors : {false, true}) {
        if (planes == 0 && factors) continue;
        request.set_name(absl::StrCat("c", planes, "-", static_cast<int>(storage), factors));
        request.set_storage(storage);
        request.set_code_planes(planes);
        request.set_code_factors(factors);
        const auto created = run.admin.CreateForClient(request, {});
        ASSERT_TRUE(created.ok()) << created.status();
        const auto manifest = collection::ReadManifest(folder / request.name());
        ASSERT_TRUE(manifest.ok()) << manifest.status();
        std::optional<collection::CodesFormat> expected;
        if (planes > 0) expected = {.planes = static_cast<int>(planes), .factors = factors, .rotation_seed = 0};
        EXPECT_TRUE(manifest->codes == expected) << collection::DescribeCodes(manifest->codes);
      }
    }
  }
}

TEST(CreatedCollectionsTest, NoCollectionHasOtherCodes) {
  const test::TemporaryFolder folder;
  ServerRun run(folder.path());
  v1::CreateCollectionRequest request;
  request.set_name("a");
  request.set_dim(8);
  for (const uint32_t planes : {3U, 5U, 0x80000001U}) {
    request.set_code_planes(planes);
    const absl::Status status = run.admin.CreateForClient(request, {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("code_planes: is ", planes, "; must be 0 (no codes), 1, 2 or 4")));
  }
  request.set_code_planes(0);
  request.set_code_factors(true);
  EXPECT_THAT(std::string(run.admin.CreateForClient(request, {}).status().message()),
              HasSubstr("code_factors: is true, but code_planes is 0"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST(CreatedCollectionsTest, HaveTheFieldsThatTheRequestDeclares) {
  const test::TemporaryFolder folder;
  ServerRun run(folder.path());
  v1::CreateCollectionRequest request;
  request.set_name("a");
  request.set_dim(8);
  v1::FieldDeclaration& lang = *request.add_fields();
  lang.set_name("lang");
  lang.set_kind(v1::FIELD_KIND_KEYWORD);
  lang.set_path("meta.lang");
  v1::FieldDeclaration& year = *request.add_fields();
  year.set_name("year");
  year.set_kind(v1::FIELD_KIND_INTEGER);
  const auto created = run.admin.CreateForClient(request, {});
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(collection::FormatFields(collection::ReadManifest(folder / "a")->fields),
            "lang:keyword=meta.lang,year:integer");
  ASSERT_EQ(created->fields_size(), 2);
  EXPECT_EQ(created->fields(0).kind(), v1::FIELD_KIND_KEYWORD);
  EXPECT_EQ(created->fields(0).path(), "meta.lang");
  EXPECT_EQ(created->fields(1).path(), "year");

  request.set_name("b");
  lang.set_kind(v1::FIELD_KIND_UNSPECIFIED);
  absl::Status status = run.admin.CreateForClient(request, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("fields[0].kind: is 0; must be 1 to 6"));
  lang.set_kind(v1::FIELD_KIND_TIME);
  year.set_name("lang");
  status = run.admin.CreateForClient(request, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("fields: field \"lang\" appears twice"));
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
}

TEST(CreatedCollectionsTest, ThoseUnderAFolderWhoseNameIsNotUtf8ComeBack) {
  const test::TemporaryFolder folder;
  const std::string root = folder / "caf\xe9";
  std::filesystem::create_directory(root);
  {
    ServerRun run(root);
    const auto created = run.Create("a");
    ASSERT_TRUE(created.ok()) << created.status();
  }
  ServerRun run(root);
  run.admin.LoadCreated();
  EXPECT_TRUE(run.store.Find("a").ok());
}

TEST(CreatedCollectionsTest, OneThatCannotBeLoadedKeepsNoOtherFromIt) {
  const test::TemporaryFolder folder;
  {
    ServerRun run(folder.path());
    ASSERT_TRUE(run.Create("a").ok());
    ASSERT_TRUE(run.Create("b").ok());
  }
  std::ofstream(folder / "a/collection.json") << "damaged";
  ServerRun run(folder.path());
  run.admin.LoadCreated();
  EXPECT_TRUE(run.store.Find("b").ok());
  const auto damaged = run.store.Find("a");
  EXPECT_FALSE(damaged.ok());
  EXPECT_THAT(run.Names(), ElementsAre("a", "b")) << "the list has it, with its error";
}

TEST(CreatedCollectionsTest, AListThatCannotBeReadIsNamedAndNothingIsCreatedBesideIt) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / kCreatedCollectionsName) << "{\"collections\": [{\"name\": 7}]}";
  ServerRun run(folder.path());
  const auto created = run.Create("a");
  EXPECT_TRUE(absl::IsDataLoss(created.status())) << created.status();
  EXPECT_THAT(std::string(created.status().message()), HasSubstr(kCreatedCollectionsName));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST(CreatedCollectionsTest, AListWithoutAVersionIsReadAndOneOfALaterVersionIsRefusedAndKept) {
  const test::TemporaryFolder folder;
  const std::string path = folder / kCreatedCollectionsName;
  const std::string entries = R"("collections": [{"name": "a", "path": "/a", "residency": "auto"}]})";
  const CreatedCollections list;
  std::ofstream(path) << "{" << entries;
  EXPECT_EQ(list.List(folder.path())->size(), 1u);
  std::ofstream(path) << R"({"format_version": 1, )" << entries;
  EXPECT_EQ(list.List(folder.path())->size(), 1u);
  const std::string later = R"({"format_version": 2, )" + entries;
  std::ofstream(path) << later;
  ServerRun run(folder.path());
  const absl::Status status = run.Create("b").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": format_version: 2; this version reads 1"));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), later);
}

}  // namespace
}  // namespace maxsim::service
