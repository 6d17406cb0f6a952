// Tests signatures with the examples that AWS has published: those of the page "Authenticating Requests: Using the
// Authorization Header" for S3, and cases of the suite aws-sig-v4-test-suite.
#include "backup/s3/signature.h"

#include <string>
#include <utility>

#include "backup/store/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::backup {
namespace {

using ::testing::EndsWith;

constexpr char kEmptySha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kS3Date[] = "20130524T000000Z";
constexpr char kSuiteDate[] = "20150830T123600Z";

std::string SignS3(RequestToSign request) {
  const S3Credentials credentials{.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                                  .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                  .session_token = ""};
  if (request.body_sha256.empty()) request.body_sha256 = kEmptySha256;
  request.headers["host"] = "examplebucket.s3.amazonaws.com";
  request.headers["x-amz-content-sha256"] = request.body_sha256;
  request.headers["x-amz-date"] = kS3Date;
  return Authorization(request, credentials, "us-east-1", "s3", kS3Date);
}

std::string SignSuite(RequestToSign request) {
  const S3Credentials credentials{.access_key_id = "AKIDEXAMPLE",
                                  .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                  .session_token = ""};
  request.body_sha256 = kEmptySha256;
  request.headers["host"] = "example.amazonaws.com";
  request.headers["x-amz-date"] = kSuiteDate;
  return Authorization(request, credentials, "us-east-1", "service", kSuiteDate);
}

RequestToSign Request(std::string method, std::string path, QueryParameters query = {}, SignedHeaders headers = {}) {
  return {.method = std::move(method),
          .path = std::move(path),
          .query = std::move(query),
          .headers = std::move(headers),
          .body_sha256 = ""};
}

TEST(SignatureTest, ARangeOfAnObjectIsSignedAsInTheDocumentation) {
  EXPECT_EQ(SignS3(Request("GET", "/test.txt", {}, {{"range", "bytes=0-9"}})),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SignatureTest, AnObjectThatIsWrittenIsSignedAsInTheDocumentation) {
  RequestToSign request =
      Request("PUT", UriEncode("/test$file.text", true), {},
              {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}});
  request.body_sha256 = Sha256Hex("Welcome to Amazon S3.");
  EXPECT_EQ(request.body_sha256, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  EXPECT_THAT(SignS3(request), EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SignatureTest, QueriesAreSignedAsInTheDocumentation) {
  EXPECT_THAT(SignS3(Request("GET", "/", {{"lifecycle", ""}})),
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  EXPECT_THAT(SignS3(Request("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}})),
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SignatureTest, CasesOfTheTestSuiteHaveTheirSignatures) {
  const std::string letters = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const struct {
    const char* name;
    RequestToSign request;
    const char* signature;
  } cases[] = {
      {"get-vanilla", Request("GET", "/"), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"post-vanilla", Request("POST", "/"), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"get-vanilla-query-order-key-case", Request("GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}),
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-unreserved", Request("GET", "/", {{letters, letters}}),
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-vanilla-utf8-query", Request("GET", "/", {{"\xe1\x88\xb4", "bar"}}),
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-utf8", Request("GET", UriEncode("/\xe1\x88\xb4", true)),
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-header-value-trim", Request("GET", "/", {}, {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}}),
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-sts-header-before",
       Request(
           "POST", "/", {},
           {{"x-amz-security-token",
             "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflf"
             "KD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd"
             "8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3i"
             "SIlTJabIQwj2ICCR/oLxBA=="}}),
       "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
  };
  for (const auto& one : cases) EXPECT_THAT(SignSuite(one.request), EndsWith(one.signature)) << one.name;
}

TEST(SignatureTest, EverythingButUnreservedCharactersIsEncoded) {
  EXPECT_EQ(UriEncode("a b+c/%\xff~", true), "a%20b%2Bc/%25%FF~");
  EXPECT_EQ(UriEncode("a/b", false), "a%2Fb");
  EXPECT_EQ(CanonicalQuery({{"b", "/"}, {"a", "2"}, {"a", "1"}}), "a=1&a=2&b=%2F");
  EXPECT_EQ(AmzDate(absl::FromUnixSeconds(1369353600)), "20130524T000000Z");
}

TEST(Sha256Test, BeginsAnewAfterEachHash) {
  Sha256 hash;
  hash.Update("Welcome to ");
  hash.Update("Amazon S3.");
  EXPECT_EQ(hash.TakeHex(), "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  EXPECT_EQ(hash.TakeHex(), kEmptySha256);
}

}  // namespace
}  // namespace maxsim::backup
