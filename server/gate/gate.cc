#include "server/gate/gate.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <list>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/thread_name.h"
#include "server/gate/gate_connections.h"
#include "server/gate/gate_probe.h"
#include "server/gate/grpc_connections.h"
#include "server/gate/listeners.h"
#include "server/gate/peer_address.h"
#include "server/gate/relayed_connection.h"
#include "server/gate/waiting_connection.h"
#include "server/observability/log_event.h"

namespace maxsim::gate {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

// How long the gate pauses after a failed accept, such as without descriptors.
constexpr std::chrono::milliseconds kAcceptPause(50);
constexpr std::chrono::milliseconds kSweepInterval(500);
constexpr std::chrono::milliseconds kDemandedSweepInterval(20);

struct Accepted {
  OwnedFd fd;
  Peer peer;
  int port = 0;  // of the peer
};

}  // namespace

class Gate::Impl {
 public:
  Impl(GateOptions options, GateDependencies dependencies)
      : options_(std::move(options)),
        dependencies_(std::move(dependencies)),
        connections_{.loop = loop_,
                     .options = options_,
                     .dependencies = dependencies_,
                     .hand_over =
                         [this](OwnedFd fd, const Peer& peer, std::string_view bytes, bool tls) {
                           grpc_connections_.Add(fd.get(), peer.host);
                           dependencies_.hand_over(std::move(fd), bytes, tls);
                         }},
        spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

  ~Impl() { Stop(); }

  absl::StatusOr<int> Listen() {
    absl::StatusOr<TcpListeners> tcp = ListenOnTcp(options_.host, options_.port, options_.address);
    if (!tcp.ok()) return tcp.status();
    if (!options_.unix_socket.empty()) {
      absl::StatusOr<OwnedFd> unix_socket = ListenOnUnixSocket(options_.unix_socket);
      if (!unix_socket.ok()) return unix_socket.status();
      owns_socket_file_ = true;
      AddListener(*std::move(unix_socket), /*tls=*/false);
    }
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    getsockname(tcp->sockets.front().get(), reinterpret_cast<sockaddr*>(&own), &size);
    probe_.SetAddress(own);
    for (OwnedFd& socket : tcp->sockets) AddListener(std::move(socket), options_.tls);
    return tcp->port;
  }

  void Start() {
    for (const auto& listener : listeners_) Accept(*listener);
    Sweep();
    thread_ = std::thread([this] { Run(); });
  }

  void StopAccepting() {
    if (stopped_accepting_.exchange(true)) return;
    RemoveSocketFile();
    if (!thread_.joinable()) return listeners_.clear();
    std::promise<void> done;
    asio::post(loop_, [this, &done] {
      for (const auto& listener : listeners_) {
        Error ignored;
        listener->socket.close(ignored);
        listener->pause.cancel();
      }
      // Advance `next` before Drain, which may remove the connection from the list. Catch every exception of Drain: the
      // caller of StopAccepting waits for `done`, which is set after this loop.
      for (auto next = connections_.waiting.begin(); next != connections_.waiting.end();) {
        const std::shared_ptr<WaitingConnection> connection = *next++;
        try {
          connection->Drain();
        } catch (const std::exception&) {
          connection->Close();
        }
      }
      done.set_value();
    });
    done.get_future().wait();
  }

