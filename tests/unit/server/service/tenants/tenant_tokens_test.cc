// Tests what token files may say about tenants, and which calls the tokens of tenants may make.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/service/call/auth.h"
#include "tests/support/collection/corpus.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;
using testing::Not;

class TenantTokensTest : public testing::Test {
 protected:
  void Write(const std::string& search, const std::string& write = "writer\n",
             const std::string& admin = "operator\n") {
    test::WriteFile(folder_ / "search", search);
    test::WriteFile(folder_ / "write", write);
    test::WriteFile(folder_ / "admin", admin);
  }

  // Returns the name of the tenant that may make a call with the token, "*" for a caller without restrictions, or the
  // error's code.
  std::string CallerOf(const std::string& token, Scope scope) { return CallerOf(authenticator_, token, scope); }
  static std::string CallerOf(const Authenticator& authenticator, const std::string& token, Scope scope) {
    const auto caller = authenticator.Identify("Bearer " + token, scope);
    if (!caller.ok()) return absl::StatusCodeToString(caller.status().code());
    EXPECT_TRUE(caller->is_known());
    return caller->tenant() == nullptr ? "*" : caller->tenant()->name();
  }

  test::TemporaryFolder folder_;
  Authenticator authenticator_{
      TokenFiles{.search = folder_ / "search", .write = folder_ / "write", .admin = folder_ / "admin"}};
};

TEST_F(TenantTokensTest, ATokenWithSettingsIsATenants) {
  Write("plain\n  acme-token \t{\"tenant\": \"acme\"}\r\n", "acme-writer {\"tenant\": \"acme\"}\n");
  ASSERT_TRUE(authenticator_.Load().ok());
  EXPECT_EQ(CallerOf("plain", Scope::kSearch), "*");
  EXPECT_EQ(CallerOf("acme-token", Scope::kSearch), "acme");
  EXPECT_EQ(CallerOf("acme-token", Scope::kWrite), "PERMISSION_DENIED");
  EXPECT_EQ(CallerOf("acme-writer", Scope::kSearch), "acme");
  EXPECT_EQ(CallerOf("acme-writer", Scope::kWrite), "acme");
  EXPECT_EQ(CallerOf("acme-writer", Scope::kAdmin), "PERMISSION_DENIED");
  EXPECT_EQ(CallerOf("operator", Scope::kWrite), "*");
  EXPECT_EQ(CallerOf("acme-token {\"tenant\": \"acme\"}", Scope::kSearch), "UNAUTHENTICATED");
  EXPECT_TRUE(authenticator_.has_tenants());
  EXPECT_EQ(authenticator_.num_tokens(Scope::kSearch), 2u);
  EXPECT_EQ(authenticator_.num_tenant_tokens(Scope::kSearch), 1u);
}

TEST_F(TenantTokensTest, CallsThatAreNotForTenantsRefuseThem) {
  Write("acme-token {\"tenant\": \"acme\"}\n");
  ASSERT_TRUE(authenticator_.Load().ok());
  EXPECT_TRUE(absl::IsPermissionDenied(authenticator_.Check("Bearer acme-token", Scope::kSearch)));
  EXPECT_TRUE(authenticator_.Check("Bearer writer", Scope::kSearch).ok());
}

TEST_F(TenantTokensTest, NoTenantAdministersEvenWithoutAFileForThat) {
  Write("acme-token {\"tenant\": \"acme\"}\nplain\n");
  Authenticator search({.search = folder_ / "search"});
  ASSERT_TRUE(search.Load().ok());
  EXPECT_EQ(CallerOf(search, "plain", Scope::kAdmin), "*");
  EXPECT_EQ(CallerOf(search, "acme-token", Scope::kAdmin), "PERMISSION_DENIED");
  EXPECT_EQ(CallerOf(search, "acme-token", Scope::kWrite), "acme");
  EXPECT_FALSE(search.Check("Bearer acme-token", Scope::kAdmin).ok());
}

TEST_F(TenantTokensTest, AllTokensOfATenantShareItsUsageAndAReloadKeepsIt) {
  Write("one {\"tenant\": \"acme\"}\ntwo {\"tenant\": \"acme\", \"filter\": \"a = 1\"}\nb {\"tenant\": \"b\"}\n");
  ASSERT_TRUE(authenticator_.Load().ok());
  const auto usage_of = [&](const std::string& token) {
    return &authenticator_.Identify("Bearer " + token, Scope::kSearch)->tenant()->usage();
  };
  const TenantUsage* const usage = usage_of("one");
  EXPECT_EQ(usage_of("two"), usage);
  EXPECT_NE(usage_of("b"), usage);
  ASSERT_TRUE(authenticator_.Load().ok());
  EXPECT_EQ(usage_of("two"), usage);
}

