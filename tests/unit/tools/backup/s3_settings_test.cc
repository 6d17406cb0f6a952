// Tests how the address of a bucket and the credentials are taken from a URL and the environment.
#include "backup/s3/s3_settings.h"

#include <map>
#include <string>

#include "backup/store_url.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::backup {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "secret+KEY/1";

class S3SettingsTest : public ::testing::Test {
 protected:
  absl::StatusOr<S3Settings> Read(const std::string& url) {
    return ReadS3Settings(url, [this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    });
  }

  std::string Refusal(const std::string& url) {
    const absl::Status status = Read(url).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << url;
    return std::string(status.message());
  }

  std::map<std::string, std::string> variables_ = {{"AWS_ACCESS_KEY_ID", "ID"}, {"AWS_SECRET_ACCESS_KEY", kSecret}};
};

TEST_F(S3SettingsTest, WithoutAnEndpointTheBucketIsInTheNameOfTheHost) {
  variables_["AWS_REGION"] = "eu-central-1";
  const auto settings = Read("s3://backups/notes/monday/");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->url, "s3://backups/notes/monday");
  EXPECT_EQ(settings->prefix, "notes/monday");
  EXPECT_EQ(settings->origin, "https://backups.s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(settings->host, "backups.s3.eu-central-1.amazonaws.com");
  EXPECT_FALSE(settings->has_bucket_in_path);
}

TEST_F(S3SettingsTest, ABucketWithDotsIsInThePathBecauseNoCertificateFitsIt) {
  const auto settings = Read("s3://back.ups/notes");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->origin, "https://s3.us-east-1.amazonaws.com");
  EXPECT_TRUE(settings->has_bucket_in_path);
}

TEST_F(S3SettingsTest, AnEndpointHasTheBucketInThePath) {
  const std::map<std::string, std::string> hosts = {{"http://127.0.0.1:9000", "127.0.0.1:9000"},
                                                    {"https://minio:443/", "minio"},
                                                    {"http://minio:80", "minio"},
                                                    {"http://a-b.c_d:65535", "a-b.c_d:65535"},
                                                    {"https://minio:80", "minio:80"}};
  for (const auto& [endpoint, host] : hosts) {
    variables_["AWS_ENDPOINT_URL"] = endpoint;
    const auto settings = Read("s3://backups/notes");
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->host, host);
    EXPECT_TRUE(settings->has_bucket_in_path);
  }
  for (const std::string endpoint :
       {"minio:9000", "https://", "https://user:password@minio", "http://a/path", "ftp://a", "http://:80",
        "http://a:", "http://a:0", "http://a:65536", "https://a:99999999999", "http://a:abc", "http://a:+80",
        "http://a:80:80", "https://[::1]:9000", "https://[fd00::1]", "https://a b", "https://a?b"}) {
    variables_["AWS_ENDPOINT_URL"] = endpoint;
    EXPECT_THAT(Refusal("s3://backups/notes"), AllOf(HasSubstr("AWS_ENDPOINT_URL"), Not(HasSubstr("password"))));
  }
}

TEST_F(S3SettingsTest, WrongUrlsAreRefused) {
  for (const std::string url : {"s3://", "s3://ab/x", "s3://backups", "s3://backups/", "s3://Backups/x", "s3://-ab/x",
                                "s3://backups//x", "s3://backups/a/../b", "s3://backups/a b", "s3:/backups/x"}) {
    EXPECT_THAT(Refusal(url), HasSubstr("URL")) << url;
  }
  EXPECT_FALSE(Read("s3://" + std::string(64, 'a') + "/x").ok());
  EXPECT_TRUE(Read("s3://" + std::string(63, 'a') + "/x").ok());
}

TEST_F(S3SettingsTest, MessagesNameAVariableAndNotItsValue) {
  variables_["AWS_SECRET_ACCESS_KEY"] = std::string(kSecret) + "\n";
  EXPECT_THAT(Refusal("s3://backups/x"), AllOf(HasSubstr("AWS_SECRET_ACCESS_KEY"), Not(HasSubstr("secret"))));
  variables_["AWS_SECRET_ACCESS_KEY"] = "";
  EXPECT_THAT(Refusal("s3://backups/x"), HasSubstr("AWS_SECRET_ACCESS_KEY: is not set"));
  variables_["AWS_SECRET_ACCESS_KEY"] = kSecret;
  variables_["AWS_SESSION_TOKEN"] = "a token";
  EXPECT_THAT(Refusal("s3://backups/x"), AllOf(HasSubstr("AWS_SESSION_TOKEN"), Not(HasSubstr("a token"))));
  variables_.erase("AWS_SESSION_TOKEN");
  variables_["AWS_REGION"] = "us east";
  EXPECT_THAT(Refusal("s3://backups/x"), HasSubstr("AWS_REGION"));
}

TEST(StoreUrlTest, OnlyFoldersAndBucketsAreStores) {
  const auto none = [](const char*) -> const char* { return nullptr; };
  const auto folder = OpenStore("file:///var//backups/", none);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->url(), "file:///var/backups");
  for (const std::string url : {"file://", "file:///", "file://host/x", "ftp://host/x", "x", "s3://backups/x"}) {
    EXPECT_EQ(OpenStore(url, none).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
  EXPECT_TRUE(IsUrl("s3://a/b"));
  EXPECT_FALSE(IsUrl("/var/lib/copy"));
}

}  // namespace
}  // namespace maxsim::backup
