#include "tests/support/connections/fake_encoder.h"
#include "tests/support/values/eventually.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"
#include "nlohmann/json.hpp"

namespace maxsim::test {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Error = boost::system::error_code;
using nlohmann::json;

std::string Pem(const std::function<void(BIO*)>& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  write(bio.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

FakeCertificate MakeCertificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509* const x509 = certificate.get();
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, key.get());
  X509_NAME* const name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("encoder.test"), -1, -1,
                             0);
  X509_set_issuer_name(x509, name);
  X509V3_CTX context;
  X509V3_set_ctx(&context, x509, x509, nullptr, nullptr, 0);
  X509_EXTENSION* const names = X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, "DNS:encoder.test");
  X509_add_ext(x509, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(x509, key.get(), EVP_sha256());
  return {
      .certificate = Pem([&](BIO* bio) { PEM_write_bio_X509(bio, x509); }),
      .key = Pem([&](BIO* bio) { PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr); })};
}

class FakeEncoder::Impl {
 public:
  Impl(Handler handler, const FakeCertificate* certificate)
      : handler_(std::move(handler)), acceptor_(loop_, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    if (certificate != nullptr) {
      tls_.emplace(asio::ssl::context::tls_server);
      tls_->use_certificate_chain(asio::buffer(certificate->certificate));
      tls_->use_private_key(asio::buffer(certificate->key), asio::ssl::context::pem);
    }
    port_ = acceptor_.local_endpoint().port();
    thread_ = std::thread([this] { Accept(); });
  }

