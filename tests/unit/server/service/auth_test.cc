#include "server/service/call/auth.h"

#include <sys/stat.h>

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/collection/corpus.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(AuthenticatorTest, WithoutAFileEveryoneMayCall) {
  Authenticator authenticator({});
  EXPECT_TRUE(authenticator.Load().ok());
  EXPECT_FALSE(authenticator.enabled(Scope::kSearch));
  EXPECT_FALSE(authenticator.enabled(Scope::kAdmin));
  EXPECT_TRUE(authenticator.Check("", Scope::kSearch).ok());
  EXPECT_TRUE(authenticator.Check("", Scope::kAdmin).ok());
}

TEST(AuthenticatorTest, OnlyTokensOfTheFileMayCall) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "tokens", "# team a\nsecret-a\n\n  secret-b \r\n");
  Authenticator authenticator({.search = folder / "tokens"});
  ASSERT_TRUE(authenticator.Load().ok());
  EXPECT_TRUE(authenticator.Check("Bearer secret-a", Scope::kSearch).ok());
  EXPECT_TRUE(authenticator.Check("bearer secret-b", Scope::kSearch).ok());
  for (const char* wrong : {"", "Bearer", "Bearer ", "secret-a", "Basic secret-a", "Bearer secret-c",
                            "Bearer secret-aa", "Bearer # team a", "Bearer secret-a "}) {
    EXPECT_EQ(authenticator.Check(wrong, Scope::kSearch).code(), absl::StatusCode::kUnauthenticated) << wrong;
  }
}

TEST(AuthenticatorTest, APipeInThePlaceOfTheFileIsNotWaitedFor) {
  test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "tokens").c_str(), 0600), 0);
  Authenticator authenticator({.search = folder / "tokens"});
  EXPECT_EQ(authenticator.Load(), absl::InvalidArgumentError("auth.tokens_file: cannot read " + (folder / "tokens") +
                                                             ": it is a pipe, not a file"));
}

TEST(AuthenticatorTest, WithoutTokensForAdministrationWhoMaySearchMayAdminister) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "tokens", "secret\n");
  Authenticator authenticator({.search = folder / "tokens"});
  ASSERT_TRUE(authenticator.Load().ok());
  EXPECT_TRUE(authenticator.enabled(Scope::kAdmin));
  EXPECT_TRUE(authenticator.Check("Bearer secret", Scope::kAdmin).ok());
  EXPECT_EQ(authenticator.Check("Bearer wrong", Scope::kAdmin).code(), absl::StatusCode::kUnauthenticated);
}