TEST_F(TenantTokensTest, ErrorsNameKeyFileLineAndMemberAndNeverTheToken) {
  Write("plain\nacme-secret {\"tenant\": \"acme\", \"documents\": 0}\n");
  const std::string wrong(authenticator_.Load().message());
  EXPECT_EQ(wrong.find("auth.tokens_file: " + (folder_ / "search") + ":2: documents: is \"0\""), 0u) << wrong;
  EXPECT_THAT(wrong, Not(HasSubstr("acme-secret")));
  Write("plain\n", "writer\n", "operator {\"tenant\": \"acme\"}\n");
  EXPECT_THAT(std::string(authenticator_.Load().message()), HasSubstr("admin:1: tenant: a tenant cannot administer"));
}

TEST_F(TenantTokensTest, TenantsNeedAFileForSearching) {
  Write("plain\n", "writer {\"tenant\": \"acme\"}\n");
  Authenticator open({.write = folder_ / "write"});
  EXPECT_THAT(std::string(open.Load().message()), HasSubstr("write:1: tenant: needs auth.tokens_file"));
  EXPECT_FALSE(open.has_tenants());
}

TEST_F(TenantTokensTest, ATokenCannotBeATenantsAndAnythingElse) {
  for (const char* same :
       {"t {\"tenant\": \"a\"}\nt\n", "t\nt {\"tenant\": \"a\"}\n", "t {\"tenant\": \"a\"}\nt {\"tenant\": \"b\"}\n"}) {
    Write(same);
    const std::string message(authenticator_.Load().message());
    EXPECT_THAT(message, HasSubstr("search:2: has the same token as auth.tokens_file: ")) << same;
  }
  Write("t {\"tenant\": \"a\"}\n", "t\n");
  EXPECT_THAT(std::string(authenticator_.Load().message()), HasSubstr("write:1: has the same token as "));
  Write("t\nt\n");
  EXPECT_TRUE(authenticator_.Load().ok());
}

TEST_F(TenantTokensTest, ATenantHasTheSameQuotasOnAllLines) {
  Write("t {\"tenant\": \"a\", \"bytes\": 5}\nu {\"tenant\": \"a\", \"bytes\": 6}\n");
  EXPECT_THAT(std::string(authenticator_.Load().message()),
              HasSubstr("search:2: tenant \"a\" has other quotas than in auth.tokens_file: "));
  Write("t {\"tenant\": \"a\", \"bytes\": 5}\n", "u {\"tenant\": \"a\"}\n");
  EXPECT_THAT(std::string(authenticator_.Load().message()), HasSubstr("write:1: tenant \"a\" has other quotas"));
}

TEST_F(TenantTokensTest, QuotasThatChangeInTwoFilesAreReloadedTogether) {
  Write("t {\"tenant\": \"a\", \"bytes\": 5}\n", "u {\"tenant\": \"a\", \"bytes\": 5}\n");
  ASSERT_TRUE(authenticator_.Load().ok());
  Write("t {\"tenant\": \"a\", \"bytes\": 6}\n", "u {\"tenant\": \"a\", \"bytes\": 6}\n");
  ASSERT_TRUE(authenticator_.Load().ok());
  EXPECT_EQ(authenticator_.Identify("Bearer u", Scope::kWrite)->tenant()->quotas().bytes, 6u);
}

TEST_F(TenantTokensTest, AfterAFailedReloadATokenOfATenantStaysRestricted) {
  Write("plain\n", "t\n");
  ASSERT_TRUE(authenticator_.Load().ok());
  // The second file contradicts the first, so its reload fails and its earlier tokens stay, in which t is of no tenant.
  Write("t {\"tenant\": \"a\"}\n", "t\nu\n");
  test::WriteFile(folder_ / "admin", "successor\n");
  const auto outcomes = authenticator_.LoadEach();
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0];
  EXPECT_TRUE(absl::IsInvalidArgument(outcomes[1])) << outcomes[1];
  EXPECT_TRUE(outcomes[2].ok()) << outcomes[2];
  EXPECT_EQ(CallerOf("successor", Scope::kAdmin), "*");
  EXPECT_EQ(CallerOf("t", Scope::kSearch), "a");
  EXPECT_EQ(CallerOf("u", Scope::kSearch), "UNAUTHENTICATED");
}

}  // namespace
}  // namespace maxsim::service
