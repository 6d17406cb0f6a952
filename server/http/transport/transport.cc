#include "server/http/transport/transport.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "base/thread_name.h"
#include "server/http/transport/connection.h"
#include "server/http/transport/handshake_threads.h"
#include "server/observability/logging.h"

namespace maxsim::http {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

// The pause after a failed accept, for example if there was no free file descriptor.
constexpr std::chrono::milliseconds kAcceptPause(50);

// The number of threads, and so of processors, that a flood of handshakes can use. One processor makes about 1,500
// signatures of RSA-2048 per second, or 20,000 of P-256. That suffices, since clients keep their connections.
constexpr int kHandshakeThreads = 2;

constexpr absl::Duration kLongestGrace = absl::Hours(24);  // so that no time overflows the clock

}  // namespace

class Transport::Impl {
 public:
  Impl(TransportOptions options, Application* application)
      : connections_(std::move(options), application, [this] { EndIfDone(); }) {}

  ~Impl() { Stop(absl::ZeroDuration()); }

  absl::StatusOr<int> Start() {
    ErrorCode error = Listen();
    const Tcp::endpoint local = error ? Tcp::endpoint() : acceptor_.local_endpoint(error);
    if (error) {
      const TransportOptions& options = connections_.options();
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", options.host, ":", options.port, ": ", error.message()));
    }
    if (connections_.options().certificates != nullptr) {
      connections_.handshakes = &handshakes_.emplace(kHandshakeThreads);
    }
    thread_ = std::thread([this] { Run(); });
    return local.port();
  }

  void Stop(absl::Duration grace) {
    if (!thread_.joinable()) return;
    asio::post(loop_, [this, grace] {
      connections_.draining = true;
      ErrorCode ignored;
      acceptor_.close(ignored);
      accept_pause_.cancel();
      for (const std::shared_ptr<Connection>& connection : connections_.All()) connection->Drain();
      end_of_grace_.expires_after(absl::ToChronoNanoseconds(std::clamp(grace, absl::ZeroDuration(), kLongestGrace)));
      end_of_grace_.async_wait([this](ErrorCode error) {
        if (error) return;
        connections_.grace_is_over = true;
        connections_.application().EndGrace();
        for (const std::shared_ptr<Connection>& connection : connections_.All()) connection->EndGrace();
      });
      EndIfDone();
    });
    thread_.join();
  }

 private:
  // Tries to listen on the host's addresses in turn, and stops at the first success.
  ErrorCode Listen() {
    ErrorCode error;
    Tcp::resolver resolver(loop_);
    const auto addresses = resolver.resolve(connections_.options().host, std::to_string(connections_.options().port),
                                            Tcp::resolver::passive | Tcp::resolver::numeric_service, error);
    if (error) return error;
    for (const auto& address : addresses) {
      ErrorCode ignored;
      acceptor_.close(ignored);
      if (acceptor_.open(address.endpoint().protocol(), error)) continue;
      // Use SO_REUSEADDR and not SO_REUSEPORT: a second server on the same port must fail instead of sharing it.
      if (acceptor_.set_option(Tcp::acceptor::reuse_address(true), error)) continue;
      if (acceptor_.bind(address.endpoint(), error)) continue;
      if (acceptor_.non_blocking(true, error)) continue;
      if (!acceptor_.listen(Tcp::acceptor::max_listen_connections, error)) break;
    }
    return error;
  }

  void Run() {
    NameThisThread("http");
    while (true) {
      try {
        if (!accepting_ && !connections_.draining) Accept();
        loop_.run();
        return;
      } catch (const std::exception& exception) {
        // Memory ran out, either while a connection's bytes were handled or while a connection was accepted. In the
        // first case, the connection's deadline will close it. In the second case, the transport accepts again after
        // the pause.
        LogException(exception);
        std::this_thread::sleep_for(kAcceptPause);
      }
    }
  }

  // Waits until a connection can be accepted, and then accepts it itself. Asio's accept operation allocates memory
  // before it calls its handler, and would be lost if that allocation failed.
  void Accept() {
    acceptor_.async_wait(Tcp::acceptor::wait_read, [this](ErrorCode error) {
      accepting_ = false;
      if (connections_.draining) return;
      if (!error) error = AcceptOne();
      if (error && error != asio::error::would_block && error != asio::error::connection_aborted) {
        return AcceptLater(error);
      }
      Accept();
    });
    accepting_ = true;
  }

  ErrorCode AcceptOne() {
    ErrorCode error;
    try {
      Tcp::socket socket(loop_);
      acceptor_.accept(socket, error);
      if (!error) Admit(std::move(socket));
    } catch (const std::bad_alloc& exception) {
      LogException(exception);
    }
    return error;
  }

  // If memory runs out, only this connection is closed.
  void Admit(Tcp::socket socket) {
    std::shared_ptr<Connection> connection;
    try {
      ErrorCode ignored;
      socket.set_option(Tcp::no_delay(true), ignored);
      connection = std::make_shared<Connection>(&loop_, std::move(socket), &connections_);
      connection->Start();
    } catch (const std::exception& exception) {
      LogException(exception);
      if (connection != nullptr) connection->Close();
    }
  }

  void AcceptLater(ErrorCode error) {
    log::Write(spdlog::level::warn, "http_accept", {{"error", error.message()}});
    connections_.DropIdle();
    accept_pause_.expires_after(kAcceptPause);
    accept_pause_.async_wait([this](ErrorCode) {
      accepting_ = false;
      if (!connections_.draining) Accept();
    });
    accepting_ = true;
  }

  void EndIfDone() {
    if (!connections_.draining || connections_.size() > 0) return;
    end_of_grace_.cancel();
    work_.reset();
  }

  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  Tcp::acceptor acceptor_{loop_};
  asio::steady_timer accept_pause_{loop_};
  asio::steady_timer end_of_grace_{loop_};
  Connections connections_;
  std::optional<HandshakeThreads> handshakes_;
  bool accepting_ = false;  // a wait for a connection, or a pause, is in progress
  std::thread thread_;
};

Transport::Transport(TransportOptions options, Application* application)
    : impl_(std::make_unique<Impl>(std::move(options), application)) {}
Transport::~Transport() = default;
absl::StatusOr<int> Transport::Start() { return impl_->Start(); }
void Transport::Stop(absl::Duration grace) { impl_->Stop(grace); }

}  // namespace maxsim::http
