#include "backup/s3/http_transport.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "base/mutex.h"
#include "base/text.h"
#include "httplib.h"

namespace maxsim::backup {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};
// How long the server may be silent. A store may need that long to join the parts of a large object.
constexpr std::chrono::seconds kSilenceTimeout{120};

absl::Status ErrorOf(httplib::Error error, const std::string& origin) {
  switch (error) {
    case httplib::Error::SSLServerVerification:
      return absl::FailedPreconditionError(
          Cat(origin,
              ": its certificate is not trusted, or is for another name (AWS_CA_BUNDLE names a file of trusted "
              "authorities)"));
    case httplib::Error::SSLLoadingCerts:
      return absl::FailedPreconditionError("AWS_CA_BUNDLE: no certificates could be read from this file");
    case httplib::Error::Write:
      return absl::UnavailableError(
          Cat(origin, ": closed the connection before it had the whole request, which it may have refused"));
    default:
      return absl::UnavailableError(Cat(origin, ": no answer (", httplib::to_string(error), ")"));
  }
}

class HttplibTransport final : public HttpTransport {
 public:
  HttplibTransport(std::string origin, std::string ca_file)
      : origin_(std::move(origin)), ca_file_(std::move(ca_file)) {}

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    std::unique_ptr<httplib::Client> client = TakeClient();
    httplib::Request sent;
    sent.method = request.method;
    sent.path = request.target;
    for (const auto& [name, value] : request.headers) sent.headers.emplace(name, value);
    if (!request.body.empty()) {
      // httplib copies its requests, so this one refers to the body, which may be a large part of an upload.
      sent.content_length_ = request.body.size();
      sent.content_provider_ = [&](size_t offset, size_t length, httplib::DataSink& sink) {
        sink.write(request.body.data() + offset, length);
        return true;  // a failure to write ends the request with its own error
      };
    }
    HttpResponse response;
    sent.response_handler = [&](const httplib::Response& begun) {
      // Reserves the announced size: a body that grows by doubling would take up to three times its size.
      const auto announced = begun.get_header_value<uint64_t>("Content-Length");
      response.body.reserve(std::min<uint64_t>(announced, request.max_response_bytes));
      return true;
    };
    bool is_too_long = false;
    sent.content_receiver = [&](const char* data, size_t count, uint64_t, uint64_t) {
      is_too_long = count > request.max_response_bytes - response.body.size();
      if (!is_too_long) response.body.append(data, count);
      return !is_too_long;
    };
    httplib::Response received;
    httplib::Error error = httplib::Error::Success;
    const bool is_answered = client->send(sent, received, error);
    if (is_too_long) {
      return absl::DataLossError(
          Cat(origin_, ": answers with more than ", request.max_response_bytes, " bytes to a ", request.method));
    }
    if (!is_answered) {
      DropIdleClients();
      return ErrorOf(error, origin_);
    }
    response.status = received.status;
    for (const auto& [name, value] : received.headers) response.headers[absl::AsciiStrToLower(name)] = value;
    const MutexLock lock(&mutex_);
    idle_.push_back(std::move(client));
    return response;
  }

 private:
  std::unique_ptr<httplib::Client> TakeClient() {
    {
      const MutexLock lock(&mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<httplib::Client> client = std::move(idle_.back());
        idle_.pop_back();
        return client;
      }
    }
    auto client = std::make_unique<httplib::Client>(origin_);
    client->set_connection_timeout(kConnectTimeout);
    client->set_read_timeout(kSilenceTimeout);
    client->set_write_timeout(kSilenceTimeout);
    client->set_keep_alive(true);
    client->set_follow_location(false);
    client->set_decompress(false);
    client->set_url_encode(false);  // paths are encoded already, in the way that is signed
    client->enable_server_certificate_verification(true);
    if (!ca_file_.empty()) client->set_ca_cert_path(ca_file_.c_str());
    return client;
  }

  // Closes all idle connections after one connection broke, because the store may have closed them, too. httplib
  // notices a closed connection only when it sends a request, so each one would cost the caller an attempt.
  void DropIdleClients() {
    std::vector<std::unique_ptr<httplib::Client>> dropped;
    const MutexLock lock(&mutex_);
    dropped.swap(idle_);
  }

  const std::string origin_;
  const std::string ca_file_;
  Mutex mutex_;
  std::vector<std::unique_ptr<httplib::Client>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<HttpTransport> MakeHttpTransport(std::string origin, std::string ca_file) {
  return std::make_unique<HttplibTransport>(std::move(origin), std::move(ca_file));
}

}  // namespace maxsim::backup