  void Stop() {
    StopAccepting();
    if (!thread_.joinable()) return;
    asio::post(loop_, [this] {
      sweep_timer_.cancel();
      while (!connections_.waiting.empty()) connections_.waiting.front()->Close();
      while (!connections_.unauthenticated.empty()) connections_.unauthenticated.front()->Close();
      while (!connections_.authenticated.empty()) connections_.authenticated.front()->Close();
      work_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  absl::Status Probe(absl::Duration limit) { return probe_.Connect(limit); }

 private:
  struct Listener {
    asio::posix::stream_descriptor socket;
    asio::steady_timer pause;
    bool tls = false;
  };

  void AddListener(OwnedFd fd, bool tls) {
    asio::posix::stream_descriptor socket(loop_, fd.get());
    fd.Release();
    listeners_.push_back(std::unique_ptr<Listener>(
        new Listener{.socket = std::move(socket), .pause = asio::steady_timer(loop_), .tls = tls}));
  }

  void Run() {
    NameThisThread("gate");
    while (true) {
      try {
        loop_.run();
        return;
      } catch (const std::exception& exception) {
        // Memory ran out while the bytes of one connection were handled. The other connections go on. The deadline of
        // that connection will close it.
        log::Write(spdlog::level::err, "gate_exception", {{"error", exception.what()}});
      }
    }
  }

  void Accept(Listener& listener) {
    listener.socket.async_wait(asio::posix::stream_descriptor::wait_read, [this, &listener](Error error) {
      if (error || stopped_accepting_) return;
      // Accept a limited number in one turn: a flood must not starve existing connections.
      constexpr int kAtATime = 64;
      for (int i = 0; i < kAtATime; ++i) {
        Accepted accepted;
        if (const int problem = AcceptOne(listener, accepted); problem != 0) {
          if (problem == EAGAIN || problem == EWOULDBLOCK) break;
          if (problem == EINTR || problem == ECONNABORTED) continue;
          return AcceptLater(listener, problem);
        }
        try {
          Admit(std::move(accepted), listener.tls);
        } catch (const std::exception&) {
          return AcceptLater(listener, ENOMEM);
        }
      }
      Accept(listener);
    });
  }

  // Accepts one connection. Returns 0, or errno.
  int AcceptOne(Listener& listener, Accepted& accepted) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int fd = accept4(listener.socket.native_handle(), reinterpret_cast<sockaddr*>(&address), &size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return errno;
    accepted.fd.Reset(fd);
    accepted.peer = PeerOf(address, &accepted.port);
    const int yes = 1;
    if (accepted.port != 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    return 0;
  }

  // Pauses after a failed accept, and then accepts again. No error ends a listener, since descriptors or memory may
  // soon be free again.
  void AcceptLater(Listener& listener, int problem) {
    if ((problem == EMFILE || problem == ENFILE) && !MakeRoom()) RefuseOne(listener);
    LogAcceptError(problem);
    listener.pause.expires_after(kAcceptPause);
    listener.pause.async_wait([this, &listener](Error error) {
      if (!error && !stopped_accepting_) Accept(listener);
    });
  }

  // Logs at most one line per second, with the number of errors since the last line.
  void LogAcceptError(int problem) {
    const auto now = std::chrono::steady_clock::now();
    ++num_accept_errors_;
    if (now < next_accept_line_) return;
    next_accept_line_ = now + std::chrono::seconds(1);
    log::Write(spdlog::level::warn, "grpc_accept",
               {{"error", std::strerror(problem)}, {"times", std::exchange(num_accept_errors_, 0)}});
  }

  // Closes one connection that has shown no known token: the one that has waited longest or, if none waits, the oldest
  // relayed one. Returns false if there is neither.
  bool MakeRoom() {
    if (!connections_.waiting.empty()) {
      connections_.waiting.front()->Close();
    } else if (!connections_.unauthenticated.empty()) {
      connections_.unauthenticated.front()->Close();
    } else {
      return false;
    }
    dependencies_.on_closed(CloseReason::kFull);
    return true;
  }

  // No descriptor is free, so this uses the spare one to accept a connection and close it. The client then fails
  // immediately instead of waiting for a timeout.
  void RefuseOne(Listener& listener) {
    spare_.Reset();
    OwnedFd(accept4(listener.socket.native_handle(), nullptr, nullptr, SOCK_CLOEXEC)).Reset();
    spare_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dependencies_.on_closed(CloseReason::kFull);
  }

  void Admit(Accepted accepted, bool tls) {
    if (probe_.IsItsConnection(accepted.peer, accepted.port)) return;  // The probe sees it closed.
    if (num_open() >= static_cast<size_t>(options_.max_connections)) SweepOnDemand();
    if (num_open() >= static_cast<size_t>(options_.max_connections) && !MakeRoom()) {
      return dependencies_.on_closed(CloseReason::kFull);
    }
    if (!MakeRoomOfPeer(accepted.peer.host)) return;
    using HandOverAfter = WaitingConnection::HandOverAfter;
    const HandOverAfter hand_over_after = tls                          ? HandOverAfter::kFirstByte
                                          : dependencies_.authenticate ? HandOverAfter::kAuthenticatedCall
                                                                       : HandOverAfter::kPreface;
    const int family = accepted.peer.host.empty() ? AF_UNIX : AF_INET6;
    Socket socket = MakeSocket(loop_, family, std::move(accepted.fd));
    std::make_shared<WaitingConnection>(&connections_, std::move(socket), std::move(accepted.peer), hand_over_after)
        ->Start();
  }

  size_t num_open() const {
    return connections_.waiting.size() + connections_.unauthenticated.size() + connections_.authenticated.size() +
           grpc_connections_.size();
  }

  // Returns true if the peer may have one more connection. If it has reached its limit, first closes its oldest waiting
  // connection. If none of its connections waits, returns false, and the caller must close the new connection.
  bool MakeRoomOfPeer(const std::string& host) {
    if (options_.max_connections_per_peer == 0 || host.empty()) return true;
    const auto limit = static_cast<size_t>(options_.max_connections_per_peer);
    if (OfPeer(host) < limit) return true;
    SweepOnDemand();
    if (OfPeer(host) < limit) return true;
    dependencies_.on_closed(CloseReason::kPeerFull);
    const auto oldest = std::find_if(connections_.waiting.begin(), connections_.waiting.end(),
                                     [&host](const auto& waiting) { return waiting->peer().host == host; });
    if (oldest == connections_.waiting.end()) return false;
    (*oldest)->Close();
    return true;
  }

  size_t OfPeer(const std::string& host) const {
    const auto is_of_peer = [&host](const auto& connection) { return connection->peer().host == host; };
    return grpc_connections_.of_peer(host) +
           std::count_if(connections_.waiting.begin(), connections_.waiting.end(), is_of_peer) +
           std::count_if(connections_.unauthenticated.begin(), connections_.unauthenticated.end(), is_of_peer) +
           std::count_if(connections_.authenticated.begin(), connections_.authenticated.end(), is_of_peer);
  }

  void Sweep() {
    grpc_connections_.Sweep();
    dependencies_.on_counts({.waiting = connections_.waiting.size(),
                             .relayed = connections_.unauthenticated.size() + connections_.authenticated.size(),
                             .handed_over = grpc_connections_.size()});
    sweep_timer_.expires_after(kSweepInterval);
    sweep_timer_.async_wait([this](Error error) {
      if (!error) Sweep();
    });
  }

  // Looks which of gRPC's connections have been closed, for a gate that is full. Does this only now and then, because
  // it needs a system call for each of these connections.
  void SweepOnDemand() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_sweep_) return;
    next_sweep_ = now + kDemandedSweepInterval;
    grpc_connections_.Sweep();
  }

  void RemoveSocketFile() {
    if (std::exchange(owns_socket_file_, false)) unlink(options_.unix_socket.c_str());
  }

  const GateOptions options_;
  const GateDependencies dependencies_;
  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  std::vector<std::unique_ptr<Listener>> listeners_;
  bool owns_socket_file_ = false;
  std::atomic<bool> stopped_accepting_{false};
  asio::steady_timer sweep_timer_{loop_};
  // The members up to the next blank line are used only on the loop's thread.
  GateConnections connections_;
  GrpcConnections grpc_connections_;
  OwnedFd spare_;
  std::chrono::steady_clock::time_point next_sweep_{};  // of SweepOnDemand
  int num_accept_errors_ = 0;
  std::chrono::steady_clock::time_point next_accept_line_{};

  GateProbe probe_;
  std::thread thread_;
};

Gate::Gate(GateOptions options, GateDependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(dependencies))) {}
Gate::~Gate() = default;
absl::StatusOr<int> Gate::Listen() { return impl_->Listen(); }
void Gate::Start() { impl_->Start(); }
void Gate::StopAccepting() { impl_->StopAccepting(); }
void Gate::Stop() { impl_->Stop(); }
absl::Status Gate::Probe(absl::Duration limit) { return impl_->Probe(limit); }

}  // namespace maxsim::gate
