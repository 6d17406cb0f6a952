// Fuzzes HTTP heads and bodies as a connection reads them. In whatever pieces the bytes arrive, the server must see the
// same requests and give the same, complete answers. The first byte of the input chooses the pieces. Each byte 1
// becomes 5,000 letters, so that short inputs exceed the limits.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/http/transport/connection.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

constexpr uint64_t kMaxBody = 8192;

// Answers each request immediately, and records it. If a path begins with /n, answers before the body is read.
class NotingApplication final : public http::Application {
 public:
  std::optional<http::Response> Begin(const http::Request& request) override {
    Note("begin", request);
    if (!absl::StartsWith(request.path, "/n")) return std::nullopt;
    ++num_answers_;
    return Answer(request, 200, "early");
  }

  void Handle(http::Request request, Reply reply) override {
    Note("handle", request);
    Require(request.body.size() <= kMaxBody, "no body is larger than its limit");
    ++num_answers_;
    reply(Answer(request, 200, request.body));
  }

  http::Response Refuse(const http::Request& request, int status, const absl::Status& why) override {
    // If a head is both too large and malformed, the sizes of the pieces decide which of the two errors is found first.
    const int noted = status == 431 ? 400 : status;
    Note(absl::StrCat("refuse ", noted), request);
    ++num_answers_;
    return Answer(request, noted, "no");
  }

  const std::string& notes() const { return notes_; }
  int num_answers() const { return num_answers_; }

 private:
  // Returns an answer, without a body if the method is HEAD.
  static http::Response Answer(const http::Request& request, int status, const std::string& body) {
    return {.status = status, .content_type = "text/plain", .body = request.method == "HEAD" ? "" : body};
  }

  void Note(const std::string& event, const http::Request& request) {
    absl::StrAppend(&notes_, event, "|", request.method, "|", request.path, "|", request.authorization, "|",
                    request.content_encoding, "|", request.client_id, "|", request.body, "\n");
  }

  std::string notes_;
  int num_answers_ = 0;
};

// The requests that the server read from a connection, and the answers that the client got.
struct Exchange {
  std::string notes;
  std::string answers;
  int num_answers = 0;
};

// Returns random sizes of pieces: at least 1 and at most 2, 4, ... or 256 bytes, depending on the seed.
class Cuts {
 public:
  explicit Cuts(unsigned char seed) : state_(seed * uint64_t{2654435761} + 1), bits_(seed % 8 + 1) {}
  size_t Next() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return 1 + (state_ >> 33) % (size_t{1} << bits_);
  }

 private:
  uint64_t state_;
  const int bits_;
};

// The client's end of a connection. The server reads the other end.
class Client {
 public:
  Client() { Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) == 0, "the target has a socket"); }
  ~Client() { close(ends_[0]); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int server_end() const { return ends_[1]; }
  void Send(std::string_view bytes) const { send(ends_[0], bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void FinishSending() const { shutdown(ends_[0], SHUT_WR); }
  void Receive(std::string& text) const {
    char buffer[16384];
    for (ssize_t size = 1; size > 0;) {
      size = recv(ends_[0], buffer, sizeof(buffer), MSG_DONTWAIT);
      if (size > 0) text.append(buffer, static_cast<size_t>(size));
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

Exchange Serve(std::string_view bytes, Cuts* cuts) {
  static auto* const loop = new boost::asio::io_context(1);
  NotingApplication application;
  http::TransportOptions options;
  options.max_body_bytes = kMaxBody;
  options.client_header = "x-client-id";
  // The timeouts are long, so that a slow machine does not look like a slow client.
  options.idle_timeout = options.header_timeout = options.body_timeout = options.write_timeout = absl::Hours(24);
  http::Connections connections(options, &application, [] {});
  Client client;
  Exchange exchange;
  const auto run = [&] {
    do loop->restart();
    while (loop->poll() > 0);
    client.Receive(exchange.answers);
  };
  boost::asio::ip::tcp::socket socket(*loop, boost::asio::ip::tcp::v4(), client.server_end());
  std::make_shared<http::Connection>(loop, std::move(socket), &connections)->Start();
  while (!bytes.empty()) {
    const size_t size = cuts == nullptr ? bytes.size() : std::min(cuts->Next(), bytes.size());
    client.Send(bytes.substr(0, size));
    bytes.remove_prefix(size);
    run();
  }
  client.FinishSending();
  run();
  Require(connections.size() == 0, "a connection ends when its client has");
  exchange.notes = application.notes();
  exchange.num_answers = application.num_answers();
  // The server sends "100 Continue" only if the body has not arrived yet, which depends on the pieces. Removes this
  // line, so that answers can be compared.
  exchange.answers = absl::StrReplaceAll(exchange.answers, {{"HTTP/1.1 100 Continue\r\n\r\n", ""}});
  return exchange;
}

// Returns the number of answers in `text`. Fails if `text` has anything else than complete answers.
int CountAnswers(std::string_view text) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  int count = 0;
  while (!text.empty()) {
    Require(text.substr(0, 7) == "HTTP/1.", "an answer follows the one before");
    const size_t end = text.find("\r\n\r\n");
    Require(end != std::string_view::npos, "an answer's head is whole");
    const std::string_view head = text.substr(0, end + 2);
    text.remove_prefix(end + 4);
    if (head.substr(0, 12) == kContinue.substr(0, 12)) continue;
    const size_t length = head.find(kLength);
    Require(length != std::string_view::npos, "an answer says its length");
    const std::string_view digits = head.substr(length + kLength.size());
    const size_t size = std::stoul(std::string(digits.substr(0, digits.find('\r'))));
    Require(size <= text.size(), "an answer's body is whole");
    text.remove_prefix(size);
    ++count;
  }
  return count;
}

void FuzzHttp(std::string_view input) {
  if (input.empty()) return;
  std::string bytes;
  for (const char c : input.substr(1)) c == '\1' ? bytes.append(5000, 'x') : bytes.append(1, c);
  // Ends the last head. Whether the server finds an error in a head without an end would depend on the pieces.
  bytes += "\r\n\r\n";
  if (bytes.size() > 64 * 1024) return;  // the socket's buffer has no room for more
  const Exchange whole = Serve(bytes, nullptr);
  Require(CountAnswers(whole.answers) == whole.num_answers, "every request is answered once");
  Cuts cuts(static_cast<unsigned char>(input[0]));
  const Exchange cut = Serve(bytes, &cuts);
  Require(cut.notes == whole.notes,
          absl::StrCat("the application sees the same requests:\n", cut.notes, "and whole\n", whole.notes));
  Require(cut.answers == whole.answers,
          absl::StrCat("the client gets the same answers:\n", cut.answers, "\nand whole\n", whole.answers));
}

const Registration kHttpTarget("http", &FuzzHttp);

}  // namespace
}  // namespace maxsim::fuzz
