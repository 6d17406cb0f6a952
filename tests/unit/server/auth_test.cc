#include "server/rpc/auth.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/store/corpus.h"

namespace maxsim::rpc {
namespace {

using testing::HasSubstr;

TEST(AuthenticatorTest, WithoutAFileEveryoneMayCall) {
  Authenticator authenticator("");
  EXPECT_TRUE(authenticator.Load().ok());
  EXPECT_FALSE(authenticator.enabled());
  EXPECT_TRUE(authenticator.Check("").ok());
}

TEST(AuthenticatorTest, OnlyTokensOfTheFileMayCall) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "tokens", "# team a\nsecret-a\n\n  secret-b \r\n");
  Authenticator authenticator(folder / "tokens");
  ASSERT_TRUE(authenticator.Load().ok());
  EXPECT_TRUE(authenticator.Check("Bearer secret-a").ok());
  EXPECT_TRUE(authenticator.Check("bearer secret-b").ok());
  for (const char* wrong : {"", "Bearer", "Bearer ", "secret-a", "Basic secret-a", "Bearer secret-c",
                            "Bearer secret-aa", "Bearer # team a", "Bearer secret-a "}) {
    EXPECT_EQ(authenticator.Check(wrong).code(), absl::StatusCode::kUnauthenticated) << wrong;
  }
}

TEST(AuthenticatorTest, AReloadTakesTheNewTokensAndAFailedOneKeepsTheOld) {
  test::TemporaryFolder folder;
  test::WriteFile(folder / "tokens", "old\n");
  Authenticator authenticator(folder / "tokens");
  ASSERT_TRUE(authenticator.Load().ok());
  test::WriteFile(folder / "tokens", "new\n");
  ASSERT_TRUE(authenticator.Load().ok());
  EXPECT_TRUE(authenticator.Check("Bearer new").ok());
  EXPECT_FALSE(authenticator.Check("Bearer old").ok());
  test::WriteFile(folder / "tokens", "# nothing\n");
  EXPECT_EQ(authenticator.Load().code(), absl::StatusCode::kInvalidArgument);
  test::WriteFile(folder / "tokens", "fine\ntwo words\n");
  EXPECT_THAT(std::string(authenticator.Load().message()), HasSubstr("tokens:2: a token holds no spaces"));
  EXPECT_TRUE(authenticator.Check("Bearer new").ok());
}

TEST(AuthenticatorTest, AFileThatIsNotThereIsNamed) {
  Authenticator authenticator("/no/such/tokens");
  const absl::Status status = authenticator.Load();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("auth.tokens_file: cannot read /no/such/tokens"));
}

}  // namespace
}  // namespace maxsim::rpc
