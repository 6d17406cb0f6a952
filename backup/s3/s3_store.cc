#include "backup/s3/s3_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "backup/s3/s3_xml.h"
#include "backup/store/sha256.h"
#include "base/monotonic_clock.h"
#include "base/text.h"

namespace maxsim::backup {
namespace {

constexpr char kService[] = "s3";
constexpr absl::Duration kFirstPause = absl::Milliseconds(300);
constexpr size_t kMaxAnswerBytes = size_t{4} << 20;  // a page of 1,000 objects has less than 2 MiB
constexpr int kAbortAttempts = 2;                    // the first one may meet a connection that the store has closed
constexpr size_t kPageObjects = 1000;                // the most that S3 returns

// Returns the status of an answer and, for an error, S3's code.
std::string Outcome(const HttpResponse& response, const std::string& code) {
  return code.empty() ? Cat("status ", response.status) : Cat("status ", response.status, " ", code);
}

bool MayTryAgain(const HttpResponse& response, const std::string& code) {
  return response.status == 429 || response.status >= 500 || code == "RequestTimeout" || code == "SlowDown";
}

absl::Status Refusal(const HttpResponse& response, const std::string& code, const std::string& message) {
  switch (response.status) {
    case 401:
      return absl::UnauthenticatedError(message);
    case 403:
      return absl::PermissionDeniedError(
          code == "RequestTimeTooSkewed" ? Cat(message, "; the clock of this machine is wrong") : message);
    case 404:
      return absl::NotFoundError(message);
    case 416:
      return absl::OutOfRangeError(message);
    case 301:
    case 307:
    case 308:
      return absl::FailedPreconditionError(Cat(message, "; AWS_REGION may not be the region of the bucket"));
    default:
      if (code == "AuthorizationHeaderMalformed") {
        return absl::FailedPreconditionError(Cat(message, "; AWS_REGION may not be the region of the bucket"));
      }
      return MayTryAgain(response, code) ? absl::UnavailableError(message) : absl::FailedPreconditionError(message);
  }
}

struct S3Call {
  std::string method;
  std::string key;  // of the object, relative to the prefix; "" for the bucket itself
  QueryParameters query = {};
  std::string range = {};  // the header Range, or ""
  std::string_view body = {};
  size_t max_response_bytes = kMaxAnswerBytes;
  int max_attempts = kMaxS3Attempts;
  bool ignores_stop = false;
};

class S3Store final : public ObjectStore {
 public:
  S3Store(S3Settings settings, std::unique_ptr<HttpTransport> transport, S3Clock clock, const StopSignal* stop)
      : settings_(std::move(settings)), transport_(std::move(transport)), clock_(std::move(clock)), stop_(stop) {}

  absl::Status Put(const std::string& key, std::string_view bytes) override {
    return Call({.method = "PUT", .key = key, .body = bytes}).status();
  }

  absl::StatusOr<std::unique_ptr<ObjectUpload>> BeginUpload(const std::string& key, uint64_t num_bytes) override;

  absl::StatusOr<std::string> Read(const std::string& key, uint64_t offset, size_t max_bytes) override {
    if (max_bytes == 0) return std::string();
    absl::StatusOr<HttpResponse> response = Call({.method = "GET",
                                                  .key = key,
                                                  .range = Cat("bytes=", offset, "-", offset + max_bytes - 1),
                                                  .max_response_bytes = std::max(max_bytes, kMaxAnswerBytes)});
    if (absl::IsOutOfRange(response.status())) return std::string();
    if (!response.ok()) return response.status();
    // A store that does not support ranges sends the whole object.
    const bool is_range = response->status == 206 || offset == 0;
    if (!is_range || response->body.size() > max_bytes) {
      return absl::DataLossError(Cat(NameOf(key), ": GET: the store sends other bytes than it was asked for"));
    }
    return std::move(response->body);
  }

  absl::StatusOr<std::vector<StoredObject>> List(const std::string& prefix, size_t max_objects) override {
    std::vector<StoredObject> objects;
    const std::string folder = Cat(settings_.prefix, "/");
    std::string next;
    while (objects.size() < max_objects) {
      S3Call call{.method = "GET", .key = ""};
      call.query = {{"list-type", "2"},
                    {"max-keys", Cat(std::min(kPageObjects, max_objects - objects.size()))},
                    {"prefix", Cat(folder, prefix)}};
      if (!next.empty()) call.query.emplace_back("continuation-token", next);
      const absl::StatusOr<HttpResponse> response = Call(call);
      if (!response.ok()) return response.status();
      absl::StatusOr<ObjectPage> page = ReadObjectPage(response->body);
      if (!page.ok()) return Prefix(Cat(settings_.url, ": list: "), page.status());
      for (StoredObject& object : page->objects) {
        if (!object.key.starts_with(folder)) {
          return absl::DataLossError(Cat(settings_.url, ": list: the store names objects of another prefix"));
        }
        object.key.erase(0, folder.size());
        objects.push_back(std::move(object));
      }
      if (page->next.empty()) break;
      if (page->objects.empty() || page->next == next) {
        return absl::DataLossError(Cat(settings_.url, ": list: the store's list has no end"));
      }
      next = std::move(page->next);
    }
    if (objects.size() > max_objects) objects.resize(max_objects);
    return objects;
  }