  ~Impl() {
    {
      const MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.NotifyAll();
      // Shuts the sockets down, which ends reads in progress. Closing a socket would free its descriptor during a read.
      for (Tcp::socket* socket : sockets_) shutdown(socket->native_handle(), SHUT_RDWR);
    }
    shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    std::list<std::thread> threads;
    {
      const MutexLock lock(&mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  int port() const { return port_; }
  bool is_tls() const { return tls_.has_value(); }
  int num_connections() const { return num_connections_; }
  int max_concurrent_calls() const { return max_concurrent_calls_; }
  std::vector<FakeCall> calls() const {
    const MutexLock lock(&mutex_);
    return calls_;
  }

  bool WaitForCalls(int count) const {
    const auto end = std::chrono::steady_clock::now() + kTestLimit;
    MutexLock lock(&mutex_);
    while (calls_.size() < static_cast<size_t>(count)) {
      if (!changed_.WaitUntil(lock, end)) return calls_.size() >= static_cast<size_t>(count);
    }
    return true;
  }

 private:
  void Accept() {
    while (true) {
      auto socket = std::make_unique<Tcp::socket>(loop_);
      Error error;
      acceptor_.accept(*socket, error);
      const MutexLock lock(&mutex_);
      if (error || stopping_) return;
      sockets_.push_back(socket.get());
      const int number = num_connections_++;
      threads_.emplace_back([this, number, owned = std::move(socket)]() mutable {
        Tcp::socket* const raw = owned.get();
        Serve(*raw, number);
        const MutexLock end(&mutex_);
        std::erase(sockets_, raw);
        owned.reset();
      });
    }
  }

  void Serve(Tcp::socket& socket, int number) {
    if (!tls_.has_value()) return ServeStream(socket, number);
    asio::ssl::stream<Tcp::socket&> stream(socket, *tls_);
    Error error;
    stream.handshake(asio::ssl::stream_base::server, error);
    if (!error) ServeStream(stream, number);
  }

  template <typename Stream>
  void ServeStream(Stream& stream, int number) {
    boost::beast::flat_buffer buffer;
    while (true) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(uint64_t{1} << 30);
      Error error;
      http::read(stream, buffer, parser, error);
      if (error) return;
      const http::request<http::string_body> request = parser.release();
      FakeCall call{.method = std::string(request.method_string()),
                    .target = std::string(request.target()),
                    .authorization = std::string(request[http::field::authorization]),
                    .traceparent = std::string(request["traceparent"]),
                    .tracestate = std::string(request["tracestate"]),
                    .body = request.body(),
                    .connection = number};
      Note(call);
      const FakeReply reply = handler_(call);
      const bool goes_on = Wait(reply.delay);
      --num_concurrent_calls_;
      if (!goes_on || reply.closes_unanswered || !Answer(stream, reply)) return;
    }
  }

  void Note(FakeCall& call) {
    const MutexLock lock(&mutex_);
    call.number = static_cast<int>(calls_.size());
    calls_.push_back(call);
    max_concurrent_calls_ = std::max<int>(max_concurrent_calls_, ++num_concurrent_calls_);
    changed_.NotifyAll();
  }

  // Returns false if the encoder stops before the delay ends.
  bool Wait(std::chrono::milliseconds delay) {
    const auto end = std::chrono::steady_clock::now() + delay;
    MutexLock lock(&mutex_);
    while (!stopping_ && std::chrono::steady_clock::now() < end) changed_.WaitUntil(lock, end);
    return !stopping_;
  }

  // Sends the reply. Returns true if the connection stays open.
  template <typename Stream>
  bool Answer(Stream& stream, const FakeReply& reply) {
    Error error;
    if (!reply.endless_piece.empty()) {
      asio::write(stream, asio::buffer(reply.body), error);
      while (!error && Wait(reply.piece_delay)) asio::write(stream, asio::buffer(reply.endless_piece), error);
      return false;
    }
    if (reply.is_cut_off) {
      const std::string text = absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", reply.body.size(), "\r\n\r\n",
                                            reply.body.substr(0, reply.body.size() / 2));
      asio::write(stream, asio::buffer(text), error);
      return false;
    }
    http::response<http::string_body> answer(static_cast<http::status>(reply.status), 11);
    answer.body() = reply.body;
    if (!reply.retry_after.empty()) answer.set(http::field::retry_after, reply.retry_after);
    answer.keep_alive(!reply.closes);
    answer.prepare_payload();
    http::write(stream, answer, error);
    return !error && !reply.closes;
  }

  const Handler handler_;
  asio::io_context loop_;
  std::optional<asio::ssl::context> tls_;
  Tcp::acceptor acceptor_;
  int port_ = 0;
  std::atomic<int> num_connections_{0};
  std::atomic<int> num_concurrent_calls_{0};
  std::atomic<int> max_concurrent_calls_{0};
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<FakeCall> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<Tcp::socket*> sockets_ ABSL_GUARDED_BY(mutex_);
  std::list<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

FakeEncoder::FakeEncoder(Handler handler, const FakeCertificate* certificate)
    : impl_(std::make_unique<Impl>(std::move(handler), certificate)) {}
FakeEncoder::~FakeEncoder() = default;
int FakeEncoder::port() const { return impl_->port(); }
std::string FakeEncoder::url() const {
  return absl::StrCat(impl_->is_tls() ? "https" : "http", "://127.0.0.1:", impl_->port());
}
int FakeEncoder::num_calls() const { return static_cast<int>(impl_->calls().size()); }
int FakeEncoder::num_connections() const { return impl_->num_connections(); }
int FakeEncoder::max_concurrent_calls() const { return impl_->max_concurrent_calls(); }
std::vector<FakeCall> FakeEncoder::calls() const { return impl_->calls(); }
bool FakeEncoder::WaitForCalls(int count) const { return impl_->WaitForCalls(count); }

std::vector<std::string> TextsOf(const FakeCall& call) {
  const json body = json::parse(call.body);
  for (const char* name : {"input", "inputs", "texts"}) {
    if (body.contains(name)) return body[name].get<std::vector<std::string>>();
  }
  return {};
}

std::vector<float> MatrixOf(const std::string& text, int dim) {
  std::vector<float> values;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  for (size_t row = 0; row < words.size(); ++row) {
    for (int idx = 0; idx < dim; ++idx) {
      values.push_back(static_cast<float>(words[row].size()) + static_cast<float>(idx) / 16 + static_cast<float>(row));
    }
  }
  return values;
}

namespace {

json RowsOf(const std::string& text, int dim) {
  const std::vector<float> values = MatrixOf(text, dim);
  json rows = json::array();
  for (auto next = values.begin(); next != values.end(); next += dim)
    rows.push_back(std::vector<float>(next, next + dim));
  return rows;
}

}  // namespace

std::string AnswerObjects(const std::vector<std::string>& texts, int dim, const std::string& member) {
  json data = json::array();
  for (size_t idx = 0; idx < texts.size(); ++idx) {
    data.push_back({{"index", idx}, {"object", "x"}, {member, RowsOf(texts[idx], dim)}});
  }
  return json({{"id", "a"}, {"object", "list"}, {"data", data}, {"usage", {{"total_tokens", 3}}}}).dump();
}

std::string AnswerList(const std::vector<std::string>& texts, int dim) {
  json list = json::array();
  for (const std::string& text : texts) list.push_back(RowsOf(text, dim));
  return list.dump();
}

}  // namespace maxsim::test
