#include "server/http/access.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/collection/corpus.h"

namespace maxsim::http {
namespace {

// Lists two collections.
class TwoCollections final : public service::CollectionApi {
 public:
  absl::StatusOr<v1::CollectionInfo> LoadForClient(const v1::LoadCollectionRequest&,
                                                   const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::CollectionInfo> CreateForClient(const v1::CreateCollectionRequest&,
                                                     const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::CollectionInfo> Compact(const std::string&, bool*, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::ReloadCollectionResponse> Reload(const v1::ReloadCollectionRequest&,
                                                      const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<uint64_t> SnapshotForClient(const std::string&, const std::string&,
                                             const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::SlotLayout> SetLayout(const v1::SetLayoutRequest&, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::Status ReadSnapshot(const std::string&, service::SnapshotSink, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::BootstrapCollectionResponse> Bootstrap(const v1::BootstrapCollectionRequest&,
                                                            const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  absl::Status Unload(const std::string&, bool, const service::ChangeContext&) override {
    return absl::UnimplementedError("");
  }
  std::vector<v1::CollectionInfo> List() const override {
    std::vector<v1::CollectionInfo> collections(2);
    collections[0].set_name("docs");
    collections[0].set_path("/srv/docs");
    collections[0].set_error("group g1 does not answer");
    collections[1].set_name("secret");
    return collections;
  }
};

class AccessTest : public testing::Test {
 protected:
  // Makes tokens for searching and for administration.
  Access Make(const std::string& search_tokens, service::ErrorSource source = service::ErrorSource::kServer) {
    test::WriteFile(folder_ / "tokens", search_tokens);
    test::WriteFile(folder_ / "admin_tokens", "operator\n");
    authenticator_ = std::make_unique<service::Authenticator>(
        service::TokenFiles{.search = folder_ / "tokens", .admin = folder_ / "admin_tokens"});
    EXPECT_TRUE(authenticator_->Load().ok());
    return Access(BrowserGuard("127.0.0.1", {}), authenticator_.get(), &collections_, source);
  }

  static Request With(const std::string& token) {
    Request request;
    if (!token.empty()) request.authorization = "Bearer " + token;
    return request;
  }

  static std::string NamesFor(const Access& access, const std::string& token) {
    const Request request = With(token);
    const auto caller = access.Identify(request, service::Scope::kSearch);
    if (!caller.ok()) return absl::StatusCodeToString(caller.status().code());
    std::string names;
    for (const v1::CollectionInfo& info : access.CollectionsFor(request, *caller))
      names += info.name() + info.path() + " ";
    return names;
  }

  test::TemporaryFolder folder_;
  TwoCollections collections_;
  std::unique_ptr<service::Authenticator> authenticator_;
};

constexpr char kTenantLine[] = "plain\nacme {\"tenant\": \"acme\", \"collections\": [\"docs\"]}\n";

TEST_F(AccessTest, WithoutTenantsFactsAboutTheServerNeedNoToken) {
  const Access access = Make("plain\n");
  EXPECT_TRUE(access.CheckServerFacts(With("")).ok());
  EXPECT_TRUE(access.CheckServerFacts(With("unknown")).ok());
}

TEST_F(AccessTest, WithTenantsFactsAboutTheServerNeedATokenThatIsNotATenants) {
  const Access access = Make(kTenantLine);
  EXPECT_TRUE(absl::IsUnauthenticated(access.CheckServerFacts(With(""))));
  EXPECT_TRUE(absl::IsPermissionDenied(access.CheckServerFacts(With("acme"))));
  EXPECT_TRUE(access.CheckServerFacts(With("plain")).ok());
  EXPECT_TRUE(access.CheckServerFacts(With("operator")).ok());
}

TEST_F(AccessTest, RequestsThatAreNotForTenantsRefuseThem) {
  const Access access = Make(kTenantLine);
  EXPECT_TRUE(absl::IsPermissionDenied(access.Check(With("acme"), service::Scope::kSearch)));
  EXPECT_TRUE(access.Check(With("plain"), service::Scope::kSearch).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(access.Identify(With("acme"), service::Scope::kAdmin).status()));
}

TEST_F(AccessTest, ATenantSeesItsCollectionsAndOnlyAdministratorsSeeFolders) {
  const Access access = Make(kTenantLine);
  EXPECT_EQ(NamesFor(access, "acme"), "docs ");
  EXPECT_EQ(NamesFor(access, "plain"), "docs secret ");
  EXPECT_EQ(NamesFor(access, "operator"), "docs/srv/docs secret ");
  EXPECT_EQ(NamesFor(access, "unknown"), "UNAUTHENTICATED");
}

TEST_F(AccessTest, ATenantOfARouterSeesNoNamesOfGroupsInErrors) {
  const Access access = Make(kTenantLine, service::ErrorSource::kRouter);
  const auto error_for = [&](const std::string& token) {
    const auto caller = access.Identify(With(token), service::Scope::kSearch);
    EXPECT_TRUE(caller.ok()) << caller.status();
    return access.CollectionsFor(With(token), *caller)[0].error();
  };
  EXPECT_EQ(error_for("acme"), "some documents cannot be reached at the moment");
  EXPECT_EQ(error_for("plain"), "group g1 does not answer");
}

TEST_F(AccessTest, WithoutTokensEveryoneIsUnrestricted) {
  service::Authenticator open({});
  const Access access(BrowserGuard("127.0.0.1", {"*"}), &open, &collections_, service::ErrorSource::kServer);
  const auto caller = access.Identify(With(""), service::Scope::kSearch);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_TRUE(caller->is_known());
  EXPECT_EQ(caller->tenant(), nullptr);
}

}  // namespace
}  // namespace maxsim::http
