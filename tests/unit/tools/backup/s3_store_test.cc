// Tests the store in an S3 bucket: uploads in parts, reads of ranges, lists in pages, and requests that fail.
#include "backup/s3/s3_store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backup/store/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tools/backup/fake_s3.h"

namespace maxsim::backup {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kSecretKey[] = "SECRETKEY";
constexpr char kToken[] = "SESSIONTOKEN";

class S3StoreTest : public ::testing::Test {
 protected:
  S3StoreTest() {
    S3Settings settings;
    settings.url = "s3://bucket/pre/fix";
    settings.bucket = "bucket";
    settings.prefix = "pre/fix";
    settings.origin = "http://store";
    settings.host = "store";
    settings.has_bucket_in_path = true;
    settings.region = "us-east-1";
    settings.credentials = {.access_key_id = "ID", .secret_access_key = kSecretKey, .session_token = kToken};
    S3Clock clock;
    clock.now = [] { return absl::FromUnixSeconds(1369353600); };
    clock.steady = [this] { return steady_; };
    clock.sleep = [this](absl::Duration pause) { pauses_.push_back(pause); };
    clock.random = [] { return 1.0; };
    store_ = MakeS3Store(settings, std::make_unique<FakeS3Transport>(&fake_), clock, &stop_);
  }

  // Writes an object in pieces of `piece` bytes.
  absl::Status Upload(const std::string& key, const std::string& bytes, size_t piece) {
    const auto upload = store_->BeginUpload(key, bytes.size());
    EXPECT_TRUE(upload.ok()) << upload.status();
    for (size_t at = 0; at < bytes.size(); at += piece) {
      absl::Status status = (*upload)->Write(std::string_view(bytes).substr(at, piece));
      if (!status.ok()) return status;
    }
    return (*upload)->Finish();
  }

  // Makes the first `count` requests of a method fail with this answer.
  void FailFirst(int count, const std::string& method, absl::StatusOr<HttpResponse> answer) {
    fake_.before = [count, method,
                    answer](const HttpRequest& request) mutable -> std::optional<absl::StatusOr<HttpResponse>> {
      if (request.method != method || count == 0) return std::nullopt;
      --count;
      return answer;
    };
  }

  FakeS3 fake_;
  absl::Time steady_ = absl::UnixEpoch();
  StopSignal stop_;
  std::vector<absl::Duration> pauses_;
  std::unique_ptr<ObjectStore> store_;
};

std::string PatternBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 31 + i / 977);
  return bytes;
}

TEST_F(S3StoreTest, AnObjectOfOnePartIsOneRequest) {
  for (const size_t count : {size_t{0}, size_t{1}, static_cast<size_t>(kUploadPartBytes)}) {
    fake_.requests.clear();
    const std::string bytes = PatternBytes(count);
    ASSERT_TRUE(Upload("a b", bytes, 1 << 20).ok());
    EXPECT_EQ(fake_.objects["/bucket/pre/fix/a%20b"], bytes);
    ASSERT_THAT(fake_.requests, SizeIs(1));
    EXPECT_EQ(fake_.requests[0].method, "PUT");
    EXPECT_EQ(fake_.requests[0].target, "/bucket/pre/fix/a%20b");
  }
}

TEST_F(S3StoreTest, ALargerObjectIsSentInPartsOfBoundedSize) {
  for (const size_t more :
       {size_t{1}, static_cast<size_t>(kUploadPartBytes), static_cast<size_t>(kUploadPartBytes) + 1}) {
    fake_.body_bytes.clear();
    const std::string bytes = PatternBytes(static_cast<size_t>(kUploadPartBytes) + more);
    ASSERT_TRUE(Upload("big", bytes, 3 << 20).ok());
    EXPECT_EQ(Sha256Hex(fake_.objects["/bucket/pre/fix/big"]), Sha256Hex(bytes));
    for (const size_t sent : fake_.body_bytes) EXPECT_LE(sent, kUploadPartBytes);
    EXPECT_THAT(fake_.uploads, IsEmpty());
  }
}

TEST(UploadPartBytesTest, NoObjectHasMorePartsThanS3Takes) {
  for (const uint64_t count :
       {uint64_t{0}, uint64_t{1}, kMaxUploadParts * kUploadPartBytes - 1, kMaxUploadParts * kUploadPartBytes,
        kMaxUploadParts * kUploadPartBytes + 1, uint64_t{5} << 40}) {
    const uint64_t part = UploadPartBytes(count);
    EXPECT_GE(part, kUploadPartBytes) << count;
    EXPECT_LE((count + part - 1) / part, kMaxUploadParts) << count;
  }
  EXPECT_EQ(UploadPartBytes(kUploadPartBytes), kUploadPartBytes);
}

