#include "tests/unit/server/live/nats/fake_nats.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/mutex.h"
#include "nlohmann/json.hpp"

namespace maxsim::live {
namespace {

// An endless message (Manner::kEndless) claims to have this many bytes.
constexpr size_t kEndlessBytes = size_t{1} << 30;
constexpr int kPollMs = 20;

// What the server's clock shows.
constexpr int64_t kNowNs = 1'700'000'000'000'000'000;
constexpr char kNow[] = "2023-11-14T22:13:20Z";

constexpr char kCreated[] = "2026-01-01T00:00:00Z";
constexpr char kOtherTime[] = "2026-01-01T00:00:00.005Z";
constexpr char kNoTime[] = "0001-01-01T00:00:00Z";

}  // namespace

class FakeNats::Impl {
 public:
  explicit Impl(const std::string& collection)
      : stream_(absl::StrCat("maxsim-", collection)), subjects_(absl::StrCat("maxsim.", collection, ".*")) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~Impl() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& thread : connections_) thread.join();
    close(listener_);
  }

  int port() const { return port_; }
  void Spoil(Part part, Manner manner) {
    const MutexLock lock(&mutex_);
    spoilt_ = part;
    manner_ = manner;
  }
  void DelayMessages(absl::Duration delay) {
    const MutexLock lock(&mutex_);
    delay_ns_ = absl::ToInt64Nanoseconds(delay);
  }
  void AwaitCreation(Creation answer) {
    const MutexLock lock(&mutex_);
    creation_ = answer;
    exists_ = false;
  }
  void HideTimeOfCreation() {
    const MutexLock lock(&mutex_);
    created_ = kNoTime;
  }

 private:
  // The connection of one client, which has a thread of its own. `received` holds bytes that were read but not yet
  // parsed.
  struct Connection {
    int fd = -1;
    std::string received = {};
    std::map<std::string, std::string> subscriptions = {};  // subject -> number
    std::string deliver_to = {};                            // the subject of the consumer
    uint64_t num_delivered = 0;
  };

  void Accept() {
    while (WaitFor(listener_, POLLIN)) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) connections_.emplace_back([this, fd] { Serve(fd); });
    }
  }

  // Returns false once the server is to stop.
  bool WaitFor(int fd, short events) const {
    while (!stopping_) {
      pollfd one = {.fd = fd, .events = events, .revents = 0};
      if (poll(&one, 1, kPollMs) > 0) return true;
    }
    return false;
  }

  bool Send(int fd, std::string_view bytes) const {
    while (!bytes.empty()) {
      if (!WaitFor(fd, POLLOUT)) return false;
      const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return false;
      bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    }
    return true;
  }

  // Sends HEAD SIZE\r\nDATA\r\n. If Spoil() named this part, sends it too slowly or without an end. Returns false if
  // the connection can no longer be used.
  bool SendMessage(int fd, Part part, const std::string& head, const std::string& data) {
    Manner manner = Manner::kStops;
    bool is_spoilt = false;
    {
      const MutexLock lock(&mutex_);
      is_spoilt = part == spoilt_ && part != Part::kNone;
      manner = manner_;
    }
    const std::string whole = part == Part::kGreeting ? absl::StrCat(head, " ", data, "\r\n")
                                                      : absl::StrCat(head, " ", data.size(), "\r\n", data, "\r\n");
    if (!is_spoilt) return Send(fd, whole);
    switch (manner) {
      case Manner::kStops:
        return Send(fd, std::string_view(whole).substr(0, whole.size() / 2)) && Hold(fd);
      case Manner::kDrips:
        for (const char c : whole.substr(0, whole.size() - 2)) {
          if (!Send(fd, std::string_view(&c, 1))) return false;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return Hold(fd);
      case Manner::kEndless:
        break;
    }
    const std::string begin = part == Part::kGreeting ? absl::StrCat(head, " {\"server_id\":\"")
                                                      : absl::StrCat(head, " ", kEndlessBytes, "\r\n");
    const std::string piece(65536, 'x');
    bool is_open = Send(fd, begin);
    for (size_t sent = 0; is_open && sent < kEndlessBytes; sent += piece.size()) is_open = Send(fd, piece);
    return false;
  }

  // Waits until the client has closed the connection.
  bool Hold(int fd) const {
    char byte = 0;
    while (WaitFor(fd, POLLIN)) {
      const ssize_t got = recv(fd, &byte, 1, 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) break;
    }
    return false;
  }

  void Serve(int fd) {
    Connection connection{.fd = fd};
    const std::string info =
        R"({"server_id":"fake","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576,"jetstream":true})";
    bool is_open = SendMessage(fd, Part::kGreeting, "INFO", info);
    std::string piece(65536, '\0');
    while (is_open && WaitFor(fd, POLLIN)) {
      const ssize_t got = recv(fd, piece.data(), piece.size(), 0);
      if (got == 0 || (got < 0 && errno != EAGAIN)) break;
      connection.received.append(piece, 0, static_cast<size_t>(std::max<ssize_t>(got, 0)));
      while (is_open && TakeLine(connection, &is_open)) {
      }
    }
    close(fd);
  }

  // Removes the next command from the received bytes and executes it. Returns false if the command is incomplete. Sets
  // `is_open` to whether the connection can still be used.
  bool TakeLine(Connection& connection, bool* is_open) {
    const size_t end = connection.received.find("\r\n");
    if (end == std::string::npos) return false;
    const std::vector<std::string> words = absl::StrSplit(connection.received.substr(0, end), ' ', absl::SkipEmpty());
    const bool is_publish = !words.empty() && (words[0] == "PUB" || words[0] == "HPUB");
    const size_t size = is_publish ? std::stoul(words.back()) + 2 : 0;
    if (connection.received.size() < end + 2 + size) return false;
    std::string data = connection.received.substr(end + 2, size);
    connection.received.erase(0, end + 2 + size);
    if (words.empty()) return true;
    if (words[0] == "PING") *is_open = Send(connection.fd, "PONG\r\n");
    if (words[0] == "SUB") connection.subscriptions[words[1]] = words.back();
    if (is_publish && words.size() >= 4) {
      const size_t header = words[0] == "HPUB" ? std::stoul(words[words.size() - 2]) : 0;
      data.resize(data.size() - 2);
      *is_open = OnPublish(connection, words[1], words[2], header, data);
    }
    return true;
  }

  // Returns the number of the client's subscription that matches a subject, or "0".
  static std::string NumberOf(const Connection& connection, const std::string& subject) {
    for (const auto& [pattern, number] : connection.subscriptions) {
      const std::string_view prefix = std::string_view(pattern).substr(0, pattern.size() - 1);
      if (pattern == subject || (pattern.back() == '*' && subject.starts_with(prefix))) return number;
    }
    return "0";
  }
  bool Answer(const Connection& connection, Part part, const std::string& to, const std::string& data) {
    return SendMessage(connection.fd, part, absl::StrCat("MSG ", to, " ", NumberOf(connection, to)), data);
  }

  // The first `header` bytes of `message` are its headers.
  bool OnPublish(Connection& connection, const std::string& subject, const std::string& reply, size_t header,
                 const std::string& message) {
    if (subject.starts_with("$JS.API.STREAM.INFO.")) {
      return Answer(connection, Part::kStreamInfo, reply, StreamInfo());
    }
    if (subject.starts_with("$JS.API.STREAM.CREATE.")) {
      const std::string answer = Create();
      return answer.empty() || Answer(connection, Part::kNone, reply, answer);
    }
    if (subject.starts_with("$JS.API.CONSUMER.CREATE.")) {
      connection.deliver_to = nlohmann::json::parse(message.substr(header))["config"]["deliver_subject"];
      return Answer(connection, Part::kConsumer, reply,
                    absl::StrCat(R"({"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":")",
                                 stream_, R"(","name":"one","created":")", kNow, R"(","config":{"deliver_subject":")",
                                 connection.deliver_to, R"("}})"));
    }
    if (!subject.starts_with(subjects_.substr(0, subjects_.size() - 1))) return true;
    const uint64_t sequence = ++connection.num_delivered;
    const std::string answer = absl::StrCat(R"({"stream":")", stream_, R"(","seq":)", sequence, "}");
    if (!Answer(connection, Part::kAcknowledged, reply, answer)) return false;
    if (connection.deliver_to.empty()) return true;
    const std::string acknowledge =
        absl::StrCat("$JS.ACK.", stream_, ".one.1.", sequence, ".", sequence, ".", StoredNs(), ".0");
    return SendMessage(connection.fd, Part::kDelivery,
                       absl::StrCat("HMSG ", connection.deliver_to, " ", NumberOf(connection, connection.deliver_to),
                                    " ", acknowledge, " ", header),
                       message);
  }

  int64_t StoredNs() {
    const MutexLock lock(&mutex_);
    return kNowNs + delay_ns_;
  }

  std::string StreamInfo() {
    const MutexLock lock(&mutex_);
    return exists_ ? InfoOf("info", created_) : ErrorOf("info", 404, 10059, "stream not found");
  }

  // Creates the stream. Returns the answer, or "" for none.
  std::string Create() {
    const MutexLock lock(&mutex_);
    exists_ = true;
    switch (creation_) {
      case Creation::kInfo:
        return InfoOf("create", created_);
      case Creation::kOtherTime:
        return InfoOf("create", kOtherTime);
      case Creation::kNoTime:
        return InfoOf("create", kNoTime);
      case Creation::kOverlap:
        return ErrorOf("create", 400, 10065, "subjects overlap with an existing stream");
      case Creation::kNoAnswer:
        break;
    }
    return "";
  }

  static std::string ErrorOf(const char* call, int code, int error_code, const char* description) {
    return absl::StrCat(R"({"type":"io.nats.jetstream.api.v1.stream_)", call, R"(_response","error":{"code":)", code,
                        R"(,"err_code":)", error_code, R"(,"description":")", description, R"("}})");
  }

  std::string InfoOf(const char* call, const std::string& created) const {
    return absl::StrCat(R"({"type":"io.nats.jetstream.api.v1.stream_)", call, R"(_response","config":{"name":")",
                        stream_, R"(","subjects":[")", subjects_,
                        R"("],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,)",
                        R"("max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"new","storage":"file",)",
                        R"("num_replicas":1,"duplicate_window":120000000000},"created":")", created,
                        R"(","state":{"messages":0,"bytes":0,"first_seq":0,"first_ts":"2026-01-01T00:00:00Z",)",
                        R"("last_seq":0,"last_ts":"2026-01-01T00:00:00Z","consumer_count":0}})");
  }

  const std::string stream_;
  const std::string subjects_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  Part spoilt_ ABSL_GUARDED_BY(mutex_) = Part::kNone;
  Manner manner_ ABSL_GUARDED_BY(mutex_) = Manner::kStops;
  int64_t delay_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool exists_ ABSL_GUARDED_BY(mutex_) = true;
  std::string created_ ABSL_GUARDED_BY(mutex_) = kCreated;
  Creation creation_ ABSL_GUARDED_BY(mutex_) = Creation::kInfo;
  // Needs no mutex: only the acceptor thread uses it, and the destructor after that thread has ended.
  std::list<std::thread> connections_;
  std::thread acceptor_;
};

FakeNats::FakeNats(const std::string& collection) : impl_(std::make_unique<Impl>(collection)) {}
FakeNats::~FakeNats() = default;
std::string FakeNats::url() const { return absl::StrCat("nats://127.0.0.1:", impl_->port()); }
void FakeNats::Spoil(Part part, Manner manner) { impl_->Spoil(part, manner); }
void FakeNats::DelayMessages(absl::Duration delay) { impl_->DelayMessages(delay); }
void FakeNats::AwaitCreation(Creation answer) { impl_->AwaitCreation(answer); }
void FakeNats::HideTimeOfCreation() { impl_->HideTimeOfCreation(); }

}  // namespace maxsim::live