TEST(AuthenticatorTest, WithTokensForAdministrationOnlyThoseAdministerAndBothSearch) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "tokens", "searcher\nboth\n");
  test::WriteFile(folder / "admin_tokens", "# operators\noperator\nboth\n");
  Authenticator authenticator({.search = folder / "tokens", .admin = folder / "admin_tokens"});
  ASSERT_TRUE(authenticator.Load().ok());
  for (const char* searches : {"Bearer searcher", "Bearer operator", "Bearer both"}) {
    EXPECT_TRUE(authenticator.Check(searches, Scope::kSearch).ok()) << searches;
  }
  EXPECT_TRUE(authenticator.Check("Bearer operator", Scope::kAdmin).ok());
  EXPECT_TRUE(authenticator.Check("Bearer both", Scope::kAdmin).ok());
  const absl::Status denied = authenticator.Check("Bearer searcher", Scope::kAdmin);
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(denied.message()), HasSubstr("auth.admin_tokens_file"));
  EXPECT_THAT(std::string(denied.message()), Not(HasSubstr("searcher")));
  for (const Scope scope : {Scope::kSearch, Scope::kAdmin}) {
    EXPECT_EQ(authenticator.Check("", scope).code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(authenticator.Check("Bearer ", scope).code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(authenticator.Check("Bearer operator1", scope).code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST(AuthenticatorTest, WithTokensForAdministrationAloneEveryoneMaySearch) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "admin_tokens", "operator\n");
  Authenticator authenticator({.admin = folder / "admin_tokens"});
  ASSERT_TRUE(authenticator.Load().ok());
  EXPECT_FALSE(authenticator.enabled(Scope::kSearch));
  EXPECT_TRUE(authenticator.enabled(Scope::kAdmin));
  EXPECT_TRUE(authenticator.Check("", Scope::kSearch).ok());
  EXPECT_TRUE(authenticator.Check("Bearer whatever", Scope::kSearch).ok());
  EXPECT_TRUE(authenticator.Check("Bearer operator", Scope::kAdmin).ok());
  EXPECT_EQ(authenticator.Check("", Scope::kAdmin).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(authenticator.Check("Bearer whatever", Scope::kAdmin).code(), absl::StatusCode::kUnauthenticated);
}

// There are token files for searching, writing and administration. Checks what each token, and a call without a token,
// may do if only some of these files are configured.
class TokenScopesTest : public testing::Test {
 protected:
  void SetUp() override {
    test::WriteFile(folder_ / "search", "searcher\n");
    test::WriteFile(folder_ / "write", "writer\n");
    test::WriteFile(folder_ / "admin", "operator\n");
  }

  // Returns one letter per scope: S, W or A if a call with the token may search, write or administer, "-" if it may
  // not, and "?" if the token is not known.
  static std::string MayDo(const Authenticator& authenticator, const std::string& token) {
    std::string allowed;
    const std::string header = token.empty() ? "" : "Bearer " + token;
    for (const auto& [scope, letter] : {std::pair(Scope::kSearch, 'S'), {Scope::kWrite, 'W'}, {Scope::kAdmin, 'A'}}) {
      const absl::Status status = authenticator.Check(header, scope);
      allowed += status.ok() ? letter : absl::IsPermissionDenied(status) ? '-' : '?';
    }
    return allowed;
  }

  Authenticator Make(bool search, bool write, bool admin) {
    return Authenticator({.search = search ? folder_ / "search" : "",
                          .write = write ? folder_ / "write" : "",
                          .admin = admin ? folder_ / "admin" : ""});
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenScopesTest, WithAllFilesEachTokenMayDoWhatItsFileIsForAndLess) {
  Authenticator all = Make(true, true, true);
  ASSERT_TRUE(all.Load().ok());
  EXPECT_EQ(MayDo(all, "searcher"), "S--");
  EXPECT_EQ(MayDo(all, "writer"), "SW-");
  EXPECT_EQ(MayDo(all, "operator"), "SWA");
  EXPECT_EQ(MayDo(all, ""), "???");
  EXPECT_EQ(MayDo(all, "stranger"), "???");
  const std::string denied(all.Check("Bearer searcher", Scope::kWrite).message());
  EXPECT_EQ(denied, "the bearer token may search; this call needs a token of auth.write_tokens_file");
  EXPECT_EQ(all.Check("Bearer writer", Scope::kAdmin).message(),
            "the bearer token may search and write documents; this call needs a token of auth.admin_tokens_file");
}

TEST_F(TokenScopesTest, WithoutAFileForWritingWhoMayAdministerMayWrite) {
  Authenticator both = Make(true, false, true);
  ASSERT_TRUE(both.Load().ok());
  EXPECT_EQ(MayDo(both, "searcher"), "S--");
  EXPECT_EQ(MayDo(both, "operator"), "SWA");
  Authenticator admin = Make(false, false, true);
  ASSERT_TRUE(admin.Load().ok());
  EXPECT_EQ(MayDo(admin, ""), "S??");
  EXPECT_EQ(MayDo(admin, "operator"), "SWA");
}

TEST_F(TokenScopesTest, WithoutFilesForBothWhoMaySearchMayWrite) {
  Authenticator search = Make(true, false, false);
  ASSERT_TRUE(search.Load().ok());
  EXPECT_EQ(MayDo(search, "searcher"), "SWA");
  EXPECT_EQ(MayDo(search, ""), "???");
  Authenticator none = Make(false, false, false);
  ASSERT_TRUE(none.Load().ok());
  EXPECT_EQ(MayDo(none, ""), "SWA");
}

TEST_F(TokenScopesTest, WithAFileForWritingAloneItsTokensAdministerAndEveryoneSearches) {
  Authenticator write = Make(false, true, false);
  ASSERT_TRUE(write.Load().ok());
  EXPECT_FALSE(write.enabled(Scope::kSearch));
  EXPECT_TRUE(write.enabled(Scope::kWrite));
  EXPECT_TRUE(write.enabled(Scope::kAdmin));
  EXPECT_EQ(MayDo(write, ""), "S??");
  EXPECT_EQ(MayDo(write, "writer"), "SWA");
  Authenticator search_and_write = Make(true, true, false);
  ASSERT_TRUE(search_and_write.Load().ok());
  EXPECT_EQ(MayDo(search_and_write, "searcher"), "S--");
  EXPECT_EQ(MayDo(search_and_write, "writer"), "SWA");
}

// Starts with two token files. One contains the token "searcher", the other "operator".
class TokenFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("searcher\n", "operator\n");
    ASSERT_TRUE(authenticator_.Load().ok());
  }

  void Write(const char* tokens, const char* admin_tokens) {
    test::WriteFile(folder_ / "tokens", tokens);
    test::WriteFile(folder_ / "admin_tokens", admin_tokens);
  }

  test::TemporaryFolder folder_;
  Authenticator authenticator_{TokenFiles{.search = folder_ / "tokens", .admin = folder_ / "admin_tokens"}};
};

TEST_F(TokenFilesTest, AWrongFileDoesNotKeepTheOtherOnesRevokedTokens) {
  Write("# nothing\n", "successor\n");
  const absl::Status status = authenticator_.Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("auth.tokens_file: "));
  EXPECT_TRUE(authenticator_.Check("Bearer searcher", Scope::kSearch).ok());
  EXPECT_TRUE(authenticator_.Check("Bearer successor", Scope::kAdmin).ok());
  EXPECT_EQ(authenticator_.Check("Bearer operator", Scope::kAdmin).code(), absl::StatusCode::kUnauthenticated);
  Write("# nothing\n", "two words\n");
  const std::string both(authenticator_.Load().message());
  EXPECT_THAT(both, HasSubstr("auth.tokens_file: "));
  EXPECT_THAT(both, HasSubstr("auth.admin_tokens_file: "));
  EXPECT_THAT(both, HasSubstr("admin_tokens:1: a token holds only visible ASCII"));
  EXPECT_THAT(both, Not(HasSubstr("two words")));
}

TEST(AuthenticatorTest, AReloadTakesTheNewTokensAndAFailedOneKeepsTheOld) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "tokens", "old\n");
  Authenticator authenticator({.search = folder / "tokens"});
  ASSERT_TRUE(authenticator.Load().ok());
  test::WriteFile(folder / "tokens", "new\n");
  ASSERT_TRUE(authenticator.Load().ok());
  EXPECT_TRUE(authenticator.Check("Bearer new", Scope::kSearch).ok());
  EXPECT_FALSE(authenticator.Check("Bearer old", Scope::kSearch).ok());
  test::WriteFile(folder / "tokens", "# nothing\n");
  EXPECT_EQ(authenticator.Load().code(), absl::StatusCode::kInvalidArgument);
  test::WriteFile(folder / "tokens", "fine\ntwo words\n");
  EXPECT_THAT(std::string(authenticator.Load().message()), HasSubstr("tokens:2: a token holds only visible ASCII"));
  EXPECT_TRUE(authenticator.Check("Bearer new", Scope::kSearch).ok());
}