TEST_F(S3StoreTest, AnUploadThatIsGivenUpLeavesNoParts) {
  {
    const auto upload = store_->BeginUpload("big", 2 * kUploadPartBytes + 1);
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Write(PatternBytes(2 * static_cast<size_t>(kUploadPartBytes))).ok());
    EXPECT_THAT(fake_.uploads, SizeIs(1));
    EXPECT_EQ((*upload)->Finish().code(), absl::StatusCode::kInternal);  // a byte is missing
  }
  EXPECT_THAT(fake_.uploads, IsEmpty());
  EXPECT_THAT(fake_.objects, IsEmpty());
  const auto upload = store_->BeginUpload("small", 1);
  EXPECT_EQ((*upload)->Write("12").code(), absl::StatusCode::kInternal);
}

TEST_F(S3StoreTest, AnUploadIsAbortedInAtMostTwoAttempts) {
  for (const int num_failures : {1, 2}) {
    fake_.uploads.clear();
    pauses_.clear();
    FailFirst(num_failures, "DELETE", absl::UnavailableError("no answer"));
    {
      const auto upload = store_->BeginUpload("large", kUploadPartBytes + 2);
      ASSERT_TRUE((*upload)->Write(PatternBytes(kUploadPartBytes + 1)).ok());
    }
    EXPECT_THAT(fake_.uploads, SizeIs(num_failures == 1 ? 0 : 1));
    EXPECT_THAT(pauses_, SizeIs(1));
  }
}