  const std::string& url() const override { return settings_.url; }

  // Makes a call, and repeats it if it fails and may be repeated. After a repetition sets `was_repeated` (may be null)
  // to true: the earlier attempt may have had an effect although it failed.
  absl::StatusOr<HttpResponse> Call(const S3Call& call, bool* was_repeated = nullptr);

  std::string NameOf(const std::string& key) const {
    return key.empty() ? settings_.url : Cat(settings_.url, "/", key);
  }

 private:
  HttpRequest Sign(const S3Call& call, const std::string& body_sha256) const;

  const S3Settings settings_;
  const std::unique_ptr<HttpTransport> transport_;
  const S3Clock clock_;
  const StopSignal* const stop_;  // may be null
};

HttpRequest S3Store::Sign(const S3Call& call, const std::string& body_sha256) const {
  std::string path = settings_.has_bucket_in_path ? Cat("/", settings_.bucket) : "";
  if (!call.key.empty()) path += Cat("/", settings_.prefix, "/", call.key);
  if (path.empty()) path = "/";
  RequestToSign to_sign{.method = call.method,
                        .path = UriEncode(path, /*keep_slashes=*/true),
                        .query = call.query,
                        .headers = {{"host", settings_.host},
                                    {"x-amz-content-sha256", body_sha256},
                                    {"x-amz-date", AmzDate(clock_.now())}},
                        .body_sha256 = body_sha256};
  if (!settings_.credentials.session_token.empty()) {
    to_sign.headers["x-amz-security-token"] = settings_.credentials.session_token;
  }
  if (!call.range.empty()) to_sign.headers["range"] = call.range;
  HttpRequest request{
      .method = call.method, .target = to_sign.path, .body = call.body, .max_response_bytes = call.max_response_bytes};
  if (!call.query.empty()) request.target += Cat("?", CanonicalQuery(call.query));
  for (const auto& [name, value] : to_sign.headers) request.headers.emplace_back(name, value);
  request.headers.emplace_back("authorization", Authorization(to_sign, settings_.credentials, settings_.region,
                                                              kService, to_sign.headers["x-amz-date"]));
  if (!call.body.empty()) request.headers.emplace_back("content-type", "application/octet-stream");
  return request;
}

absl::StatusOr<HttpResponse> S3Store::Call(const S3Call& call, bool* was_repeated) {
  const std::string what = Cat(NameOf(call.key), ": ", call.method, ": ");
  const std::string body_sha256 = Sha256Hex(call.body);
  const absl::Time last_begin = clock_.steady() + kMaxS3RetryTime;
  const StopSignal* const stop = call.ignores_stop ? nullptr : stop_;
  absl::Duration pause = kFirstPause;
  for (int attempt = 1;; ++attempt) {
    if (absl::Status stopped = StopStatus(stop); !stopped.ok()) return stopped;
    absl::StatusOr<HttpResponse> response = transport_->Send(Sign(call, body_sha256));
    absl::Status status = response.status();
    bool may_try_again = absl::IsUnavailable(status);
    if (response.ok()) {
      // The answer to CompleteMultipartUpload (a POST) may have the status 200 and an error in its body.
      const bool may_be_error = response->status >= 300 || call.method == "POST";
      const std::string code = may_be_error ? ErrorCode(response->body) : "";
      if (response->status >= 200 && response->status < 300 && code.empty()) return response;
      status = Refusal(*response, code, Cat("the store answers with ", Outcome(*response, code)));
      may_try_again = MayTryAgain(*response, code) || code == "InternalError";
    }
    if (!may_try_again) return Prefix(what, status);
    // Half of the pause is random, so that several programs do not retry at the same moment.
    const absl::Duration wait = pause * (0.5 + 0.5 * clock_.random());
    if (attempt == call.max_attempts || clock_.steady() + wait > last_begin) {
      return absl::UnavailableError(Cat(what, std::string(status.message()), ", ", attempt, " times"));
    }
    if (was_repeated != nullptr) *was_repeated = true;
    clock_.sleep(wait);
    pause *= 2;
  }
}

// Sends an object that fits into one part in one request, in Finish. Sends a larger object as a multipart upload.
class S3Upload final : public ObjectUpload {
 public:
  S3Upload(S3Store& store, std::string key, uint64_t num_bytes)
      : store_(store), key_(std::move(key)), num_bytes_(num_bytes), part_bytes_(UploadPartBytes(num_bytes)) {}

