// A fake S3 store in this process, without a network. It supports the requests that s3_store.cc sends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "backup/s3/http_transport.h"
#include "base/text.h"

namespace maxsim::backup {

// The objects that the fake holds, and the requests that it got. Not thread-safe.
struct FakeS3 {
  std::map<std::string, std::string> objects;                 // by path: "/bucket/prefix/key"
  std::map<std::string, std::map<int, std::string>> uploads;  // parts by number, by the id of the upload
  std::vector<HttpRequest> requests;                          // without their bodies
  std::vector<size_t> body_bytes;                             // of the requests
  size_t page_objects = 1000;                                 // of a list
  // Called before each request. If it returns an answer or an error, the request does not reach the store.
  std::function<std::optional<absl::StatusOr<HttpResponse>>(const HttpRequest&)> before = nullptr;
  // Called with each answer, after the request has taken effect. May return another answer or an error.
  std::function<absl::StatusOr<HttpResponse>(const HttpRequest&, HttpResponse)> after = nullptr;
};

inline HttpResponse ErrorAnswer(int status, const std::string& code) {
  return {.status = status, .headers = {}, .body = Cat("<Error><Code>", code, "</Code><Message>m</Message></Error>")};
}

inline std::string HeaderOf(const HttpRequest& request, std::string_view name) {
  for (const auto& [found, value] : request.headers) {
    if (found == name) return value;
  }
  return "";
}

class FakeS3Transport final : public HttpTransport {
 public:
  explicit FakeS3Transport(FakeS3* fake) : fake_(*fake) {}

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    fake_.requests.push_back(request);
    fake_.requests.back().body = {};
    fake_.body_bytes.push_back(request.body.size());
    if (fake_.before != nullptr) {
      std::optional<absl::StatusOr<HttpResponse>> answer = fake_.before(request);
      if (answer.has_value()) return *std::move(answer);
    }
    HttpResponse answer = Answer(request);
    return fake_.after == nullptr ? answer : fake_.after(request, std::move(answer));
  }

 private:
  HttpResponse Answer(const HttpRequest& request) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    std::map<std::string, std::string> query;
    if (path.size() < request.target.size()) {
      for (const std::string& pair :
           std::vector<std::string>(absl::StrSplit(request.target.substr(path.size() + 1), '&'))) {
        query[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
      }
    }
    if (query.count("list-type") > 0) return List(path, query);
    if (query.count("uploads") > 0) {
      const std::string id = Cat("upload-", ++num_uploads_);
      fake_.uploads[id];
      return {
          .status = 200,
          .headers = {},
          .body = Cat("<InitiateMultipartUploadResult><UploadId>", id, "</UploadId></InitiateMultipartUploadResult>")};
    }
    if (query.count("uploadId") > 0) return OfUpload(request, path, query);
    if (request.method == "PUT") {
      fake_.objects[path] = std::string(request.body);
      return {.status = 200};
    }
    return Get(request, path);
  }

  HttpResponse OfUpload(const HttpRequest& request, const std::string& path,
                        std::map<std::string, std::string>& query) {
    const auto upload = fake_.uploads.find(query["uploadId"]);
    if (upload == fake_.uploads.end()) return ErrorAnswer(404, "NoSuchUpload");
    if (request.method == "PUT") {
      int number = 0;
      if (!absl::SimpleAtoi(query["partNumber"], &number)) return ErrorAnswer(400, "InvalidArgument");
      upload->second[number] = std::string(request.body);
      return {.status = 200, .headers = {{"etag", Cat("\"", number, "\"")}}, .body = ""};
    }
    if (request.method == "POST") {
      std::string object;
      for (const auto& [number, bytes] : upload->second) object += bytes;
      fake_.objects[path] = std::move(object);
    }
    fake_.uploads.erase(upload);
    return {.status = request.method == "POST" ? 200 : 204};
  }

  HttpResponse Get(const HttpRequest& request, const std::string& path) {
    const auto found = fake_.objects.find(path);
    if (found == fake_.objects.end()) return ErrorAnswer(404, "NoSuchKey");
    const std::vector<std::string> range =
        absl::StrSplit(HeaderOf(request, "range").substr(std::string_view("bytes=").size()), '-');
    uint64_t first = 0, last = 0;
    if (range.size() != 2 || !absl::SimpleAtoi(range[0], &first) || !absl::SimpleAtoi(range[1], &last)) {
      return ErrorAnswer(400, "InvalidArgument");
    }
    if (first >= found->second.size()) return ErrorAnswer(416, "InvalidRange");
    return {.status = 206, .headers = {}, .body = found->second.substr(first, last - first + 1)};
  }

  // `prefix` and tokens arrive percent-encoded. In these tests, only slashes are encoded.
  HttpResponse List(const std::string& path, std::map<std::string, std::string>& query) {
    std::string prefix = query["prefix"];
    for (size_t at = prefix.find("%2F"); at != std::string::npos; at = prefix.find("%2F")) prefix.replace(at, 3, "/");
    size_t max_keys = 0;
    if (!absl::SimpleAtoi(query["max-keys"], &max_keys)) return ErrorAnswer(400, "InvalidArgument");
    max_keys = std::min(max_keys, fake_.page_objects);
    size_t skipped = 0;
    if (query.count("continuation-token") > 0 && !absl::SimpleAtoi(query["continuation-token"], &skipped)) {
      return ErrorAnswer(400, "InvalidArgument");
    }
    std::vector<std::string> keys;
    for (const auto& [object, bytes] : fake_.objects) {
      if (object.starts_with(Cat(path, "/", prefix))) keys.push_back(object.substr(path.size() + 1));
    }
    std::string body = "<ListBucketResult>";
    const size_t end = std::min(keys.size(), skipped + max_keys);
    for (size_t i = skipped; i < end; ++i) {
      body += Cat("<Contents><Key>", keys[i], "</Key><Size>", fake_.objects[path + "/" + keys[i]].size(),
                  "</Size></Contents>");
    }
    body += Cat("<IsTruncated>", end < keys.size() ? "true" : "false", "</IsTruncated>");
    if (end < keys.size()) body += Cat("<NextContinuationToken>", end, "</NextContinuationToken>");
    return {.status = 200, .headers = {}, .body = body + "</ListBucketResult>"};
  }

  FakeS3& fake_;
  int num_uploads_ = 0;
};

}  // namespace maxsim::backup