TEST_F(S3StoreTest, ReadsRangesUpToTheEnd) {
  ASSERT_TRUE(store_->Put("a", "0123456789").ok());
  EXPECT_EQ(*store_->Read("a", 0, 4), "0123");
  EXPECT_EQ(*store_->Read("a", 8, 4), "89");
  EXPECT_EQ(*store_->Read("a", 10, 4), "");
  EXPECT_EQ(*store_->Read("a", 0, 0), "");
  EXPECT_EQ(store_->Read("b", 0, 4).status().code(), absl::StatusCode::kNotFound);
  // A store that does not support ranges sends the whole object.
  fake_.after = [](const HttpRequest&, HttpResponse) {
    return HttpResponse{.status = 200, .headers = {}, .body = "0123456789"};
  };
  EXPECT_EQ(*store_->Read("a", 0, 10), "0123456789");
  EXPECT_EQ(store_->Read("a", 2, 4).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->Read("a", 0, 9).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(S3StoreTest, AListGoesOverAllPages) {
  for (int i = 0; i < 7; ++i) fake_.objects[Cat("/bucket/pre/fix/d/", i)] = std::string(static_cast<size_t>(i), 'x');
  fake_.objects["/bucket/pre/fixed"] = "another prefix";
  fake_.page_objects = 3;
  const auto all = store_->List("", 100);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_THAT(*all, SizeIs(7));
  EXPECT_EQ((*all)[6], (StoredObject{"d/6", 6}));
  EXPECT_THAT(*store_->List("d/", 4), SizeIs(4));
  EXPECT_THAT(*store_->List("d/5", 4), ElementsAre(StoredObject{"d/5", 5}));
  EXPECT_THAT(*store_->List("none", 4), IsEmpty());
}

TEST_F(S3StoreTest, AListWithoutEndOrOfAnotherPrefixIsRefused) {
  const auto answer = [&](const std::string& body) {
    fake_.after = [body](const HttpRequest&, HttpResponse) {
      return HttpResponse{.status = 200, .headers = {}, .body = body};
    };
    return store_->List("", 100).status().code();
  };
  const std::string object = "<Contents><Key>pre/fix/a</Key><Size>1</Size></Contents>";
  const std::string more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>";
  EXPECT_EQ(answer("<ListBucketResult>" + object + more + "</ListBucketResult>"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(answer("<ListBucketResult>" + more + "</ListBucketResult>"), absl::StatusCode::kDataLoss);
  EXPECT_EQ(answer("<ListBucketResult><Contents><Key>other/a</Key><Size>1</Size></Contents></ListBucketResult>"),
            absl::StatusCode::kDataLoss);
}

TEST_F(S3StoreTest, RequestsAreSentAgainAfterPassingFailures) {
  const std::vector<absl::StatusOr<HttpResponse>> failures = {
      absl::UnavailableError("no answer"), HttpResponse{.status = 500}, ErrorAnswer(503, "SlowDown"),
      HttpResponse{.status = 429}, ErrorAnswer(400, "RequestTimeout")};
  for (const auto& failure : failures) {
    pauses_.clear();
    FailFirst(kMaxS3Attempts - 1, "PUT", failure);
    EXPECT_TRUE(store_->Put("a", "1").ok());
    ASSERT_THAT(pauses_, SizeIs(kMaxS3Attempts - 1));
    EXPECT_EQ(pauses_[1], 2 * pauses_[0]);
    FailFirst(kMaxS3Attempts, "PUT", failure);
    const absl::Status status = store_->Put("a", "1");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("s3://bucket/pre/fix/a: PUT: "));
  }
}

TEST_F(S3StoreTest, ASilentStoreIsNotAskedAgainAfterTheTimeLimit) {
  fake_.before = [this](const HttpRequest&) -> std::optional<absl::StatusOr<HttpResponse>> {
    steady_ += absl::Seconds(50);
    return absl::UnavailableError("no answer");
  };
  const absl::Status status = store_->Put("a", "1");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no answer, 3 times")) << "they began at 0, 50 and 100 s";
}

TEST_F(S3StoreTest, AStopEndsTheAttemptsButAnUploadIsStillAborted) {
  auto upload = store_->BeginUpload("big", 2 * kUploadPartBytes);
  ASSERT_TRUE(upload.ok());
  const std::string bytes = PatternBytes(static_cast<size_t>(kUploadPartBytes));
  ASSERT_TRUE((*upload)->Write(bytes).ok());
  ASSERT_TRUE((*upload)->Write(bytes.substr(0, 1)).ok());  // sends the first part
  EXPECT_THAT(fake_.uploads, SizeIs(1));
  fake_.before = [this](const HttpRequest& request) -> std::optional<absl::StatusOr<HttpResponse>> {
    if (request.method == "DELETE") return std::nullopt;
    stop_.Request(absl::StatusCode::kCancelled);
    return absl::UnavailableError("no answer");
  };
  const size_t num_before = fake_.requests.size();
  ASSERT_TRUE((*upload)->Write(bytes.substr(1)).ok());
  const absl::Status status = (*upload)->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(store_->List("", 1).status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(fake_.requests, SizeIs(num_before + 1)) << "no request was sent again";
  upload->reset();
  EXPECT_THAT(fake_.uploads, IsEmpty());
}

TEST_F(S3StoreTest, RefusalsAreNotTriedAgainAndHaveTheirCode) {
  const std::vector<std::pair<HttpResponse, absl::StatusCode>> refusals = {
      {ErrorAnswer(403, "SignatureDoesNotMatch"), absl::StatusCode::kPermissionDenied},
      {ErrorAnswer(401, "Unauthorized"), absl::StatusCode::kUnauthenticated},
      {ErrorAnswer(404, "NoSuchBucket"), absl::StatusCode::kNotFound},
      {ErrorAnswer(301, "PermanentRedirect"), absl::StatusCode::kFailedPrecondition},
      {ErrorAnswer(400, "AuthorizationHeaderMalformed"), absl::StatusCode::kFailedPrecondition}};
  for (const auto& [answer, code] : refusals) {
    FailFirst(1, "PUT", answer);
    const absl::Status status = store_->Put("a", "1");
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(Cat("status ", answer.status)));
    EXPECT_THAT(pauses_, IsEmpty());
  }
}

TEST_F(S3StoreTest, AnUploadWhoseLastAnswerIsLostIsComplete) {
  int num_lost = 1;
  fake_.after = [&](const HttpRequest& request, HttpResponse answer) -> absl::StatusOr<HttpResponse> {
    const bool completes = request.method == "POST" && request.target.find("uploadId") != std::string::npos;
    if (completes && num_lost-- > 0) return absl::UnavailableError("no answer");
    return answer;
  };
  const std::string bytes = PatternBytes(static_cast<size_t>(kUploadPartBytes) + 1);
  EXPECT_TRUE(Upload("big", bytes, 1 << 20).ok());
  EXPECT_EQ(fake_.objects["/bucket/pre/fix/big"].size(), bytes.size());
}

TEST_F(S3StoreTest, AnErrorInAnAnswerWithStatus200IsAnError) {
  fake_.before = [](const HttpRequest& request) -> std::optional<absl::StatusOr<HttpResponse>> {
    if (request.method != "POST" || request.target.find("uploadId") == std::string::npos) return std::nullopt;
    HttpResponse answer = ErrorAnswer(200, "InternalError");
    return answer;
  };
  const absl::Status status = Upload("big", PatternBytes(static_cast<size_t>(kUploadPartBytes) + 1), 1 << 20);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(pauses_, SizeIs(kMaxS3Attempts - 1));
}

TEST_F(S3StoreTest, RequestsAreSignedAndErrorsHaveNoSecret) {
  ASSERT_TRUE(store_->Put("a", "1").ok());
  const HttpRequest& request = fake_.requests.back();
  EXPECT_EQ(HeaderOf(request, "x-amz-content-sha256"), Sha256Hex("1"));
  EXPECT_EQ(HeaderOf(request, "x-amz-date"), "20130524T000000Z");
  EXPECT_EQ(HeaderOf(request, "x-amz-security-token"), kToken);
  EXPECT_EQ(HeaderOf(request, "host"), "store");
  const std::string authorization = HeaderOf(request, "authorization");
  EXPECT_THAT(authorization, AllOf(HasSubstr("Credential=ID/20130524/us-east-1/s3/aws4_request"),
                                   HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token"),
                                   Not(HasSubstr(kSecretKey))));
  // Some stores repeat the request in their error.
  HttpResponse answer{.status = 403};
  answer.body = Cat("<Error><Code>", authorization, "</Code><Message>", kToken, kSecretKey, "</Message></Error>");
  FailFirst(1, "PUT", answer);
  const std::string message = store_->Put("a", "1").ToString();
  EXPECT_THAT(message, AllOf(Not(HasSubstr(kToken)), Not(HasSubstr(kSecretKey)), Not(HasSubstr("Signature="))));
}

}  // namespace
}  // namespace maxsim::backup