  // Aborts the upload. Otherwise the store would keep the parts, and the owner of the bucket would pay for them.
  ~S3Upload() override {
    if (upload_id_.has_value()) {
      // Makes few attempts: the caller waits to report an error, and the store may not answer.
      const S3Call abort_call{.method = "DELETE",
                              .key = key_,
                              .query = {{"uploadId", *upload_id_}},
                              .max_attempts = kAbortAttempts,
                              .ignores_stop = true};
      store_.Call(abort_call).status().IgnoreError();
    }
  }

  absl::Status Write(std::string_view bytes) override {
    num_taken_ += bytes.size();
    if (num_taken_ > num_bytes_) return WrongSize();
    while (!bytes.empty()) {
      // Sends a full part only when more bytes come, so that an object of one part is not a multipart upload.
      if (part_.size() == part_bytes_) {
        if (absl::Status status = SendPart(); !status.ok()) return status;
      }
      if (part_.empty()) part_.reserve(std::min(part_bytes_, num_bytes_));
      const size_t count = std::min(bytes.size(), static_cast<size_t>(part_bytes_) - part_.size());
      part_.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (num_taken_ != num_bytes_) return WrongSize();
    if (!upload_id_.has_value()) return store_.Put(key_, part_);
    if (absl::Status status = SendPart(); !status.ok()) return status;
    absl::Status status = Complete();
    if (status.ok()) upload_id_.reset();
    return status;
  }

 private:
  absl::Status WrongSize() const {
    return absl::InternalError(
        Cat(store_.NameOf(key_), ": ", num_taken_, " bytes were given, but ", num_bytes_, " were announced"));
  }

  absl::Status SendPart() {
    if (!upload_id_.has_value()) {
      const absl::StatusOr<HttpResponse> begun =
          store_.Call({.method = "POST", .key = key_, .query = {{"uploads", ""}}});
      if (!begun.ok()) return begun.status();
      absl::StatusOr<std::string> id = ReadUploadId(begun->body);
      if (!id.ok()) return Prefix(Cat(store_.NameOf(key_), ": "), id.status());
      upload_id_ = *std::move(id);
    }
    const absl::StatusOr<HttpResponse> sent =
        store_.Call({.method = "PUT",
                     .key = key_,
                     .query = {{"partNumber", Cat(etags_.size() + 1)}, {"uploadId", *upload_id_}},
                     .body = part_});
    if (!sent.ok()) return sent.status();
    const auto etag = sent->headers.find("etag");
    if (etag == sent->headers.end()) {
      return absl::DataLossError(Cat(store_.NameOf(key_), ": PUT: the store's answer to a part has no ETag"));
    }
    etags_.push_back(etag->second);
    part_.clear();
    return absl::OkStatus();
  }

  absl::Status Complete() {
    const std::string body = CompleteUploadXml(etags_);
    bool was_repeated = false;
    absl::Status status =
        store_.Call({.method = "POST", .key = key_, .query = {{"uploadId", *upload_id_}}, .body = body}, &was_repeated)
            .status();
    // If the answer to the first attempt was lost, the store has completed the upload and answers NOT_FOUND to a second
    // attempt. The upload has succeeded if the object is there with the right size.
    if (!absl::IsNotFound(status) || !was_repeated) return status;
    const absl::StatusOr<std::vector<StoredObject>> found = store_.List(key_, 1);
    if (!found.ok()) return found.status();
    return *found == std::vector<StoredObject>{{key_, num_bytes_}} ? absl::OkStatus() : status;
  }

  S3Store& store_;
  const std::string key_;
  const uint64_t num_bytes_;
  const uint64_t part_bytes_;
  uint64_t num_taken_ = 0;
  std::string part_;
  std::optional<std::string> upload_id_;  // set while the store keeps an upload
  std::vector<std::string> etags_;        // of the parts sent so far
};

absl::StatusOr<std::unique_ptr<ObjectUpload>> S3Store::BeginUpload(const std::string& key, uint64_t num_bytes) {
  return std::make_unique<S3Upload>(*this, key, num_bytes);
}

}  // namespace

uint64_t UploadPartBytes(uint64_t num_bytes) {
  constexpr uint64_t kStep = uint64_t{1} << 20;
  const uint64_t least = num_bytes / kMaxUploadParts + 1;
  return std::max(kUploadPartBytes, (least + kStep - 1) / kStep * kStep);
}

S3Clock S3Clock::Real() {
  return {.steady = [] { return MonotonicNow(); },
          .now = [] { return absl::Now(); },
          .sleep = [](absl::Duration pause) { absl::SleepFor(pause); },
          .random = [] { return absl::Uniform(absl::BitGen(), 0.0, 1.0); }};
}

std::unique_ptr<ObjectStore> MakeS3Store(S3Settings settings, std::unique_ptr<HttpTransport> transport, S3Clock clock,
                                         const StopSignal* stop) {
  return std::make_unique<S3Store>(std::move(settings), std::move(transport), std::move(clock), stop);
}

}  // namespace maxsim::backup