TEST_F(TokenFilesTest, EachFileIsReadForItself) {
  Write("searcher\nanother\n", "");
  const std::array<absl::Status, kNumScopes> outcomes = authenticator_.LoadEach();
  EXPECT_TRUE(outcomes[0].ok()) << outcomes[0];
  EXPECT_TRUE(outcomes[1].ok()) << outcomes[1];
  EXPECT_THAT(std::string(outcomes[2].message()), HasSubstr("admin_tokens holds no token"));
  EXPECT_EQ(authenticator_.num_tokens(Scope::kSearch), 2u);
  EXPECT_EQ(authenticator_.num_tokens(Scope::kAdmin), 1u);
  EXPECT_TRUE(authenticator_.has_file(Scope::kAdmin));
  EXPECT_FALSE(Authenticator({.search = folder_ / "tokens"}).has_file(Scope::kAdmin));
}

TEST(AuthenticatorTest, AFolderIsNoFile) {
  test::TemporaryFolder folder;
  Authenticator authenticator({.search = folder.path()});
  EXPECT_THAT(std::string(authenticator.Load().message()), HasSubstr("it is a folder, not a file"));
}

TEST(AuthenticatorTest, AFileThatIsNotThereIsNamed) {
  Authenticator authenticator({.search = "/no/such/tokens"});
  const absl::Status status = authenticator.Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("auth.tokens_file: cannot read /no/such/tokens"));
}

}  // namespace
}  // namespace maxsim::service
